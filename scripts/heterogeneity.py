"""Compare clients' own epsilons with the strictest client's for all; a row a run in results/.

A row is written when its run ends, and a run whose row is there is not run again. Rows made with
other settings are replaced.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fedgame import config
from scripts import resumable
from scripts.results import DATA_DIR, ROOT, Key, read_rows, with_data, write_row
from scripts.resumable import SweepError, check_finished, digest
from scripts.table_parts import LIST_SEPARATOR, listed

PRESET: Final = ROOT / "experiments" / "sound" / "mnist-heterogeneous.toml"
RESULTS: Final = ROOT / "results" / "heterogeneity.csv"
SEEDS: Final = (42, 43, 44, 45, 46)


@dataclass(frozen=True)
class Row:
    """One run; lists are separated by spaces, in the order of the clients.

    Attributes:
        seed: The seed.
        method: A key of METHODS.
        accuracy: Final accuracy on the public test set.
        loss: Final loss on the public test set.
        smallest: The smallest guarantee of any client, epsilon at the preset's delta.
        largest: The largest one.
        guarantees: Each client's.
        betas: Each client's preference; empty without a game.
        noise_multipliers: Noise over sensitivity of each client's messages.
        strengths: The entropic strength of each client.
        settings: Digest of the run's settings.
        seconds: Wall time of the run, data loading and report included.
    """

    seed: int
    method: str
    accuracy: float
    loss: float
    smallest: float
    largest: float
    guarantees: str
    betas: str
    noise_multipliers: str
    strengths: str
    settings: str
    seconds: float


Flat = Mapping[str, Any]
Rows = Mapping[Key, Mapping[str, str]]


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what names the run of a row."""
    return int(row["seed"]), row["method"]


def _game(preset: Flat, seed: int, rows: Rows) -> Flat:  # noqa: ARG001
    return {}


def _strictest(preset: Flat, seed: int, rows: Rows) -> Flat:  # noqa: ARG001
    """Everybody has at most the smallest of the epsilons that the clients of the game have."""
    return {
        "cell": "dp-sgd",
        "gaussian.calibration": "target",
        "gaussian.target-epsilon": float(rows[seed, "mfpg"]["smallest"]),
    }


def _own_gaussian(preset: Flat, seed: int, rows: Rows) -> Flat:  # noqa: ARG001
    """The game with Gaussian steps: what MFPG is without Sinkhorn and the pull of the prior."""
    return {"mechanism.name": "gaussian", "gaussian.learning-rate": preset["jko.tau"]}


def _strictest_entropic(preset: Flat, seed: int, rows: Rows) -> Flat:
    noise_multiplier = listed(rows[seed, "dp-sgd"]["noise_multipliers"])[0]
    step = preset["gaussian.learning-rate"]
    return {"cell": "mfep", "jko.noise-multiplier": noise_multiplier, "jko.tau": step}


METHODS: Final[Mapping[str, Callable[[Flat, int, Rows], Flat]]] = {
    "mfpg": _game,
    "dp-sgd": _strictest,
    "own-gaussian": _own_gaussian,
    "mfep": _strictest_entropic,
}
"""What each method changes in the preset, given the rows of the methods before it."""


def settings(method: str, seed: int, preset: Flat, rows: Rows) -> dict[str, Any]:
    """Return a run's flat configuration.

    Raises:
        SweepError: A row that it follows from is not there.
    """
    try:
        return {**preset, "seed": seed, **METHODS[method](preset, seed, rows)}
    except KeyError as missing:
        raise SweepError(f"the row {missing} must be there first") from None


def row_of(method: str, flat: Flat, summary: Mapping[str, Any], seconds: float) -> Row:
    """Return the row of a run.

    Raises:
        SweepError: The run ended early.
    """
    check_finished(summary)
    clients = summary["clients"]
    guarantees = [client["guarantee"] for client in clients]
    has_game = all(client["beta"] is not None for client in clients)
    return Row(
        seed=flat["seed"],
        method=method,
        accuracy=summary["accuracy"],
        loss=summary["loss"],
        smallest=min(guarantees),
        largest=max(guarantees),
        guarantees=_listed(guarantees),
        betas=_listed([client["beta"] for client in clients]) if has_game else "",
        noise_multipliers=_listed([client["noise_multiplier"] for client in clients]),
        strengths=_listed([client["strength"] for client in clients]),
        settings=digest(flat),
        seconds=round(seconds, 1),
    )


def _listed(values: Sequence[float]) -> str:
    return LIST_SEPARATOR.join(map(repr, values))


def _run(method: str, seed: int, preset: Flat) -> None:
    """Run a method with a seed unless its row is there."""
    flat = settings(method, seed, preset, read_rows(RESULTS, key_of))
    label = f"{method} seed {seed}"
    if ((seed, method), digest(flat)) in resumable.done(RESULTS, key_of):
        sys.stderr.write(f"{label}: there already\n")
        return
    row = row_of(method, flat, *resumable.run(flat))
    write_row(RESULTS, row, key_of)
    sys.stderr.write(
        f"{label}: accuracy {row.accuracy}, epsilon {row.smallest:.3g} to {row.largest:.3g}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and missing; return 1 if a run failed or there are no data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    options = parser.parse_args(arguments)
    preset = with_data(config.read_toml(PRESET))
    if preset is None:
        sys.stderr.write(f"set {DATA_DIR} to the folder that holds MNIST/raw\n")
        return 1
    failed = False
    for method in options.method:
        for seed in options.seeds:
            try:
                _run(method, seed, preset)
            except SweepError as error:
                sys.stderr.write(f"{method} seed {seed}: {error}\n")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
