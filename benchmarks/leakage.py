"""Exact leakage of large transcripts, beside enumeration of all profiles, and the budget filter.

Firms of a Cournot game have played with noise; the playing itself is not timed. One thread.
"""

from __future__ import annotations

import itertools
from statistics import median
from typing import Literal, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import mebibytes, timed
from fedgame.accountants.pml import exact_leakage
from fedgame.accountants.pml_filter import PmlFilter
from fedgame.accountants.pml_logs import FloatArray
from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import correlated_prior, product_prior
from fedgame.games.aggregative.cournot import Cournot
from fedgame.games.aggregative.dynamics import Dynamics, play
from fedgame.games.aggregative.likelihood import final_log_likelihoods, follow
from fedgame.games.aggregative.settings import Aggregative

REPEATS = 5
LIMIT = 5.0
"""Seconds that the largest transcript may take."""

ACTIONS: tuple[Literal["stop", "raise-noise"], ...] = ("stop", "raise-noise")


class Played(NamedTuple):
    """A transcript, and what everybody knew before it.

    Attributes:
        dynamics: The public part of the run.
        messages: o, shape (K, N, n).
        prior: Independent types, drawn.
    """

    dynamics: Dynamics
    messages: FloatArray
    prior: Prior

    def log_likelihoods(self) -> FloatArray:
        """Return log L_i(t; o), shape (N, m)."""
        return final_log_likelihoods(self.dynamics, self.messages, self.dynamics.schedules.noise)

    def leakage(self) -> float:
        """Return l(F -> o)."""
        return float(exact_leakage(self.prior, self.log_likelihoods()))


def played(num_players: int, rounds: int, num_types: int) -> Played:
    """Return a run of rounds + 1 iterations."""
    rng = np.random.default_rng(0)
    game = Cournot(types=num_types).build(num_players, rng)
    dynamics = Aggregative().dynamics(game, rounds)
    prior = product_prior(rng.dirichlet(np.full(num_types, 5.0), num_players))
    scales = dynamics.schedules.noise[:, None, None]
    noise = scales * rng.laplace(size=(rounds + 1, num_players, game.dimension))
    messages = play(dynamics, prior.draw(rng, 1)[0], noise).messages
    return Played(dynamics, messages, prior)


def enumerated_leakage(prior: Prior, log_likelihoods: FloatArray) -> float:
    """Return l(F -> o) by its definition, over all m^N profiles.

    Args:
        prior: Independent types, each possible.
        log_likelihoods: log L_i(t; o), shape (N, m).
    """
    players, types = log_likelihoods.shape
    profiles = np.array(list(itertools.product(range(types), repeat=players)))
    given_types = log_likelihoods[np.arange(players), profiles].sum(axis=1)
    joint = given_types + prior.log_probability(profiles)
    return float(given_types.max() - np.logaddexp.reduce(joint))


def of_transcripts() -> Table:
    """Measure the leakage of two transcripts, likelihoods included."""
    table = Table(
        title="Exact leakage of a transcript: CPU time of one thread",
        caption=f"limit: {LIMIT:g} seconds. MiB: the most that is allocated besides the messages.",
    )
    table.add_column("players N, rounds T, types m", no_wrap=True)
    for column in ("seconds", "MiB", "of the limit"):
        table.add_column(column, justify="right")
    for size in ((1000, 1000, 4), (10_000, 1000, 4)):
        run = played(*size)
        taken = median(timed(run.leakage)[0] for _ in range(REPEATS))
        numbers = ", ".join(f"{number:,}" for number in size)
        cells = (f"{taken:.2f}", f"{mebibytes(run.leakage):.1f}", f"{taken / LIMIT:.0%}")
        table.add_row(numbers, *cells)
    return table


def beside_enumeration() -> Table:
    """Measure the closed form and the definition from the same likelihoods."""
    run = played(16, 100, 2)
    logs = run.log_likelihoods()
    own, found = timed(lambda: [exact_leakage(run.prior, logs) for _ in range(1000)])
    peer, judged = timed(enumerated_leakage, run.prior, logs)
    table = Table(
        title="16 players of 2 types: leakage from their likelihoods",
        caption="ratio: in multiples of ours. difference: of the leakage, relative.",
    )
    table.add_column("how", no_wrap=True)
    for column in ("milliseconds", "ratio", "difference"):
        table.add_column(column, justify="right")
    table.add_row("ours", f"{own:.3f}", "1", "0")
    gap = abs(float(found[0]) / judged - 1)
    name = f"enumeration of {2**16:,} profiles"
    table.add_row(name, f"{1e3 * peer:.0f}", f"{1e3 * peer / own:,.0f}", f"{gap:.1e}")
    return table


class Waiting(NamedTuple):
    """Messages that wait for a decision, and the filter that decides, whose budget binds.

    Attributes:
        prior: What everybody knows.
        log_likelihoods: Of what was sent so far, shape (N, m).
        next_messages: v, shape (N, m, n).
        scale: M of the planned noise.
        rule: The filter.
    """

    prior: Prior
    log_likelihoods: FloatArray
    next_messages: FloatArray
    scale: float
    rule: PmlFilter

    def at_once(self) -> None:
        """Decide about all messages together."""
        arguments = (self.prior, self.log_likelihoods, self.next_messages, self.scale)
        self.rule.decide_round(*arguments)

    def in_turn(self) -> None:
        """Decide about one message after the other."""
        for player, messages in enumerate(self.next_messages):
            arguments = (self.prior, self.log_likelihoods, player, messages, self.scale)
            self.rule.decide_player(*arguments)


def waiting(num_types: int, action: Literal["stop", "raise-noise"]) -> Waiting:
    """Return the last messages of a run of 1,000 players; they are correlated if of two types."""
    run = played(1000, 5, num_types)
    prior = run.prior if num_types > 2 else correlated_prior(1000, 0.3, 0.5)
    scales = run.dynamics.schedules.noise
    *_, v = follow(run.dynamics, run.messages)
    logs = final_log_likelihoods(run.dynamics, run.messages[:-1], scales[:-1])
    budget = float(exact_leakage(prior, logs)) + 0.1
    return Waiting(prior, logs, v, float(scales[-1]), PmlFilter(budget, action))


def of_filters() -> Table:
    """Measure what one iteration's decisions cost for 1,000 players."""
    table = Table(title="Budget filter, one iteration of 1,000 players: CPU time of one thread")
    table.add_column("types, order, action", no_wrap=True)
    table.add_column("milliseconds", justify="right")
    for action in ACTIONS:
        taken = median(timed(waiting(4, action).at_once)[0] for _ in range(REPEATS))
        table.add_row(f"independent, 4, simultaneous, {action}", f"{1e3 * taken:,.1f}")
    for action in ACTIONS:
        taken, _ = timed(waiting(2, action).in_turn)
        table.add_row(f"correlated, 2, sequential, {action}", f"{1e3 * taken:,.1f}")
    return table


def main() -> None:
    """Print the tables."""
    console = Console()
    console.print(of_transcripts())
    console.print(beside_enumeration())
    console.print(of_filters())


if __name__ == "__main__":
    main()
