"""Rows, notes and figure of the mean-field limit."""

from __future__ import annotations

import numpy as np
import pytest

from fedgame.games.privacy.mean_field_limit import MeanFieldRate
from fedgame.reports.limit_page import limit_figure, render_limit
from fedgame.reports.limit_result import SolvedLimit, limit_notes, limit_rows
from fedgame.reports.mfne_result import Rules

RULES = Rules(
    num_clients=8,
    release="local",
    coupling="residual",
    privacy="epsilon",
    cost=0.1,
    loss="quadratic, curvature 1",
    linear_loss=True,
    num_examples=50,
    steps=20,
    neighbours="example",
    accountant="pld",
    delta=1e-5,
)


def rate(*, converged: bool, exponent: float) -> MeanFieldRate:
    return MeanFieldRate(
        sizes=np.array([2, 100]),
        distances=np.array([0.1, 0.0]),
        mean_distances=np.array([0.05, 0.0]),
        gains=np.array([0.25, 0.0]),
        rounds=np.array([7, 0]),
        converged=(converged, True),
        exponent=exponent,
    )


@pytest.fixture
def solved() -> SolvedLimit:
    return SolvedLimit(
        RULES,
        0.5,
        "best-response",
        rate(converged=False, exponent=float("nan")),
        rate(converged=True, exponent=-0.5),
        repeats=4,
    )


def test_what_did_not_converge_is_said_with_its_residual(solved: SolvedLimit) -> None:
    assert not solved.converged
    assert "No equilibrium was found, in proportion, for N = 2: the largest gain" in " ".join(
        limit_notes(solved)
    )
    page = render_limit(solved).partition("<script")[0]
    for text in ("not all converged", "like none in proportion, like N^-0.50 sampled", "0.25"):
        assert text in page
    assert "does not depend on the others'" in " ".join(limit_notes(solved))


def test_the_figure_leaves_out_zeros_and_crosses_out_failures(solved: SolvedLimit) -> None:
    rows = list(limit_rows(solved))
    assert len(rows) == 4
    figure = limit_figure(rows, {"in proportion": float("nan"), "sampled": -0.5})
    one, other = figure.data
    assert (list(one.x), list(one.marker.symbol)) == ([2], ["x"])
    assert (other.name, list(other.marker.symbol)) == ("sampled: N^-0.50", ["diamond"])
    assert figure.layout.yaxis.type == "log"
