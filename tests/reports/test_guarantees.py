from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgame.reports.guarantees import (
    EQUAL,
    LOOSER,
    NO_CLAIM,
    NO_GUARANTEE,
    NOT_COVERED,
    compare,
    format_bound,
    format_number,
    guarantee_rows,
    verdict_summary,
)


# The sound values are exact: a Gaussian mechanism with mu = sqrt(K tau / (2 s)), K = 10, tau = .1.
@pytest.mark.parametrize(
    ("strength", "claimed", "verdict"),
    [
        (0.1, 0.0909090909, NOT_COVERED),
        (0.3, 0.0909090909, NOT_COVERED),
        (0.5, 0.0909090909, NOT_COVERED),
        (1.0, 0.0909090909, LOOSER),
        (2.0, 0.6095709073, LOOSER),
    ],
)
def test_verdict_on_the_papers_claims(strength: float, claimed: float, verdict: str) -> None:
    mu = math.sqrt(0.5 / strength)

    def normal_cdf(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    sound = normal_cdf(mu / 2 - 1 / mu) - math.e * normal_cdf(-mu / 2 - 1 / mu)
    assert compare(claimed, sound) == verdict


@pytest.mark.parametrize(
    ("claimed", "sound", "verdict"),
    [
        (0.1, 0.1, EQUAL),
        (0.1, 0.1000001, EQUAL),
        (0.1, 0.1001, NOT_COVERED),
        (0.1, math.inf, NO_GUARANTEE),
        (0.1, math.nan, NO_GUARANTEE),
        (math.nan, 0.1, NO_GUARANTEE),
        (0.0, 0.1, NOT_COVERED),
    ],
)
def test_verdict_at_the_edges(claimed: float, sound: float, verdict: str) -> None:
    assert compare(claimed, sound) == verdict


def test_entropic_rows_compare_deltas(make_result: Any, config: Any) -> None:
    rows = guarantee_rows(make_result(), config)
    assert [row.claimed_value for row in rows] == [0.0909090909] * 4
    assert [row.sound_value for row in rows] == pytest.approx([0.5891 / k**2 for k in (1, 2, 3, 4)])
    assert [row.verdict for row in rows] == [NOT_COVERED, NOT_COVERED, LOOSER, LOOSER]


@pytest.mark.parametrize("cell", ["dp-sgd", "mapg-dp"])
def test_gaussian_rows_compare_the_order_2_epsilon(
    make_result: Any, config: Any, cell: str
) -> None:
    rows = guarantee_rows(make_result(game=False), config | {"cell": cell})
    assert rows[0].claimed_value == 11.0
    assert rows[0].sound_value == 4.96801
    assert {row.verdict for row in rows} == {LOOSER}


def test_order_2_is_no_claim_of_the_paper_for_entropic_cells(make_result: Any, config: Any) -> None:
    rows = guarantee_rows(make_result(game=False), config | {"cell": "mfep"})
    assert {row.verdict for row in rows} == {NO_CLAIM}
    assert "no claim" in verdict_summary(rows, config)[0]


def test_summary_counts_and_names_the_largest_gap(make_result: Any, config: Any) -> None:
    text = " ".join(verdict_summary(guarantee_rows(make_result(), config), config))
    assert "not covered by the guarantee for 2 of 4 clients" in text
    assert "looser than the guarantee for 2 of 4 clients" in text
    assert "client 0: for δ at ε = 1, 0.09091 is claimed and 0.5891 is guaranteed" in text
    assert "does not by itself prove it false" in text
    assert "attain" not in text


def test_attained_bound_is_mentioned_only_under_the_client_relation(
    make_result: Any, config: Any
) -> None:
    result = make_result()
    client = config | {"training.neighbours": "client"}
    assert "attain" in " ".join(verdict_summary(guarantee_rows(result, client), client))
    weak = replace(result.clients[0], claimed_delta=0.9)
    rows = guarantee_rows(replace(result, clients=(weak,)), client)
    assert verdict_summary(rows, client) == (
        "The paper's claim is looser than the guarantee for 1 of 1 client.",
    )


@given(st.floats(min_value=1e-300, max_value=1e300), st.integers(1, 8))
def test_printed_bound_is_a_bound_and_tight(value: float, digits: int) -> None:
    printed = float(format_bound(value, digits))
    assert value <= printed <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15)


@pytest.mark.parametrize(
    ("value", "number", "bound"),
    [
        (None, "\N{EN DASH}", "\N{EN DASH}"),
        (math.nan, "\N{EN DASH}", "\N{EN DASH}"),
        (math.inf, "∞", "∞"),
        (0.0, "0", "0"),
        (0.1, "0.1", "0.1"),
        (1e-5, "1e-5", "1e-5"),
        (3.472e-5, "3.472e-5", "3.472e-5"),
        (4.96801, "4.968", "4.969"),
        (9.99991, "10", "10"),
        (12345.6, "12350", "12350"),
        (1e9, "1e9", "1e9"),
    ],
)
def test_number_formats(value: float | None, number: str, bound: str) -> None:
    assert format_number(value) == number
    assert format_bound(value) == bound
