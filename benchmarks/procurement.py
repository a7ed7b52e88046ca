"""JSAM's solver beside the paper's Algorithm 1 and a general one, and what its own limits cost.

All solve for the same virtual costs, on one thread; times are the thread's CPU time.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from benchmarks.jsam_peers import algorithm_1, slsqp
from benchmarks.measure import mebibytes, timed
from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Choice, Terms
from fedgame.games.procurement.certificate import objective
from fedgame.games.procurement.jsam import Jsam, solve_jsam
from fedgame.games.procurement.payments import ex_post_payments
from fedgame.games.procurement.virtual_cost import make_prior

REPEATS = 20
ETAS = (1.0, 5.0, 50.0)
"""Of 100 clients these select a few, about half, and all."""

LARGE = {
    "nobody at the cap": Terms(100.0),
    "20 at the cap": Terms(100.0, epsilon_max=10.0),
    "13,000 at the cap": Terms(1000.0, epsilon_max=0.01),
}
"""Terms for a million clients."""

PAID = (3.0, 30.0)
"""Of 1,000 clients these select about a quarter and nearly all."""


PEERS: dict[str, Callable[[FloatArray, Terms], Choice]] = {
    "Algorithm 1, 11 values of p_h": algorithm_1,
    "SLSQP in 200 dimensions": slsqp,
}


def sensitivities(num_clients: int) -> FloatArray:
    """Draw c ~ U(0, 1)."""
    return np.random.default_rng(0).random(num_clients)


def beside_peers() -> Table:
    """Measure all solvers on 100 clients."""
    table = Table(
        title="JSAM for 100 clients: CPU time of one thread",
        caption="ratio: in multiples of ours. objective: relative to ours, minus 1.",
    )
    for column in ("eta", "solver"):
        table.add_column(column, no_wrap=True)
    for column in ("milliseconds", "ratio", "objective"):
        table.add_column(column, justify="right")
    costs = 2 * sensitivities(100)
    for eta in ETAS:
        terms = Terms(eta)
        own = median(timed(solve_jsam, costs, terms)[0] for _ in range(REPEATS))
        least = float(objective(solve_jsam(costs, terms), costs, terms))
        table.add_row(f"{eta:g}", "ours", f"{1e3 * own:.2f}", "1", "0")
        for name, solver in PEERS.items():
            taken, found = timed(solver, costs, terms)
            gap = float(objective(found, costs, terms)) / least - 1
            row = (f"{1e3 * taken:.0f}", f"{taken / own:,.0f}", f"{gap:+.1e}")
            table.add_row("", name, *row)
    return table


def alone() -> Table:
    """Measure a million clients, and payments."""
    table = Table(
        title="JSAM at its limits: CPU time of one thread",
        caption="MiB: the most that is allocated at a time, besides the clients' costs.",
    )
    table.add_column("job", no_wrap=True)
    table.add_column("seconds", justify="right")
    table.add_column("MiB", justify="right")
    costs = 2 * sensitivities(10**6)
    for name, terms in LARGE.items():
        taken, _ = timed(solve_jsam, costs, terms)
        peak = mebibytes(solve_jsam, costs, terms)
        table.add_row(f"solve for 10^6 clients, {name}", f"{taken:.2f}", f"{peak:.0f}")
    reports, prior = sensitivities(1000), make_prior(stats.uniform(0, 1))
    for eta in PAID:
        terms = Terms(eta, epsilon_max=10.0)
        taken, payments = timed(ex_post_payments, Jsam(), reports, prior, terms)
        selected = np.count_nonzero(payments)
        table.add_row(f"pay 1,000 clients, {selected} selected", f"{taken:.1f}", "")
    return table


def main() -> None:
    """Print both tables."""
    console = Console()
    console.print(beside_peers())
    console.print(alone())


if __name__ == "__main__":
    main()
