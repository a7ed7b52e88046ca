"""How N-player equilibria approach the mean field: the rows and sentences about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedgame.games.privacy.mean_field_limit import MeanFieldRate, Method
from fedgame.reports.mfne_result import Rules

PROPORTION, SAMPLED = "in proportion", "sampled"


@dataclass(frozen=True)
class SolvedLimit:
    """Distances of N-player equilibria from a mean-field one.

    Attributes:
        rules: The game that is played, whatever the number of players.
        mean_strength: s-bar of the mean-field equilibrium.
        method: How the players' equilibria were looked for.
        proportion: With preferences spread over the players as over the population.
        sampled: With preferences drawn independently.
        repeats: Draws for each number of players.
    """

    rules: Rules
    mean_strength: float
    method: Method
    proportion: MeanFieldRate
    sampled: MeanFieldRate
    repeats: int

    @property
    def rates(self) -> dict[str, MeanFieldRate]:
        """Both populations by name."""
        return {PROPORTION: self.proportion, SAMPLED: self.sampled}

    @property
    def converged(self) -> bool:
        """Whether every search ended in an equilibrium."""
        return all(all(rate.converged) for rate in self.rates.values())


@dataclass(frozen=True)
class LimitRow:
    """One number of players; the fields are the columns of limit.csv.

    Attributes:
        population: How preferences are spread over the players.
        players: N.
        distance: Wasserstein-1 distance of the distributions of strengths, root mean square.
        mean_distance: Distance of the mean strengths, likewise.
        residual: Largest gain of disutility that a player has left.
        rounds: Most rounds of play.
        converged: Whether every search ended in an equilibrium.
    """

    population: str
    players: int
    distance: float
    mean_distance: float
    residual: float
    rounds: int
    converged: bool


def limit_rows(solved: SolvedLimit) -> Iterator[LimitRow]:
    """Yield one row a population and number of players."""
    for population, rate in solved.rates.items():
        columns = (rate.sizes, rate.distances, rate.mean_distances, rate.gains, rate.rounds)
        rows = zip(*(column.tolist() for column in columns), rate.converged, strict=True)
        for row in rows:
            yield LimitRow(population, *row)


def limit_notes(solved: SolvedLimit) -> list[str]:
    """Return what a reader of the numbers must know, as sentences."""
    rules = solved.rules
    found = [
        f"The game is that of num-clients = {rules.num_clients:,} at every number of players: "
        "what changes is how many of them there are, and that each weighs in the others' mean.",
        f"Sampled: root mean square over {solved.repeats:,} draws of the preferences. The rate is "
        "r of the fit distance ~ N^r, over distances above 0 of searches that converged.",
    ]
    if rules.release == "local" and (rules.linear_loss or rules.coupling == "own"):
        found.append(
            "A client's choice does not depend on the others' here: the distance is that of the "
            "players' preferences from the population's, and nothing else."
        )
    for population, rate in solved.rates.items():
        failed = ~np.array(rate.converged)
        if failed.any():
            sizes = ", ".join(f"{size:,}" for size in rate.sizes[failed])
            found.append(
                f"No equilibrium was found, {population}, for N = {sizes}: the largest gain that "
                f"is left is {rate.gains[failed].max():.3g}."
            )
    return found
