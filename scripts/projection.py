"""Measure what the Sinkhorn projection changes at equal epsilon; a row a run in results/.

The projection uses a released value and public settings only, so a run with it and one without
cost the same. A run whose row is there is not run again; rows of other settings are replaced.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from fedgame import config
from scripts import resumable
from scripts.projection_grid import CASES, PROJECTIONS
from scripts.results import DATA_DIR, ROOT, Key, with_data, write_row
from scripts.resumable import SweepError, check_finished, digest

RESULTS: Final = ROOT / "results" / "projection.csv"


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        case: A key of CASES.
        projection: A key of PROJECTIONS.
        seed: The seed.
        accuracy: Final accuracy on the public test set; None for a task that has none.
        loss: Final loss on the public test set.
        epsilon: The largest guarantee of any client, at the preset's delta.
        settings: Digest of the run's settings.
        seconds: Wall time of the run, data loading and report included.
    """

    case: str
    projection: str
    seed: int
    accuracy: float | None
    loss: float
    epsilon: float
    settings: str
    seconds: float


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what names the run of a row."""
    return row["case"], row["projection"], int(row["seed"])


def settings(case: str, projection: str, seed: int) -> dict[str, Any]:
    """Return a run's flat configuration, without where its data are."""
    own = CASES[case]
    preset = config.read_toml(ROOT / "experiments" / f"{own.preset}.toml")
    return {**preset, **own.overrides, **PROJECTIONS[projection], "seed": seed}


def row_of(
    case: str, projection: str, flat: Mapping[str, Any], summary: Mapping[str, Any], seconds: float
) -> Row:
    """Return the row of a run.

    Raises:
        SweepError: The run ended early.
    """
    check_finished(summary)
    return Row(
        case=case,
        projection=projection,
        seed=flat["seed"],
        accuracy=summary["accuracy"],
        loss=summary["loss"],
        epsilon=summary["worst_epsilon"],
        settings=digest(flat),
        seconds=round(seconds, 1),
    )


def jobs(cases: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Yield the runs of some cases: case, projection, seed."""
    for case in cases:
        for seed, projection in product(CASES[case].seeds, CASES[case].projections):
            yield case, projection, seed


def _run(case: str, projection: str, seed: int) -> None:
    """Run a job unless its row is there.

    Raises:
        SweepError: There is no row to write.
    """
    flat = settings(case, projection, seed)
    label = f"{case}: {projection}, seed {seed}"
    if ((case, projection, seed), digest(flat)) in resumable.done(RESULTS, key_of):
        sys.stderr.write(f"{label}: there already\n")
        return
    located = with_data(flat)
    if located is None:
        sys.stderr.write(f"{label}: skipped, set {DATA_DIR} to the folder that holds MNIST/raw\n")
        return
    # nobody looks at the rounds in between
    row = row_of(case, projection, flat, *resumable.run({**located, "evaluate-every": 10**6}))
    write_row(RESULTS, row, key_of)
    sys.stderr.write(f"{label}: accuracy {row.accuracy}, loss {row.loss:.4g}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and missing; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args(arguments)
    failed = False
    for case, projection, seed in jobs(options.case):
        try:
            _run(case, projection, seed)
        except SweepError as error:
            sys.stderr.write(f"{case}, {projection}, seed {seed}: {error}\n")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
