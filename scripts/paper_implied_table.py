"""The table of what the MFPG paper's printed values would need, for docs/mfpg-paper.md."""

from __future__ import annotations

from dataclasses import replace

from fedgame.accountants.lsi import LsiAccountant
from fedgame.mechanisms.gaussian import paper_noise_multiplier
from fedgame.reports.guarantees import format_number
from scripts.paper_cells import Rows, header, line, number, runs_of, three
from scripts.paper_grid import TASKS, printed
from scripts.paper_implied import (
    LARGEST_STRENGTH,
    TARGET,
    claim_of,
    claimed_delta,
    curvature,
    gradient_norm,
    loss_of_indifference,
    noise_multiplier,
)


def implied_table(rows: Rows) -> list[str]:
    """Return one line a printed value that its formula does not give: what would give it."""
    return [
        *header(["task, cell", "printed", "its formula gives", "it would need", "stated"]),
        *(_order_two(rows, task) for task in TASKS),
        _dimension(),
        *(_gradient(task) for task in TASKS),
        _other_cell(),
        *(_loss(rows, task) for task in ("quadratic", "logistic")),
        *(_budget(rows, task) for task in ("quadratic", "logistic")),
    ]


def _order_two(rows: Rows, task: str) -> str:
    """Compare noise multipliers: what order 2 needs for a printed epsilon, and what is stated."""
    (run,) = runs_of(rows, "paper", task, "dp-sgd")
    own = printed()[task, "dp-sgd"]["epsilon"]
    needs = noise_multiplier(float(own), int(run["rounds"]))
    return line(
        [
            f"{task}, dp-sgd",
            f"epsilon {own}",
            number(run["claimed_epsilon"]),
            f"noise multiplier {needs:.3g}",
            f"{paper_noise_multiplier(1.0, TARGET):.4g}",
        ]
    )


def _dimension() -> str:
    """Compare dimensions: with a bias, eq. 4.3 gives MFEP's delta on the logistic task."""
    claim, rounds = claim_of("logistic")
    own = printed()["logistic", "mfep"]["delta"]
    biased = replace(claim, dimension=claim.dimension + 1)
    return line(
        [
            "logistic, mfep",
            f"delta {own}",
            _delta(claim, rounds, 1.0),
            f"d = {biased.dimension}, which gives {_delta(biased, rounds, 1.0)}",
            f"d = {claim.dimension}",
        ]
    )


def _gradient(task: str) -> str:
    """Compare gradient norms: what eq. 4.3 needs for MFPG's delta at the largest strength."""
    claim, rounds = claim_of(task)
    own = printed()[task, "mfpg"]["delta"]
    needs = gradient_norm(float(own), LARGEST_STRENGTH, task)
    least = "at least " if float(own) >= 1 else ""
    return line(
        [
            f"{task}, mfpg",
            f"delta {own}",
            f"{_delta(claim, rounds, LARGEST_STRENGTH)} at s = {LARGEST_STRENGTH:g}",
            f"G = {least}{needs:.2f} at that s",
            f"C = {claim.gradient_bound:g}, and s from a grid",
        ]
    )


def _other_cell() -> str:
    """Show what MFPG's G on the logistic task does to MFEP's delta there."""
    claim, rounds = claim_of("logistic")
    needs = gradient_norm(
        float(printed()["logistic", "mfpg"]["delta"]), LARGEST_STRENGTH, "logistic"
    )
    return line(
        [
            "logistic, mfep",
            f"delta {printed()['logistic', 'mfep']['delta']}",
            f"{_delta(replace(claim, gradient_bound=needs), rounds, 1.0)} with G = {needs:.2f} as "
            "for mfpg",
            "G = C, another than for mfpg",
            f"C = {claim.gradient_bound:g}",
        ]
    )


def _loss(rows: Rows, task: str) -> str:
    """Compare losses: from which on a client of beta = 1 takes the largest strength."""
    (run,) = runs_of(rows, "paper", task, "mfpg")
    return line(
        [
            f"{task}, mfpg",
            f"loss {printed()[task, 'mfpg']['loss']}",
            number(run["loss"]),
            f"above {three(loss_of_indifference(task))} for s = {LARGEST_STRENGTH:g} at beta = 1",
            "no scale of the data",
        ]
    )


def _budget(rows: Rows, task: str) -> str:
    """Compare budgets: the curvature that our closed form needs for MAPG-DP's epsilon."""
    (run,) = runs_of(rows, "paper", task, "mapg-dp")
    own = printed()[task, "mapg-dp"]["epsilon"]
    return line(
        [
            f"{task}, mapg-dp",
            f"epsilon {own}",
            number(run["claimed_epsilon"]),
            f"our closed form: Hessian trace {format_number(curvature(float(own), task), 2)}",
            "no formula",
        ]
    )


def _delta(claim: LsiAccountant, rounds: int, strength: float) -> str:
    return three(claimed_delta(claim, rounds, strength))
