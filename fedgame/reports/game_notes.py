"""What the numbers of a game by messages do not cover: the notes of its report and summary."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedgame.audits.transcript import Outcome
from fedgame.reports.game_run import GameRun
from fedgame.reports.page import FROM_SEED

ROUNDING = 1e-9
"""An eigenvalue above minus this may be 0 but for rounding."""

SEED_KNOWN = "anyone who knows the seed"
"""What a note of the run says that owns up to the public seed; it is not said twice."""


def run_notes(run: GameRun) -> list[str]:
    """Return what the numbers of a run do not cover, the public seed first."""
    notes = [*_seed_notes(run), *run.result.notes]
    smallest, outcome = run.audit.smallest_eigenvalue, run.audit.outcome
    # a game that is not monotone is in the run's own notes
    monotone = smallest is None or smallest >= -ROUNDING
    if monotone and outcome is not None and outcome.error is None:
        notes.append(
            "No distance to equilibrium is shown: there may be several, or none can be computed."
        )
    if run.result.dynamics.gradient == "paper":
        notes.append(
            "The gradient leaves out that a player's own strategy moves the mean, so what the "
            "messages lead to is not the Nash equilibrium."
        )
    if outcome is not None and not outcome.exploitability_is_exact:
        notes.append(
            "The exploitability is the largest gain that a search found, not the largest there is."
        )
    if outcome is not None and is_endless(outcome):
        notes.append(
            "The exploitability is infinite: some player's cost falls without end in its own "
            "strategy."
        )
    return notes


def is_endless(outcome: Outcome) -> bool:
    """Return whether some player can gain without end from the last strategies."""
    gains = outcome.exploitability
    return bool(len(gains) and gains[-1] == np.inf)


def _seed_notes(run: GameRun) -> Iterable[str]:
    players = run.result.players
    own = sum(player.own_type for player in players)
    if own:
        yield (
            f"The types of {_some(own, len(players))} are their own secrets: distance to "
            "equilibrium, exploitability and gradient matching, which need all types, are not "
            "known here."
        )
    if any(SEED_KNOWN in note for note in run.result.notes):
        return
    if own < len(players):
        who = _some(len(players) - own, len(players))
        yield f"The types of {who} come from the public seed: whoever knows it knows them."
    seeded = sum(not player.own_noise for player in players)
    if seeded:
        who = _some(seeded, len(players))
        yield f"The noise of {who} comes from the public seed, so this run is {FROM_SEED}."


def _some(count: int, all_of: int) -> str:
    return "all players" if count == all_of else f"{count:,} of {all_of:,} players"
