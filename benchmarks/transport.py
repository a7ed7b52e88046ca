"""The entropic self-transport of particles on a line, beside POT (a peer). One thread."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import norm

from benchmarks.measure import mebibytes, timed
from fedgame.mechanisms.sinkhorn import large_projection, pot_projection
from fedgame.mechanisms.sinkhorn_1d import FloatArray

REG = 0.1
"""The regulariser over the particles' variance, a JKO step's default."""

REPEATS = 5
SIZES = (10_000, 100_000, 1_000_000)
LIMIT = 2.0
"""Seconds that the largest set may take."""

PEER_SIZE = 4096


def particles(number: int) -> FloatArray:
    """Return the quantiles of a Gaussian: POT stops too early at a particle far from the others."""
    quantiles: FloatArray = norm.ppf((np.arange(number) + 0.5) / number)
    return quantiles


def of_large_sets() -> Table:
    """Measure one projection of each size."""
    table = Table(
        title="Projections: CPU time of one thread",
        caption=f"limit: {LIMIT:g} seconds. MiB: the most that is allocated besides the particles; "
        "bytes: the same for each particle.",
    )
    table.add_column("particles", no_wrap=True, justify="right")
    for column in ("seconds", "MiB", "bytes", "of the limit"):
        table.add_column(column, justify="right")
    for number in SIZES:
        x = particles(number)
        taken = median(timed(large_projection, x, REG)[0] for _ in range(REPEATS))
        memory = mebibytes(large_projection, x, REG)
        cells = (f"{memory:.1f}", f"{memory * 2**20 / number:.0f}", f"{taken / LIMIT:.0%}")
        table.add_row(f"{number:,}", f"{taken:.3f}", *cells)
    return table


class BesidePot(NamedTuple):
    """Our projection and POT's of the same particles.

    Attributes:
        ours: Seconds.
        pot: Seconds.
        difference: Of the projections, the largest, in standard deviations.
        memory: Of ours and of POT's, MiB.
    """

    ours: float
    pot: float
    difference: float
    memory: tuple[float, float]


def beside_pot(number: int) -> BesidePot:
    """Measure both."""
    x = particles(number)
    ours, pot = [
        [timed(project, x, REG) for _ in range(repeats)]
        for project, repeats in ((large_projection, REPEATS), (pot_projection, 1))
    ]
    return BesidePot(
        median(seconds for seconds, _ in ours),
        pot[0][0],
        float(np.abs(ours[0][1] - pot[0][1]).max() / x.std()),
        (mebibytes(large_projection, x, REG), mebibytes(pot_projection, x, REG)),
    )


def peers() -> Table:
    """Set ours beside POT."""
    row = beside_pot(PEER_SIZE)
    table = Table(
        title=f"{PEER_SIZE:,} particles: CPU time of one thread",
        caption="ratio: in multiples of ours. difference: the largest, in standard deviations.",
    )
    table.add_column("how", no_wrap=True)
    for column in ("seconds", "ratio", "MiB", "difference"):
        table.add_column(column, justify="right")
    table.add_row("ours", f"{row.ours:.3f}", "1", f"{row.memory[0]:.1f}", "0")
    cells = (f"{row.pot / row.ours:,.0f}", f"{row.memory[1]:.0f}", f"{row.difference:.1e}")
    table.add_row("POT", f"{row.pot:.2f}", *cells)
    return table


def main() -> None:
    """Print the tables."""
    console = Console()
    console.print(of_large_sets())
    console.print(peers())


if __name__ == "__main__":
    main()
