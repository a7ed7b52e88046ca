"""The figures of a game by messages: which lines, which numbers, which axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedgame.accountants.pml_bounds import Bound
from fedgame.accountants.pml_distances import REALISED
from fedgame.games.aggregative.transcript import Transcript
from fedgame.reports import game_figures, style
from fedgame.reports.game_run import GameRun
from fedgame.reports.game_section import FIGURES
from tests.reports.game_runs import Built, build_game, change, without_messages


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def with_bound(run: GameRun, *values: float) -> GameRun:
    """Return the run with one bound only."""
    return change(run, audit={"bounds": (Bound("Theorem 1", np.array(values), REALISED),)})


def test_the_leakage_has_bounds_attacks_and_the_budget(built: Built) -> None:
    figure = game_figures.leakage(built.run)
    found = traces(figure)
    assert list(found) == [
        "Theorem 1",
        "composition",
        "Remark 5 (no bound)",
        "group DP",
        "Theorem 1, every transcript (estimate)",
        "Bayes, log gain",
        "Gradient matching, log gain",
        "Exact leakage",
        "Could have leaked",
        "Ceiling",
        "Budget R",
    ]
    assert set(found["Budget R"].y) == {2.0}
    assert found["Ceiling"].y == pytest.approx([4 * math.log(2)] * 4)
    # a click shows the others
    hidden = {name for name, trace in found.items() if trace.visible == "legendonly"}
    assert hidden == {"Remark 5 (no bound)", "Theorem 1, every transcript (estimate)"}
    dotted = {name for name, trace in found.items() if trace.line.dash == "dot"}
    assert dotted == hidden
    assert found["Ceiling"].line.dash == "dash"
    possible = [record.possible for record in built.run.result.iterations]
    assert list(found["Could have leaked"].y) == possible
    assert list(found["Exact leakage"].x) == [0, 1, 2, 3]


def test_a_linear_axis_shows_every_number(built: Built) -> None:
    run = with_bound(built.run, 0.0, 1.0, 1.5, 2.0)
    figure = game_figures.leakage(run)
    assert figure is not None
    assert figure.layout.yaxis.type is None
    found = traces(figure)
    assert list(found["Exact leakage"].y) == run.audit.leakage.tolist()
    assert list(found["Bayes, log gain"].y) == run.audit.bayes_log_gain.tolist()


def test_a_bound_far_above_makes_the_axis_logarithmic(built: Built) -> None:
    run = with_bound(built.run, 0.0, 10.0, 30.0, 70.0)
    figure = game_figures.leakage(run)
    assert figure is not None
    assert figure.layout.yaxis.type == "log"
    low, high = figure.layout.yaxis.range
    assert 10**low < run.audit.leakage[1] < 70 < 10**high < 140
    found = traces(figure)
    # message 0 leaks nothing, and 0 has no place on this axis
    assert found["Exact leakage"].y[0] is None
    assert found["Exact leakage"].y[1:] == tuple(run.audit.leakage[1:].tolist())


def test_no_budget_is_drawn_where_none_is_enforced() -> None:
    run = build_game(rounds=2, pml_filter__action="measure").run
    assert "Budget R" not in traces(game_figures.leakage(run))


def test_the_leakage_of_a_long_run_is_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "MAX_POINTS", 5)
    run = build_game(players=2, rounds=40, cournot__curvature="1,1").run
    (line,) = (t for t in game_figures.leakage(run).data if t.name == "Exact leakage")  # type: ignore[union-attr]
    assert list(line.x) == [0, 10, 20, 30, 40]
    assert line.y[-1] == run.audit.leakage[-1]


def test_each_player_has_its_marks(built: Built) -> None:
    found = traces(game_figures.individual_leakage(built.run))
    assert list(found) == ["Leakage", "Bayes, log gain", "Ceiling"]
    assert list(found["Leakage"].y) == built.run.audit.individual_leakage[-1].tolist()
    assert set(found["Ceiling"].y) == {math.log(2)}
    assert found["Leakage"].hovertemplate.startswith("player %{customdata}")


def test_errors_need_one_equilibrium_and_all_types(built: Built) -> None:
    outcome = built.run.audit.outcome
    assert outcome is not None
    assert outcome.error is not None
    (line,) = game_figures.error(built.run).data  # type: ignore[union-attr]
    assert list(line.y) == outcome.error.tolist()
    assert game_figures.error(change(built.run, outcome={"error": None})) is None
    hidden = change(built.run, audit={"outcome": None})
    assert game_figures.error(hidden) is None
    assert game_figures.exploitability(hidden) is None


@pytest.mark.parametrize(
    ("values", "kind"),
    [((1.0, 0.5, 0.2, 0.1), None), ((1.0, 0.1, 1e-3, 1e-4), "log"), ((1.0, 0.1, 0.0, 0.0), None)],
)
def test_scores_that_fall_far_are_on_a_logarithmic_axis(
    built: Built, values: tuple[float, ...], kind: str | None
) -> None:
    run = change(built.run, outcome={"exploitability": np.array(values)})
    figure = game_figures.exploitability(run)
    assert figure is not None
    assert figure.layout.yaxis.type == kind


def test_an_endless_gain_is_a_gap(built: Built) -> None:
    gains = np.array([math.inf, 2.0, 1.5, 1.0])
    figure = game_figures.exploitability(change(built.run, outcome={"exploitability": gains}))
    assert figure is not None
    assert list(figure.data[0].y) == [None, 2.0, 1.5, 1.0]
    nothing = change(built.run, outcome={"exploitability": np.full(4, math.inf)})
    assert game_figures.exploitability(nothing) is None


def test_the_noise_is_shown_beside_the_plan(built: Built) -> None:
    found = traces(game_figures.noise(built.run))
    assert list(found) == ["Planned", "Largest used"]
    assert list(found["Planned"].y) == list(found["Largest used"].y) == [1.0, 1.5, 2.0, 2.5]


def test_raised_noise_and_messages_that_were_not_sent(built: Built) -> None:
    transcript = built.run.result.transcript
    scales, sent = transcript.scales.copy(), transcript.sent.copy()
    scales[1, 2] = 9.0
    scales[2, 0], sent[2, 0] = 99.0, False
    sent[3] = False
    changed = Transcript(transcript.messages, scales, sent)
    found = traces(game_figures.noise(change(built.run, transcript=changed)))
    assert list(found["Largest used"].y) == [1.0, 9.0, 2.0, None]
    assert list(found["Smallest used"].y) == [1.0, 1.5, 2.0, None]


def test_a_run_without_messages_has_no_figures(built: Built) -> None:
    run = without_messages(built.run)
    assert [draw(run) for _, draw, _ in FIGURES] == [None] * len(FIGURES)


def test_all_figures_look_alike(built: Built) -> None:
    for title, draw, caption in FIGURES:
        figure = draw(built.run)
        assert figure is not None, title
        assert figure.layout.paper_bgcolor == "rgba(0, 0, 0, 0)"
        assert caption.endswith(".")
