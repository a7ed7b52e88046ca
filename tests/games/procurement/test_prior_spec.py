"""Priors as text: scipy.stats itself is the judge of what a distribution means."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedgame.errors import DataError
from fedgame.games.procurement.prior_spec import parse_prior
from fedgame.games.procurement.virtual_cost import make_prior


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 5), st.floats(0.01, 5), st.floats(0.01, 1))
def test_uniform_is_from_low_to_high(low: float, width: float, share: float) -> None:
    prior = parse_prior(f"uniform:{low!r}:{low + width!r}")
    c = low + share * width
    # F/f = c - low
    assert prior.virtual_cost([c])[0] == pytest.approx(2 * c - low, rel=1e-9)
    assert (prior.c_min, prior.c_max) == pytest.approx((low, low + width))


@pytest.mark.parametrize(
    ("text", "distribution"),
    [
        ("beta:2:5", stats.beta(2, 5)),
        ("beta:2:5:0.1:2", stats.beta(2, 5, 0.1, 2)),
        ("expon:0:0.3", stats.expon(0, 0.3)),
        ("expon", stats.expon()),
        ("lognorm:0.5", stats.lognorm(0.5)),
        (" gamma : 2 ", stats.gamma(2)),
        ("truncnorm:-1:inf:0.3:0.2", stats.truncnorm(-1, np.inf, 0.3, 0.2)),
    ],
)
def test_other_distributions_are_those_of_scipy(text: str, distribution: object) -> None:
    named, frozen = parse_prior(text), make_prior(distribution)
    assert (named.c_min, named.c_max) == (frozen.c_min, frozen.c_max)
    c = np.linspace(named.c_min, named.c_max, 7)[1:-1]
    assert named.virtual_cost(c).tolist() == frozen.virtual_cost(c).tolist()


def test_a_distribution_is_truncated() -> None:
    prior = parse_prior("expon:0:1", 2.0)
    assert prior.c_max == 2.0
    # F(c)/f(c) of a distribution that was cut off above does not depend on where
    assert prior.virtual_cost([1.5])[0] == pytest.approx(1.5 + np.expm1(1.5))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("uniform:0", "uniform has 2 arguments, LOW and HIGH, not 1"),
        ("uniform:0:1:2", "not 3"),
        ("uniform:1:1", "LOW = 1 must be below HIGH = 1"),
        ("uniform:0:inf", "both finite"),
        ("uniform:0:x", "argument 'x' must be a number"),
        ("uniform:-2:-1", "hardly any probability above 0"),
        ("norm:-5:1", "hardly any probability above 0"),
        ("beta:2", "beta has 2 to 4 arguments, a, b, loc, scale"),
        ("beta:2:5:0:1:9", "not 5"),
        ("beta:2:", "argument '' must be a number"),
        ("beta:2:nan", "argument 'nan' must be a number"),
        ("beta:-2:5", "beta does not allow the arguments -2, 5"),
        ("expon:0:-1", "the scale must be > 0"),
        ("expon:inf", "expon does not allow the arguments inf"),
        ("betta:2:5", "unknown distribution 'betta', did you mean 'beta'? allowed: uniform:LOW"),
        ("sample:x.csv", "did you mean 'samples'?"),
        ("qqqq", "unknown distribution 'qqqq'; allowed: uniform:LOW:HIGH"),
        ("", "unknown distribution ''"),
        ("poisson:3", "poisson is discrete"),
        ("samples:", "samples need a file"),
    ],
)
def test_a_wrong_text_is_one_line_that_says_what_is_allowed(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)) as error:
        parse_prior(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content",
    ["0.4\n0.1\n\n 0.1\n0.4\n", "sensitivity\r\n0.1\r\n0.1\r\n0.4\r\n0.4\r\n",
     "\ufeffclient,sensitivity\na,0.1\nb,0.1\n,0.4\nd,0.4", "cost\n0.1\n.1\n.4\n.4\n"],
)  # fmt: skip
def test_samples_of_a_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "a:b.csv").write_bytes(content.encode())
    prior = parse_prior("samples:a:b.csv", folder=tmp_path)
    # c_i + (c_i - c_(i-1)) F_(i-1)/f_i = 0.4 + 0.3 * 0.5/0.5
    assert prior.virtual_cost([0.1, 0.4]) == pytest.approx([0.1, 0.7], abs=1e-12)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "cannot be read"),
        ("\n", "is empty"),
        ("0.1\nx\n", "line 2: sample = 'x': must be a finite number >= 0"),
        ("0.1\n-1\n", "line 2: sample = '-1': must be a finite number >= 0"),
        ("a,b\n0.1,0.2\n", "no column sensitivity; its columns are: a, b"),
        ("sensitivity\n", "nothing below"),
    ],
)
def test_wrong_samples_name_file_and_line(tmp_path: Path, content: str | None, what: str) -> None:
    path = tmp_path / "prior.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError) as error:
        parse_prior(f"samples:{path}")
    assert str(error.value).startswith(str(path))
    assert what in str(error.value)


def test_samples_are_not_truncated(tmp_path: Path) -> None:
    (tmp_path / "prior.csv").write_text("0.1\n0.2\n")
    with pytest.raises(ValueError, match=r"c_max = 1.0: samples end"):
        parse_prior("samples:prior.csv", 1.0, folder=tmp_path)
