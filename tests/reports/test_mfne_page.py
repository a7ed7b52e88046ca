"""The page, figures and rows of a mean-field equilibrium."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgame.games.privacy.equilibrium import MeanFieldGame, mean_field_equilibria
from fedgame.games.privacy.welfare import price_of_anarchy
from fedgame.reports.mfne_figures import SMALLEST_DELTA, distribution, strength_by_preference
from fedgame.reports.mfne_page import render_equilibrium
from fedgame.reports.mfne_result import (
    Rules,
    SolvedMeanField,
    grouped,
    notes,
    played_strengths,
    uniqueness,
)

GRID = np.array([1.0, 2.0, 4.0])
BETAS = np.array([0.5, 1.0, 2.0, 3.0])
RULES = Rules(
    num_clients=8,
    release="aggregate",
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


def crowding(mean: float) -> NDArray[np.float64]:
    """Return U: two indifferent types in the middle of two of a fixed mind."""
    low, high = np.array([0.0, 5.0, 5.0]), np.array([5.0, 5.0, 0.0])
    middle = np.array([2.0, mean, 5.0])
    return np.array([low, middle, middle, high])


@pytest.fixture
def solved() -> SolvedMeanField:
    game = MeanFieldGame(GRID, np.ones(4), crowding)
    equilibria = mean_field_equilibria(game)
    return SolvedMeanField(
        rules=RULES,
        betas=BETAS,
        shares=game.weights,
        grid=GRID,
        noise_multipliers=np.array([1.0, 1.5, 2.0]),
        epsilons=np.array([3.0, 2.0, 1.00001]),
        sound_deltas=np.array([0.1, 0.01, 1e-15]),
        claimed_deltas=np.array([0.05, 0.05, 0.6]),
        equilibria=equilibria,
        price=price_of_anarchy(game, equilibria),
    )


def test_the_middle_types_mix_so_that_the_mean_is_two(solved: SolvedMeanField) -> None:
    # s-bar = 2 makes them indifferent, and (1 + 2 m + 4)/4 = 2 is their mean m
    assert solved.equilibrium.mean_strength == pytest.approx(2.0)
    assert solved.means() == pytest.approx([1, 1.5, 1.5, 4])
    assert solved.nash_conv == pytest.approx(0, abs=1e-9)


def test_rows_are_one_a_played_strength(solved: SolvedMeanField) -> None:
    rows = [(row.beta, row.strength, row.probability) for row in played_strengths(solved)]
    assert rows == [
        (0.5, 1.0, 1.0),
        (1.0, 1.0, pytest.approx(0.5)),
        (1.0, 2.0, pytest.approx(0.5)),
        (2.0, 1.0, pytest.approx(0.5)),
        (2.0, 2.0, pytest.approx(0.5)),
        (3.0, 4.0, 1.0),
    ]
    last = list(played_strengths(solved))[-1]
    assert (last.epsilon, last.noise_multiplier, last.claimed_delta) == (1.00001, 2.0, 0.6)


def test_neighbouring_types_of_one_strategy_are_one_line(solved: SolvedMeanField) -> None:
    lines = [(betas, row.strength, row.share) for betas, row in grouped(solved)]
    assert lines == [
        ("0.5", 1.0, 0.25),
        ("1 to 2", 1.0, 0.5),
        ("1 to 2", 2.0, 0.5),
        ("3", 4.0, 0.25),
    ]


def test_types_that_others_part_are_not_one_line(solved: SolvedMeanField) -> None:
    strategies = np.eye(3)[[0, 2, 0, 0]]
    (found,) = solved.equilibria
    parted = replace(solved, equilibria=(replace(found, strategies=strategies),))
    assert [betas for betas, _ in grouped(parted)] == ["0.5", "1", "2 to 3"]


def test_nash_conv_counts_every_client(solved: SolvedMeanField) -> None:
    (found,) = solved.equilibria
    gains = replace(found.exploitability, gains=np.array([0.0, 1.0, 0.0, 3.0]))
    worse = replace(solved, equilibria=(replace(found, exploitability=gains),))
    assert worse.nash_conv == pytest.approx(2 * (1.0 + 3.0))


def test_notes_say_what_was_assumed(solved: SolvedMeanField) -> None:
    text = " ".join(notes(solved))
    for part in ("Only the sum", "by the accountant rdp", "not a guarantee", "into 4 types"):
        assert part in text
    assert "several equilibria" not in text
    local = replace(solved, rules=replace(RULES, release="local", accountant="rdp"))
    text = " ".join(notes(replace(local, claimed_deltas=None)))
    assert "does not depend on theirs" in text
    for part in ("Only the sum", "by the accountant rdp", "not a guarantee"):
        assert part not in text
    curved = replace(local, rules=replace(local.rules, linear_loss=False))
    assert "does not depend on theirs" not in " ".join(notes(curved))


def test_several_equilibria_are_said(solved: SolvedMeanField) -> None:
    (found,) = solved.equilibria
    two = replace(solved, equilibria=(found, replace(found, mean_strength=3.0)))
    assert any("several equilibria, of mean strength 2, 3" in note for note in notes(two))


@pytest.mark.parametrize(("unique", "word"), [(True, "yes"), (False, "no"), (None, "not known")])
def test_uniqueness_in_a_word(solved: SolvedMeanField, unique: bool | None, word: str) -> None:
    (found,) = solved.equilibria
    assert uniqueness(replace(solved, equilibria=(replace(found, unique=unique),))) == word


def test_the_first_figure_has_what_is_played(solved: SolvedMeanField) -> None:
    figure = strength_by_preference(solved)
    by_name = {trace.name: trace for trace in figure.data}
    played = by_name["Strength played"]
    assert list(zip(played.x, played.y, strict=True)) == [
        (row.beta, row.strength) for row in played_strengths(solved)
    ]
    sizes = played.marker.size
    assert sizes[0] > sizes[1]
    assert list(by_name["Mean of the type"].y) == pytest.approx([1, 1.5, 1.5, 4])
    assert by_name["Mean of all, s̄"].y[0] == pytest.approx(2.0)
    optimum = solved.price.optimum.mean_strength
    assert by_name["Social optimum"].y == (optimum, optimum)


def test_one_type_still_has_lines(solved: SolvedMeanField) -> None:
    (found,) = solved.equilibria
    one = replace(
        solved,
        betas=np.array([2.0]),
        shares=np.ones(1),
        equilibria=(replace(found, strategies=np.eye(3)[:1]),),
    )
    by_name = {trace.name: trace for trace in strength_by_preference(one).data}
    low, high = by_name["Social optimum"].x
    assert low < 2 < high


def test_the_second_figure_has_shares_and_deltas(solved: SolvedMeanField) -> None:
    figure = distribution(solved)
    by_name = {trace.name: trace for trace in figure.data}
    assert list(by_name["Share of clients"].y) == pytest.approx([0.5, 0.25, 0.25])
    assert list(by_name["Share of clients"].x) == ["1", "2", "4"]
    assert list(by_name["Sound δ at ε = 1"].y) == [0.1, 0.01, SMALLEST_DELTA]
    assert list(by_name["Claimed δ"].y) == [0.05, 0.05, 0.6]
    assert figure.layout.yaxis2.type == "log"
    unclaimed = distribution(replace(solved, claimed_deltas=None))
    assert "Claimed δ" not in {trace.name for trace in unclaimed.data}


def test_the_page_says_it_all_and_loads_nothing(solved: SolvedMeanField) -> None:
    page = render_equilibrium(solved)
    body = page.partition("<script")[0]
    # an epsilon is rounded up, so that it is still a bound
    assert "epsilons from 1.001 to 3 at delta 1e-05" in body
    for text in ("8 clients, release aggregate", "1 to 2", "What is played", "mfne.csv"):
        assert text in body
    assert body.count('class="plot"') == 2
    assert 'src="http' not in page
    assert "\N{EN DASH}" in render_equilibrium(replace(solved, claimed_deltas=None))


def test_one_epsilon_is_not_a_range(solved: SolvedMeanField) -> None:
    page = render_equilibrium(replace(solved, epsilons=np.full(3, 1.5)))
    assert "that gives epsilon 1.5 at delta" in page
