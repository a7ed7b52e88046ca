"""What is public before the first round: grids, strengths, weights, and the guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.ledger.events import PureDPChoice, SampledGaussian
from fedgame.strategies.plan import Plan, make_plan

COUNTS = np.array([143, 144, 600])
BETAS = np.array([0.3, 1.0, 3.0])


def _plan(**overrides: Any) -> Plan:
    flat = {key.replace("__", ".").replace("_", "-"): value for key, value in overrides.items()}
    experiment = config.load(flat)
    return make_plan(experiment, COUNTS, BETAS, np.full(3, 8.0), PldAccountant())


def test_weights_are_shares_of_the_examples() -> None:
    assert _plan().weights.tolist() == (COUNTS / 887).tolist()


def test_a_grid_of_noise_multipliers_is_met_by_every_client() -> None:
    plan = _plan()
    written = np.array([2, 3, 4.5, 7, 10])
    for index, strength in enumerate(plan.grid):
        found = plan.noise_multipliers(np.full(3, strength))
        assert found[0] == pytest.approx(written[index])
        assert (found >= written[index] * (1 - 1e-12)).all()


def test_strengths_and_noise_multipliers_are_inverse() -> None:
    plan = _plan()
    strengths = np.array([1e-4, 1e-3, 1e-2])
    np.testing.assert_allclose(plan.strengths_of(plan.noise_multipliers(strengths)), strengths)


def test_the_bridge_values() -> None:
    # z = q n sqrt(2 s/tau)/C for n=6000, q=.1, tau=.1, s=1e-4, and n=600, q=.1, tau=.5, s=1e-3
    for count, tau, strength, expected in (
        (6000, 0.1, 1e-4, 26.8328157300),
        (600, 0.5, 1e-3, 3.7947331922),
    ):
        flat = {"training.sampling-rate": 0.1, "jko.tau": tau, "cell": "mfep"}
        experiment = config.load(flat)
        plan = make_plan(experiment, np.array([count]), np.ones(1), np.zeros(1), PldAccountant())
        assert plan.noise_multipliers(np.array([strength]))[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("neighbours", "factor"), [("client", 1.0), ("client-replace", 0.5)])
def test_a_whole_client_is_protected_without_its_number_of_examples(
    neighbours: str, factor: float
) -> None:
    plan = _plan(cell="mfep", training__neighbours=neighbours, jko__tau=0.1, jko__strength=0.1)
    np.testing.assert_allclose(
        plan.noise_multipliers(plan.strengths), factor * np.sqrt(2 * 0.1 / 0.1)
    )


def test_the_printed_scale_of_the_paper() -> None:
    plan = _plan(
        cell="dp-sgd",
        training__neighbours="client",
        training__clip="average",
        training__sampling_rate=1.0,
        gaussian__calibration="paper",
        gaussian__target_epsilon=1.0,
    )
    np.testing.assert_allclose(plan.noise_multipliers(plan.strengths), 4.8448052626)


def test_mapg_budgets_stay_in_their_interval_and_fall_with_beta() -> None:
    plan = _plan(cell="mapg-dp")
    found = plan.noise_multipliers(plan.strengths)
    assert ((found >= 2 - 1e-9) & (found <= 10 + 1e-9)).all()
    alike = make_plan(plan.experiment, np.full(3, 143), BETAS, np.full(3, 8.0), PldAccountant())
    # who minds more takes a smaller budget, that is more noise
    assert (np.diff(alike.noise_multipliers(alike.strengths)) > 0).all()


def test_choices_happen_when_the_schedule_says() -> None:
    plan = _plan()
    assert [r for r in range(1, 61) if plan.chooses(r)] == [1, 16, 31, 46]
    once = _plan(**{"mean-field__schedule": "commit"})
    assert [r for r in range(1, 61) if once.chooses(r)] == [1]
    single = _plan(**{"mean-field__noise-multiplier-grid": "3"})
    assert not any(single.chooses(r) for r in range(1, 61))


def test_adaptive_strengths_are_guaranteed_at_the_smallest_of_the_grid() -> None:
    plan = _plan()
    largest = np.full(3, plan.grid[-1])
    events = plan.guarantee(0, 60, largest)
    (update,) = [event for event in events if isinstance(event, SampledGaussian)]
    assert update.noise_multiplier == pytest.approx(2.0)
    assert update.steps == 60
    assert sum(isinstance(event, PureDPChoice) for event in events) == 4
    # the value that a prototype measured for this setting
    assert PldAccountant().epsilon(events, 1e-5) == pytest.approx(4.97, abs=0.01)


def test_committed_strengths_are_guaranteed_as_they_are() -> None:
    plan = _plan(**{"mean-field__schedule": "commit"})
    events = plan.guarantee(2, 60, np.full(3, plan.grid[-1]))
    update = next(event for event in events if isinstance(event, SampledGaussian))
    assert update.strength == plan.grid[-1]
    assert sum(isinstance(event, PureDPChoice) for event in events) == 1


@pytest.mark.parametrize("cell", ["dp-sgd", "mfep", "mapg-dp", "mfpg"])
def test_the_weakest_client_has_the_largest_guarantee(cell: str) -> None:
    plan = _plan(cell=cell)
    costs = [
        PldAccountant().epsilon(plan.guarantee(client, 10, plan.strengths), 1e-5)
        for client in range(3)
    ]
    assert costs[plan.weakest_client(plan.strengths)] == pytest.approx(max(costs))
