"""Find the step size for docs/heterogeneity.md on held-out training images; one row a run.

DP-SGD at the strictest client's epsilon is what the game is compared with, so the step is the one
that is best for it; the game takes the same one. The test images are not looked at.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fedgame import config
from fedgame.errors import FedgameError
from fedgame.tasks.base import DataSource
from fedgame.tasks.data_files import Pixels
from fedgame.tasks.mnist_files import read_mnist
from scripts import resumable
from scripts.heterogeneity import PRESET
from scripts.results import DATA_DIR, ROOT, Key, write_row
from scripts.resumable import SweepError, check_finished, digest

RESULTS: Final = ROOT / "results" / "heterogeneity_steps.csv"
STEPS: Final = (0.5, 1.0, 2.0)
TARGET: Final = 0.38
"""What a client that takes the largest strength of the grid is guaranteed, to two digits."""
HELD_OUT: Final = 10_000
IDX_BYTES: Final = 0x800
"""Magic number of an idx file of unsigned bytes, without its rank."""


@dataclass(frozen=True)
class Row:
    """One run of DP-SGD.

    Attributes:
        step: The step size.
        accuracy: On the held-out images, after training on the others.
        loss: Likewise.
        epsilon: The guarantee.
        settings: Digest of the run's settings.
        seconds: Wall time of the run.
    """

    step: float
    accuracy: float
    loss: float
    epsilon: float
    settings: str
    seconds: float


def key_of(row: Mapping[str, Any]) -> Key:
    """Return what names the run of a row."""
    return (float(row["step"]),)


def write_split(data_dir: str, folder: Path) -> None:
    """Write MNIST's training images as a set of their own, whose test images are their last ones.

    Args:
        data_dir: Where MNIST is.
        folder: Where the set of 50,000 and 10,000 images goes, in MNIST's layout.

    Raises:
        DataError: MNIST is not there or not as it should be.
    """
    train, _ = read_mnist(DataSource(data_dir=data_dir))
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for prefix, part in (("train", slice(-HELD_OUT)), ("t10k", slice(-HELD_OUT, None))):
        for kind, values in (
            ("images-idx3", train.images[part]),
            ("labels-idx1", train.labels[part]),
        ):
            _write_idx(raw / f"{prefix}-{kind}-ubyte", values)


def _write_idx(path: Path, values: Pixels) -> None:
    header = struct.pack(f">{1 + values.ndim}I", IDX_BYTES + values.ndim, *values.shape)
    path.write_bytes(header + values.tobytes())


def settings(step: float) -> dict[str, Any]:
    """Return a run's flat configuration, without where its data are."""
    return {
        **config.read_toml(PRESET),
        "cell": "dp-sgd",
        "gaussian.calibration": "target",
        "gaussian.target-epsilon": TARGET,
        "gaussian.learning-rate": step,
        "task.verify-checksums": False,
    }


def _run(step: float, folder: Path) -> None:
    flat = settings(step)
    if (key_of({"step": step}), digest(flat)) in resumable.done(RESULTS, key_of):
        sys.stderr.write(f"step {step}: there already\n")
        return
    summary, seconds = resumable.run({**flat, "task.data-dir": str(folder)})
    check_finished(summary)
    row = Row(
        step=step,
        accuracy=summary["accuracy"],
        loss=summary["loss"],
        epsilon=summary["worst_epsilon"],
        settings=digest(flat),
        seconds=round(seconds, 1),
    )
    write_row(RESULTS, row, key_of)
    sys.stderr.write(f"step {step}: accuracy {row.accuracy} on held-out images\n")


def main() -> int:
    """Run what is missing; return 1 if a run failed or there are no data."""
    try:
        with tempfile.TemporaryDirectory(prefix="fedgame-split-") as name:
            folder = Path(name)
            write_split(os.environ.get(DATA_DIR, ""), folder)
            for step in STEPS:
                _run(step, folder)
    except (FedgameError, SweepError) as error:
        sys.stderr.write(f"error: {error} ({DATA_DIR} names the folder)\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
