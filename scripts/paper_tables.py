"""The tables of docs/mfpg-paper.md, from results/full_benchmark.csv and its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import Final, TypeAlias

from fedgame.accountants.lsi import LsiAccountant
from fedgame.mechanisms.gaussian import paper_noise_multiplier
from fedgame.reports.guarantees import format_bound, format_number
from scripts.paper_grid import CELLS, TASKS, printed
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

Rows: TypeAlias = Sequence[Mapping[str, str]]

UTILITY_NOTES: Final[Mapping[str, str]] = {"quadratic": "a", "logistic": "b c", "mnist": "d"}
"""Which sentences of the page explain the losses and accuracies of a task."""

PRIVACY_NOTES: Final[Mapping[tuple[str, str], str]] = {
    **{(task, "dp-sgd"): "e" for task in TASKS},
    **{(task, "mfep"): "f" for task in TASKS},
    ("logistic", "mfep"): "f g",
    **{(task, "mapg-dp"): "h" for task in TASKS},
    ("quadratic", "mfpg"): "f i",
    ("logistic", "mfpg"): "f i j",
    ("mnist", "mfpg"): "f k",
}
"""Which sentences explain epsilon and delta of a task and cell."""


def utility_table(rows: Rows) -> list[str]:
    """Return one line a task and cell: loss and accuracy as printed, and in both modes."""
    kinds = ("printed", "paper mode", "sound mode")
    columns = [f"{quantity}, {kind}" for quantity, kind in product(("loss", "accuracy"), kinds)]
    lines = _header(["task", "cell", *columns, "why"])
    table = printed()
    for task, cell in product(TASKS, CELLS):
        one, many = _runs(rows, "paper", task, cell), _runs(rows, "sound", task, cell)
        if not one or not many:
            continue
        lines.append(
            _line(
                [
                    task,
                    cell,
                    table[task, cell]["loss"] or "-",
                    format_number(float(one[0]["loss"]), 3),
                    _spread(many, "loss"),
                    table[task, cell]["accuracy"] or "-",
                    _spread(one, "accuracy"),
                    _spread(many, "accuracy"),
                    _notes(UTILITY_NOTES[task]),
                ]
            )
        )
    return lines


def privacy_table(rows: Rows) -> list[str]:
    """Return one line a task and cell: what the paper's accountants say, and what holds."""
    lines = _header(
        [
            "task",
            "cell",
            "printed: epsilon, delta",
            "its accountants, paper mode",
            "guarantee of that run: epsilon at 1e-5",
            "delta at epsilon 1",
            "sound mode: epsilon at 1e-5",
            "why",
        ]
    )
    table = printed()
    for task, cell in product(TASKS, CELLS):
        one, many = _runs(rows, "paper", task, cell), _runs(rows, "sound", task, cell)
        if not one or not many:
            continue
        own, run = table[task, cell], one[0]
        lines.append(
            _line(
                [
                    task,
                    cell,
                    f"{own['epsilon']}, {own['delta']}" if own["epsilon"] else "-",
                    f"{_number(run['claimed_epsilon'])}, {_number(run['claimed_delta'])}",
                    _bound(run["sound_epsilon"]),
                    _bound(run["sound_delta"]),
                    format_bound(max(_numbers(many, "sound_epsilon")), 3),
                    _notes(PRIVACY_NOTES[task, cell]),
                ]
            )
        )
    return lines


def implied_table(rows: Rows) -> list[str]:
    """Return one line a printed value that its formula does not give: what would give it."""
    return [
        *_header(["task, cell", "printed", "its formula gives", "it would need", "stated"]),
        *(_order_two(rows, task) for task in TASKS),
        _dimension(),
        *(_gradient(task) for task in TASKS),
        _other_cell(),
        *(_loss(rows, task) for task in ("quadratic", "logistic")),
        *(_budget(rows, task) for task in ("quadratic", "logistic")),
    ]


def _order_two(rows: Rows, task: str) -> str:
    """Compare noise multipliers: what order 2 needs for a printed epsilon, and what is stated."""
    (run,) = _runs(rows, "paper", task, "dp-sgd")
    own = printed()[task, "dp-sgd"]["epsilon"]
    needs = noise_multiplier(float(own), int(run["rounds"]))
    return _line(
        [
            f"{task}, dp-sgd",
            f"epsilon {own}",
            _number(run["claimed_epsilon"]),
            f"noise multiplier {needs:.3g}",
            f"{paper_noise_multiplier(1.0, TARGET):.4g}",
        ]
    )


