"""What the paper's constants would have to be: put back, they give its printed values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgame.accountants.lsi import lsi_delta
from fedgame.accountants.order2 import Order2Accountant
from fedgame.games.privacy.mapg import mapg_best_response
from fedgame.ledger.events import SampledGaussian
from scripts import paper_equilibrium
from scripts.paper_grid import CELLS, TASKS, printed
from scripts.paper_implied import (
    TARGET,
    claim_of,
    claimed_delta,
    curvature,
    gradient_norm,
    loss_of_indifference,
    noise_multiplier,
)

SETTINGS = {"quadratic": (5, 5, 10), "logistic": (20, 8, 15), "mnist": (109_386, 10, 20)}
"""d, N and K of appendix D."""


def test_the_printed_table_has_a_line_for_each_task_and_cell() -> None:
    assert list(printed()) == [(task, cell) for task in TASKS for cell in CELLS]
    empty = [place for place, row in printed().items() if not row["epsilon"]]
    assert empty == [("mnist", "mapg-dp")]


@pytest.mark.parametrize("task", TASKS)
def test_the_claim_has_the_constants_of_the_paper(task: str) -> None:
    claim, rounds = claim_of(task)
    assert (claim.dimension, claim.num_clients, rounds) == SETTINGS[task]
    assert (claim.tau, claim.prior_std, claim.variance_penalty) == (0.1, 1.0, 0.01)


@pytest.mark.parametrize(("epsilon", "steps"), [(12.3, 10), (14.2, 15), (23.7, 20)])
def test_the_noise_multiplier_gives_the_epsilon_by_order_2(epsilon: float, steps: int) -> None:
    event = SampledGaussian(noise_multiplier(epsilon, steps), 1.0, steps, "client", "gaussian")
    assert Order2Accountant().epsilon([event], TARGET) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(("task", "delta"), [("quadratic", 0.61), ("logistic", 0.47)])
def test_the_gradient_norm_gives_the_delta(task: str, delta: float) -> None:
    dimension, clients, rounds = SETTINGS[task]
    bound = gradient_norm(delta, 2.0, task)
    found = lsi_delta(2.0, rounds, dimension=dimension, num_clients=clients, gradient_bound=bound)
    assert float(found) == pytest.approx(delta, rel=1e-12)


def test_the_papers_delta_of_mfpg_is_reproduced_at_strength_2_where_g_is_c() -> None:
    claim, rounds = claim_of("quadratic")
    assert f"{claimed_delta(claim, rounds, 2.0):.1e}" == "6.1e-01"
    claim, rounds = claim_of("mnist")
    assert claimed_delta(claim, rounds, 2.0) == 1.0


def test_mfep_has_the_printed_digits_on_the_logistic_task_with_a_bias() -> None:
    claim, rounds = claim_of("logistic")
    assert f"{claimed_delta(claim, rounds, 1.0):.1e}" == "9.9e-02"
    assert f"{claimed_delta(replace(claim, dimension=21), rounds, 1.0):.1e}" == "1.0e-01"


@pytest.mark.parametrize("task", ["quadratic", "logistic"])
def test_at_the_loss_of_indifference_the_two_largest_strengths_are_equally_good(task: str) -> None:
    claim, rounds = claim_of(task)
    loss = loss_of_indifference(task)
    one, two = (loss / (s + 0.1) + claimed_delta(claim, rounds, s) for s in (1.0, 2.0))
    assert one == pytest.approx(two, rel=1e-12)


@pytest.mark.parametrize(("task", "epsilon"), [("quadratic", 0.37), ("logistic", 0.08)])
def test_the_curvature_gives_the_budget_by_the_closed_form(task: str, epsilon: float) -> None:
    clients, one = SETTINGS[task][1], np.ones(1)
    found = mapg_best_response(curvature(epsilon, task) * one, one, 0.01, 1.0, clients, 1e-9, 1e9)
    assert found[0] == pytest.approx(epsilon, rel=1e-12)


def test_recorded_equilibria_are_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from scripts.pml_results import as_text
    from scripts.tables import read_results

    monkeypatch.setattr(paper_equilibrium, "BETAS", paper_equilibrium.BETAS[::26])
    recorded = read_results(paper_equilibrium.EQUILIBRIUM)
    made = paper_equilibrium.equilibrium_rows()
    assert len(made) == 3 * (3 + 8)
    for row in made:
        assert {key: str(as_text(value)) for key, value in row.items()} in recorded
