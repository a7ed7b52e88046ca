"""Players who are alike, or who have nothing to choose, play MFEP, bit for bit."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest

from fedgame.ledger.events import LedgerRow, SampledGaussian
from fedgame.ledger.store import Ledger
from fedgame.runner import Finished
from tests.support import Run

ALIKE: dict[str, Any] = {"population.beta-min": 1.0, "population.beta-max": 1.0}
NOTE = "one strength, so that nobody has anything to choose"
FORMS = [
    ("mean-field.strength-grid", "0.02, 0.06, 0.12, 0.3", "0.06", "jko.strength"),
    ("mean-field.noise-multiplier-grid", "2, 3, 4.5, 7", "3", "jko.noise-multiplier"),
]
"""A grid, one of its points, and how MFEP writes that point."""


def _updates(finished: Finished) -> list[LedgerRow]:
    with Ledger(finished.folder / "ledger.sqlite") as ledger:
        return [row for row in ledger.rows() if isinstance(row.event, SampledGaussian)]


def _assert_same(game: Finished, alone: Finished) -> None:
    assert game.summary["model_sha256"] == alone.summary["model_sha256"]
    updates = _updates(game)
    assert len(updates) == 5 * 4
    assert updates == _updates(alone)


@pytest.mark.parametrize(("schedule", "sinkhorn"), [("every-round", True), ("commit", False)])
@pytest.mark.parametrize(("key", "point", "fixed"), [(key, *rest) for key, _, *rest in FORMS])
def test_a_grid_of_one_point_is_mfep(
    run: Run, key: str, point: str, fixed: str, schedule: str, sinkhorn: bool
) -> None:
    both = {"jko.sinkhorn": sinkhorn}
    game = run({**ALIKE, **both, key: point, "mean-field.schedule": schedule})
    alone = run({**both, "cell": "mfep", fixed: float(point)})
    _assert_same(game, alone)
    for one, other in zip(game.summary["clients"], alone.summary["clients"], strict=True):
        assert one["guarantee"] == one["realised"] == other["guarantee"]
    assert any(NOTE in note for note in game.summary["notes"])
    assert NOTE in (game.folder / "report.html").read_text()
    assert not any(NOTE in note for note in alone.summary["notes"])


@pytest.mark.parametrize(("key", "grid", "_", "fixed"), FORMS)
def test_equal_players_play_one_strength_of_a_larger_grid(
    run: Run, key: str, grid: str, _: str, fixed: str
) -> None:
    choose = {"mean-field.selection": "public", "mean-field.schedule": "commit"}
    game = run({**ALIKE, **choose, key: grid, "mean-field.cost": 0.1})
    with (game.folder / "strengths.csv").open() as stream:
        played = {value for row in list(csv.reader(stream))[1:] for value in row[1:]}
    assert len(played) == 1
    name = "strength" if fixed == "jko.strength" else "noise_multiplier"
    points = np.array([float(point) for point in grid.split(",")])
    (chosen,) = {
        points[np.abs(points - client[name]).argmin()] for client in game.summary["clients"]
    }
    # an inner point, so that the choice weighed one term against the other
    assert points[0] < chosen < points[-1]
    _assert_same(game, run({"cell": "mfep", fixed: float(chosen)}))
    assert not any(NOTE in note for note in game.summary["notes"])