def _dimension() -> str:
    """Compare dimensions: with a bias, eq. 4.3 gives MFEP's delta on the logistic task."""
    claim, rounds = claim_of("logistic")
    own = printed()["logistic", "mfep"]["delta"]
    biased = replace(claim, dimension=claim.dimension + 1)
    return _line(
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
    return _line(
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
    return _line(
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
    (run,) = _runs(rows, "paper", task, "mfpg")
    return _line(
        [
            f"{task}, mfpg",
            f"loss {printed()[task, 'mfpg']['loss']}",
            _number(run["loss"]),
            f"above {_three(loss_of_indifference(task))} for s = {LARGEST_STRENGTH:g} at beta = 1",
            "no scale of the data",
        ]
    )


def _budget(rows: Rows, task: str) -> str:
    """Compare budgets: the curvature that our closed form needs for MAPG-DP's epsilon."""
    (run,) = _runs(rows, "paper", task, "mapg-dp")
    own = printed()[task, "mapg-dp"]["epsilon"]
    return _line(
        [
            f"{task}, mapg-dp",
            f"epsilon {own}",
            _number(run["claimed_epsilon"]),
            f"our closed form: Hessian trace {format_number(curvature(float(own), task), 2)}",
            "no formula",
        ]
    )


def _delta(claim: LsiAccountant, rounds: int, strength: float) -> str:
    return _three(claimed_delta(claim, rounds, strength))


def sound_table(rows: Rows) -> list[str]:
    """Return one line a task and cell of sound mode, over all seeds."""
    lines = _header(
        [
            "task",
            "cell",
            "loss, mean (range)",
            "accuracy, mean (range)",
            "guaranteed epsilon, worst client",
            "realised epsilon, over clients",
            "the paper's accountants would print",
            "seeds",
        ]
    )
    for task, cell in product(TASKS, CELLS):
        own = _runs(rows, "sound", task, cell)
        if not own:
            continue
        low, high = min(_numbers(own, "realised_min")), max(_numbers(own, "realised_max"))
        lines.append(
            _line(
                [
                    task,
                    cell,
                    _spread(own, "loss"),
                    _spread(own, "accuracy"),
                    format_bound(max(_numbers(own, "sound_epsilon")), 3),
                    _range(format_bound(low, 3), format_bound(high, 3)),
                    f"{_number(own[0]['claimed_epsilon'])}, {_number(own[0]['claimed_delta'])}",
                    str(len(own)),
                ]
            )
        )
    return lines


def duration_table(rows: Rows) -> list[str]:
    """Return one line a mode and task: how many runs, and how long they took together."""
    lines = _header(["mode", "task", "runs", "minutes"])
    for mode, task in product(("paper", "sound"), TASKS):
        own = [row for row in rows if (row["mode"], row["task"]) == (mode, task)]
        if own:
            lines.append(_line([mode, task, str(len(own)), _minutes(own)]))
    return [*lines, _line(["both", "all", str(len(rows)), _minutes(rows)])]


def equilibrium_table(rows: Rows) -> list[str]:
    """Return one line a rule: what the clients of the paper's spread population play."""
    lines = _header(
        [
            "rule",
            "strength against beta",
            "strengths for beta in [0.5, 1.5]",
            "mean strength",
            "claimed delta",
            "sound delta at epsilon 1",
        ]
    )
    for rule in dict.fromkeys(row["rule"] for row in rows):
        own = [row for row in rows if row["rule"] == rule]
        spread = [row for row in own if row["population"] == "spread"]
        alone = [row for row in own if row["population"] == "equal"]
        lines.append(
            _line(
                [
                    rule,
                    f"{_number(alone[0]['strength'])} at beta {_number(alone[0]['beta'])}, "
                    f"{_number(alone[-1]['strength'])} at {_number(alone[-1]['beta'])}",
                    _counted(spread),
                    _number(spread[0]["mean_strength"]),
                    _extent(spread, "claimed_delta"),
                    _extent(spread, "sound_delta"),
                ]
            )
        )
    return lines


def frontier_table(rows: Rows) -> list[str]:
    """Return one line a factor on the noise: sound epsilon and accuracy of each cell."""
    lines = _header(["noise", *(f"{cell}: epsilon, accuracy" for cell in CELLS)])
    sound = [row for row in rows if row["mode"] == "sound"]
    for level in sorted({float(row["level"]) for row in sound}):
        cells = []
        for cell in CELLS:
            own = [r for r in sound if r["cell"] == cell and float(r["level"]) == level]
            worst = format_bound(max(_numbers(own, "sound_epsilon")), 3) if own else "-"
            cells.append(f"{worst}, {_spread(own, 'accuracy')}")
        lines.append(_line([f"{level:g} times", *cells]))
    return [*lines, "", f"All {len(rows)} runs took {_minutes(rows)} minutes."]


def _runs(rows: Rows, mode: str, task: str, cell: str) -> Rows:
    wanted = (mode, task, cell)
    return [row for row in rows if (row["mode"], row["task"], row["cell"]) == wanted]


def _numbers(rows: Rows, column: str) -> list[float]:
    return [float(row[column]) for row in rows if row[column]]


def _spread(rows: Rows, column: str) -> str:
    values = _numbers(rows, column)
    if not values:
        return "-"
    write = _percent if column == "accuracy" else _three
    if len(values) == 1:
        return write(values[0])
    return f"{write(fmean(values))} ({_range(write(min(values)), write(max(values)))})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _three(value: float) -> str:
    return format_number(value, 3)


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _extent(rows: Rows, column: str) -> str:
    values = _numbers(rows, column)
    return _range(_three(min(values)), _three(max(values)))


def _counted(rows: Rows) -> str:
    strengths = [row["strength"] for row in rows]
    return ", ".join(f"{s} ({strengths.count(s)} clients)" for s in dict.fromkeys(strengths))


def _number(text: str) -> str:
    return format_number(float(text), 4)


def _bound(text: str) -> str:
    return format_bound(float(text), 3)


def _minutes(rows: Rows) -> str:
    return f"{sum(_numbers(rows, 'seconds')) / 60:.1f}"


def _notes(letters: str) -> str:
    return ", ".join(f"({letter})" for letter in letters.split())


def _header(cells: Sequence[str]) -> list[str]:
    return [_line(cells), f"|{'---|' * len(cells)}"]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
