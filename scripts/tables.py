"""Rewrite the generated tables of README.md and docs/**/*.md from results/*.csv.

A table stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. With --check nothing is
written, and the exit code is 1 if a table is not what the results say.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

from fedgame.reports.guarantees import compare, format_bound, format_number
from scripts import (
    attack_tables,
    equal_epsilon_tables,
    flow_tables,
    game_tables,
    paper_implied_table,
    paper_tables,
    pml_tables,
)
from scripts.jsam_grid import (
    BUDGETS,
    COMPARED,
    COMPARED_BUDGETS,
    COMPARED_SIMILARITIES,
    MECHANISMS,
    SEED,
    SIMILARITIES,
    Job,
    job_of,
)
from scripts.table_parts import Rows, accuracy, numbers, percent, span

ROOT = Path(__file__).resolve().parents[1]
CELLS = ("dp-sgd", "mfep", "mapg-dp", "mfpg")
TARGETS = ("jsam", "pml", "heterogeneity", "projection", "attack", "mfne", "flow", "population")
"""Folders and files of results/ that have a make target of their own."""
READING = {
    "not covered": "below the guarantee: not supported",
    "looser": "above the guarantee: true, and weak",
    "equal": "equal to the guarantee",
}

OF_THE_PAPER = (
    "full_benchmark.csv",
    "full_benchmark_rounds.csv",
    "equilibrium.csv",
    "frontier.csv",
)
"""What `make paper` writes."""

_BLOCK = re.compile(
    r"(?P<begin><!-- begin (?P<name>[a-z-]+) -->\n).*?(?P<end><!-- end (?P=name) -->)", re.DOTALL
)
_MARKER = re.compile(r"<!-- (?:begin|end) [^>]*-->")


class TableError(Exception):
    """A table cannot be made; the text is for the user."""


def read_results(path: Path) -> Rows:
    """Return the rows of a result file.

    Raises:
        TableError: The file is missing or has no rows.
    """
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except OSError:
        rows = []
    if not rows:
        parts = (path.parent.name, path.stem.partition("_")[0])
        own = [part for part in parts if part in TARGETS]
        target = "-".join(["results", *own])
        target = "paper" if path.name in OF_THE_PAPER else target
        raise TableError(f"{path}: no results there; make {target}")
    return rows


def _cell_line(cell: str, rows: Rows) -> str:
    columns = (
        cell,
        accuracy(rows),
        format_bound(max(numbers(rows, "worst_epsilon")), 3),
        span(
            format_bound(min(numbers(rows, "realised_min")), 3),
            format_bound(max(numbers(rows, "realised_max")), 3),
        ),
        str(len(rows)),
    )
    return f"| {' | '.join(columns)} |"


def cells_table(rows: Rows) -> list[str]:
    """Return one line a cell: accuracy, guarantee and realised epsilon over all seeds."""
    lines = [
        "| cell | test accuracy, mean (range) | guaranteed epsilon, worst client | "
        "realised epsilon, over clients | seeds |",
        "|---|---|---|---|---|",
    ]
    for cell in CELLS:
        own = [row for row in rows if row["cell"] == cell]
        if own:
            lines.append(_cell_line(cell, own))
    return lines


def claims_table(rows: Rows) -> list[str]:
    """Return one line a task: the delta that the paper claims for MFEP, and the sound one."""
    lines = [
        "| preset | delta claimed by the paper | sound delta at epsilon 1 | the claim is |",
        "|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: float(row["claimed_delta"])):
        claimed, sound = float(row["claimed_delta"]), float(row["sound_delta_at_epsilon_1"])
        columns = (
            f"`experiments/{row['preset']}.toml`",
            format_number(claimed),
            format_bound(sound),
            READING[compare(claimed, sound)],
        )
        lines.append(f"| {' | '.join(columns)} |")
    return lines


def jsam_accuracy_table(rows: Rows) -> list[str]:
    """Return one line a split and mechanism: accuracy at each budget, with the first seed."""
    reached = {job_of(row): percent(float(row["accuracy"])) for row in rows}
    lines = [
        f"| s | mechanism | {' | '.join(f'budget {budget:g}' for budget in BUDGETS)} |",
        f"|---|---|{'---|' * len(BUDGETS)}",
    ]
    for similarity, mechanism in product(SIMILARITIES, MECHANISMS):
        jobs = [Job(mechanism, similarity, budget, SEED) for budget in BUDGETS]
        cells = (str(similarity), mechanism, *(reached.get(job, "-") for job in jobs))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def jsam_seeds_table(rows: Rows) -> list[str]:
    """Return JSAM and USBM over all seeds, at the splits and budgets that have them."""
    lines = [
        "| s | budget | mechanism | test accuracy, mean (range) | paid, mean | "
        "clients that took part | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for similarity, budget, mechanism in product(COMPARED_SIMILARITIES, COMPARED_BUDGETS, COMPARED):
        own = [row for row in rows if _same(job_of(row), Job(mechanism, similarity, budget, 0))]
        if own:
            lines.append(_seeds_line(job_of(own[0]), own))
    return lines


def _same(job: Job, other: Job) -> bool:
    return replace(job, seed=0) == replace(other, seed=0)


def _seeds_line(job: Job, rows: Rows) -> str:
    participants = numbers(rows, "participants")
    columns = (
        str(job.similarity),
        f"{job.budget:g}",
        job.mechanism,
        accuracy(rows),
        format_number(fmean(numbers(rows, "total_payment")), 3),
        span(f"{min(participants):g}", f"{max(participants):g}"),
        str(len(rows)),
    )
    return f"| {' | '.join(columns)} |"


def population_table(rows: Rows) -> list[str]:
    """Return one line a run: time of a round and of the whole, cost of a client, memory, disk."""
    lines = [
        "| task | clients | round in which all choose | other round | a client, other round "
        "| first round | whole run | memory, peak | run folder |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in sorted(rows, key=lambda row: (row["task"], int(row["clients"]))):
        plain, clients = float(row["plain_seconds"]), int(row["clients"])
        columns = (
            row["task"],
            f"{clients:,}",
            f"{float(row['choice_seconds']):.2f} s",
            f"{plain:.2f} s",
            f"{format_number(1e6 * plain / clients, 2)} us",
            f"{float(row['first_seconds']):.2f} s",
            f"{float(row['run_seconds']):.0f} s",
            f"{float(row['peak_mebibytes']) / 1024:.1f} GiB",
            f"{float(row['folder_mebibytes']):.1f} MiB",
        )
        lines.append(f"| {' | '.join(columns)} |")
    return lines


BLOCKS: Mapping[str, tuple[str, Callable[[Rows], list[str]]]] = {
    "demo": ("demo.csv", cells_table),
    "sound-mnist": ("sound_mnist.csv", cells_table),
    "mfep-claims": ("paper_mfep.csv", claims_table),
    "mfpg-utility": ("full_benchmark.csv", paper_tables.utility_table),
    "mfpg-privacy": ("full_benchmark.csv", paper_tables.privacy_table),
    "mfpg-implied": ("full_benchmark.csv", paper_implied_table.implied_table),
    "mfpg-sound": ("full_benchmark.csv", paper_tables.sound_table),
    "mfpg-duration": ("full_benchmark.csv", paper_tables.duration_table),
    "mfpg-equilibrium": ("equilibrium.csv", paper_tables.equilibrium_table),
    "mfpg-frontier": ("frontier.csv", paper_tables.frontier_table),
    "jsam-accuracy": ("jsam/accuracy.csv", jsam_accuracy_table),
    "jsam-seeds": ("jsam/accuracy.csv", jsam_seeds_table),
    "mfne-coupling": ("mfne/coupling.csv", game_tables.coupling_table),
    "mfne-limit": ("mfne/limit.csv", game_tables.limit_table),
    "mfne-equations": ("mfne/equations.csv", game_tables.equations_table),
    "population": ("population/scaling.csv", population_table),
    "flow-logistic": ("flow/curve.csv", flow_tables.logistic_table),
    "flow-quadratic": ("flow/curve.csv", flow_tables.quadratic_table),
    "pml-gain": ("pml/gain.csv", pml_tables.gain_table),
    "pml-leakage": ("pml/leakage.csv", pml_tables.leakage_table),
    "pml-tradeoff": ("pml/tradeoff.csv", pml_tables.tradeoff_table),
    "pml-correlation": ("pml/correlation.csv", pml_tables.correlation_table),
    "pml-stopping": ("pml/stopping.csv", pml_tables.stopping_table),
    "heterogeneity": ("heterogeneity.csv", equal_epsilon_tables.heterogeneity_table),
    "heterogeneity-clients": ("heterogeneity.csv", equal_epsilon_tables.clients_table),
    "heterogeneity-steps": ("heterogeneity_steps.csv", equal_epsilon_tables.steps_table),
    "projection": ("projection.csv", equal_epsilon_tables.projection_table),
    "two-point": ("attack/two_point.csv", attack_tables.two_point_table),
    "flow-attack": ("attack/flow.csv", attack_tables.flow_table),
}
"""Name of a block: the file in results/ that it shows, and how."""


def with_tables(text: str, results: Path) -> str:
    """Return a Markdown text with its generated blocks made anew.

    Raises:
        TableError: A block is unknown, has no end, or its results are missing.
    """

    def fill(block: re.Match[str]) -> str:
        if block["name"] not in BLOCKS:
            raise TableError(f"unknown block {block['name']}; known: {', '.join(BLOCKS)}")
        file, table = BLOCKS[block["name"]]
        body = "\n".join(table(read_results(results / file)))
        return f"{block['begin']}{body}\n{block['end']}"

    if len(_MARKER.findall(text)) != 2 * len(_BLOCK.findall(text)):
        raise TableError("a `begin` marker has no `end` of the same name, or the reverse")
    return _BLOCK.sub(fill, text)


def stale_files(root: Path) -> dict[Path, str]:
    """Return each page whose tables are not what the results say, with its new text."""
    stale = {}
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        try:
            fresh = with_tables(text, root / "results")
        except TableError as error:
            raise TableError(f"{path.relative_to(root)}: {error}") from None
        if fresh != text:
            stale[path] = fresh
    return stale


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite or check the tables; return 1 if a table is stale or cannot be made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say whether tables are stale")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to work on")
    options = parser.parse_args(arguments)
    try:
        stale = stale_files(options.root)
    except TableError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for path, text in stale.items():
        if options.check:
            sys.stderr.write(
                f"error: {path.relative_to(options.root)}: stale tables; make tables\n"
            )
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
