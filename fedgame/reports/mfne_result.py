"""A mean-field equilibrium with what its strengths are worth: the rows and sentences about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.equilibrium import MeanFieldEquilibrium
from fedgame.games.privacy.release import Release
from fedgame.games.privacy.utilities import Coupling
from fedgame.games.privacy.welfare import PriceOfAnarchy

NEGLIGIBLE = 1e-12
"""A probability below this is a rounding error of the mix."""


@dataclass(frozen=True)
class Rules:
    """What game was played.

    Attributes:
        num_clients: N.
        release: Whether each message is seen or only their sum.
        coupling: Whose noise is in the state whose loss a client minds.
        privacy: The privacy term.
        cost: Price of one unit of it, in units of loss.
        loss: The loss term, in words.
        linear_loss: Whether it is linear in the strength, so that others only shift it.
        num_examples: n_k of each client; None where it does not matter.
        steps: Noisy steps over the planned rounds.
        neighbours: Relation under which epsilons hold.
        accountant: Name of the accountant of the epsilons.
        delta: The delta at which they are stated.
    """

    num_clients: int
    release: Release
    coupling: Coupling
    privacy: str
    cost: float
    loss: str
    linear_loss: bool
    num_examples: int | None
    steps: int
    neighbours: str
    accountant: str
    delta: float


@dataclass(frozen=True)
class SolvedMeanField:
    """An equilibrium and what each strength of its grid gives.

    Attributes:
        rules: The game.
        betas: Preference of each type, shape (types,), increasing.
        shares: Share of each type in the population, shape (types,).
        grid: The strengths, shape (m,).
        noise_multipliers: z behind what is seen of a client, at each strength, shape (m,).
        epsilons: Sound epsilon after the planned rounds, shape (m,).
        sound_deltas: Sound delta at epsilon 1, shape (m,).
        claimed_deltas: Delta that the MFPG paper claims, shape (m,); None for a mechanism that it
            does not speak of.
        equilibria: All that were found, by s-bar, at least one, all converged; the first is shown.
        price: What selfish choice costs.
    """

    rules: Rules
    betas: FloatArray
    shares: FloatArray
    grid: FloatArray
    noise_multipliers: FloatArray
    epsilons: FloatArray
    sound_deltas: FloatArray
    claimed_deltas: FloatArray | None
    equilibria: tuple[MeanFieldEquilibrium, ...]
    price: PriceOfAnarchy

    @property
    def equilibrium(self) -> MeanFieldEquilibrium:
        """The equilibrium of least mean strength."""
        return self.equilibria[0]

    @property
    def nash_conv(self) -> float:
        """The sum of all clients' gains, in units of disutility."""
        gains = self.equilibrium.exploitability.gains
        return float(self.rules.num_clients * (self.shares @ gains))

    def means(self) -> FloatArray:
        """Return the mean strength of each type, shape (types,)."""
        return np.asarray(self.equilibrium.strategies @ self.grid)

    def claimed(self, index: int) -> float | None:
        """Return the claimed delta at one strength of the grid, None without a claim."""
        return None if self.claimed_deltas is None else float(self.claimed_deltas[index])


@dataclass(frozen=True)
class PlayedStrength:
    """One strength that one type plays; the fields are the columns of mfne.csv.

    Attributes:
        beta: The type's preference.
        share: The type's share in the population.
        strength: The strength.
        probability: With which the type plays it.
        noise_multiplier: z behind what is seen of such a client.
        epsilon: Sound, after the planned rounds.
        sound_delta_at_epsilon_1: Sound, after the planned rounds.
        claimed_delta: The MFPG paper's claim, None without one.
    """

    beta: float
    share: float
    strength: float
    probability: float
    noise_multiplier: float
    epsilon: float
    sound_delta_at_epsilon_1: float
    claimed_delta: float | None


def played_strengths(solved: SolvedMeanField) -> Iterator[PlayedStrength]:
    """Yield what is played at the equilibrium, by preference, then by strength."""
    strategies = solved.equilibrium.strategies
    for row, column in np.argwhere(strategies > NEGLIGIBLE):
        yield PlayedStrength(
            beta=float(solved.betas[row]),
            share=float(solved.shares[row]),
            strength=float(solved.grid[column]),
            probability=float(strategies[row, column]),
            noise_multiplier=float(solved.noise_multipliers[column]),
            epsilon=float(solved.epsilons[column]),
            sound_delta_at_epsilon_1=float(solved.sound_deltas[column]),
            claimed_delta=solved.claimed(int(column)),
        )


def grouped(solved: SolvedMeanField) -> list[tuple[str, PlayedStrength]]:
    """Return what is played with neighbouring types of the same strategy taken together.

    Returns:
        The range of their preferences in words, and what they play, with the share of all of them.
    """
    groups: list[list[PlayedStrength]] = []
    strategies = solved.equilibrium.strategies
    alike = np.r_[False, (strategies[1:] == strategies[:-1]).all(axis=1)]
    by_beta = {beta: row for row, beta in enumerate(solved.betas.tolist())}
    for played in played_strengths(solved):
        same = (group for group in groups if group[-1].strength == played.strength)
        last = max(same, key=lambda group: group[-1].beta, default=None)
        row = by_beta[played.beta]
        if last is not None and alike[row] and by_beta[last[-1].beta] == row - 1:
            last.append(played)
        else:
            groups.append([played])
    groups.sort(key=lambda group: (group[0].beta, group[0].strength))
    return [
        (_range(group), replace(group[0], share=sum(each.share for each in group)))
        for group in groups
    ]


def _range(group: list[PlayedStrength]) -> str:
    low, high = (f"{each.beta:.3g}" for each in (group[0], group[-1]))
    return low if low == high else f"{low} to {high}"


def notes(solved: SolvedMeanField) -> list[str]:
    """Return what a reader of the numbers must know, as sentences."""
    rules = solved.rules
    found = [
        "No data were looked at: epsilons are those of the training messages. What choosing on "
        "private data would cost comes on top."
    ]
    if rules.release == "local" and (rules.linear_loss or rules.coupling == "own"):
        found.append(
            "What others choose shifts a client's disutility by the same amount at every strength, "
            "if at all: its choice does not depend on theirs."
        )
    if rules.release == "aggregate":
        found.append(
            "Only the sum of all messages is seen: epsilons hold as long as no client tells "
            "anyone its noise, and others keep their strengths."
        )
    if rules.privacy == "epsilon" and rules.accountant != "rdp":
        found.append(
            "A client weighs its epsilon by the accountant rdp, as in a run; the epsilons shown "
            f"are by {rules.accountant}."
        )
    if solved.claimed_deltas is not None:
        found.append("The claimed delta is the MFPG paper's; it is not a guarantee.")
    if len(solved.equilibria) > 1:
        means = ", ".join(f"{each.mean_strength:.4g}" for each in solved.equilibria)
        found.append(
            f"There are several equilibria, of mean strength {means}: the least one is shown."
        )
    if len(solved.betas) < rules.num_clients and float(np.ptp(solved.betas)) > 0:
        found.append(f"{rules.num_clients:,} clients are grouped into {len(solved.betas)} types.")
    return found


def uniqueness(solved: SolvedMeanField) -> str:
    """Return whether the equilibrium is the only one, in a word or two."""
    unique = solved.equilibrium.unique
    return "not known" if unique is None else ("yes" if unique else "no")
