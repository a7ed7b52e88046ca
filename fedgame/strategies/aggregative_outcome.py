"""From the transcript and the ledger to what is said about players, and what is not covered."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import numpy as np
from numpy.typing import NDArray

from fedgame.games.aggregative.monotone import SLACK, smallest_eigenvalue
from fedgame.games.aggregative.transcript import Transcript
from fedgame.ledger.events import LaplaceVector
from fedgame.strategies.aggregative_public import PublicGame
from fedgame.strategies.federation import Hosts
from fedgame.strategies.game_result import PlayerRecord
from fedgame.strategies.outcome import Histories
from fedgame.strategies.settings import Experiment

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

NAMED = 10
"""How many players a note names."""


def player_records(
    hosts: Hosts, transcript: Transcript, realised: Histories
) -> tuple[PlayerRecord, ...]:
    """Return one record a registered player.

    Args:
        hosts: Who registered.
        transcript: What came.
        realised: Each player's events in the merged ledger.
    """
    records = []
    for position, client in enumerate(hosts.clients.tolist()):
        charged = [event for event in realised.get(client, ()) if isinstance(event, LaplaceVector)]
        records.append(
            PlayerRecord(
                id=client,
                sent=int(transcript.sent[:, client].sum()),
                released=len(charged),
                epsilon=fsum(event.epsilon for event in charged),
                own_type=bool(hosts.declared["own_types"][position]),
                own_noise=bool(hosts.own_noise[position]),
            )
        )
    return tuple(records)


def warnings(public: PublicGame, types: IntArray | None) -> tuple[str, ...]:
    """Return why the messages may lead elsewhere than to the equilibrium.

    Args:
        public: What is public.
        types: All players' types, where they are known here.
    """
    found = []
    smallest = smallest_eigenvalue(public.dynamics.game, public.prior, types)
    if smallest is not None and smallest < -SLACK:
        found.append(
            "The game is not monotone (smallest eigenvalue of the pseudo-gradient: "
            f"{smallest:.4g}): it may have several equilibria or none, and the messages need not "
            "lead to one."
        )
    if not public.dynamics.graph.balanced:
        found.append(
            "The graph is not balanced (rows and columns of its weights have other sums): the "
            "estimates settle on another point than the mean."
        )
    return tuple(found)


def notes(
    experiment: Experiment, players: Sequence[PlayerRecord], asked: BoolArray, sent: BoolArray
) -> tuple[str, ...]:
    """Return what a reader must know before believing a number.

    Args:
        experiment: The experiment.
        players: The record of each registered player.
        asked: Whether each player was asked for a message, shape (K', N).
        sent: Whether it came and was believed, same shape.
    """
    registered = np.isin(np.arange(experiment.run.num_clients), [player.id for player in players])
    candidates = (
        _seed(players),
        _prior(experiment),
        "A player, who knows its own cost function too, may learn more about the others.",
        _lost(players, asked & ~sent),
        _kept_back(~asked & registered),
        _absent(experiment, players),
    )
    return tuple(note for note in candidates if note)


def _which(silent: BoolArray) -> str:
    """Return whose messages are lacking, and since when."""
    players = np.flatnonzero(silent.any(axis=0)).tolist()
    names = ", ".join(map(str, players[:NAMED])) + (", ..." if len(players) > NAMED else "")
    first = int(np.argmax(silent.any(axis=1)))
    return f"of player{'s' if len(players) > 1 else ''} {names}, first in iteration {first}"


def _seed(players: Sequence[PlayerRecord]) -> str:
    drawn = {
        "cost functions": not all(player.own_type for player in players),
        "noise": not all(player.own_noise for player in players),
    }
    names = " and ".join(name for name, is_drawn in drawn.items() if is_drawn)
    if not names:
        return ""
    return f"From the seed ({names}): reproducible, not private against anyone who knows the seed."


def _prior(experiment: Experiment) -> str:
    pml_filter = experiment.pml_filter
    if pml_filter.action == "measure":
        return (
            "Nothing was enforced: the leakage is what these messages happened to leak, under the "
            "prior given."
        )
    return f"The budget R = {pml_filter.budget:g} (in nats) holds if the prior is right."


def _lost(players: Sequence[PlayerRecord], missing: BoolArray) -> str:
    if not missing.any():
        return ""
    text = (
        f"{int(missing.sum())} of the messages that were asked for did not come, or were rejected "
        f"({_which(missing)})."
    )
    lost = sum(player.released - player.sent for player in players)
    if not lost:
        return text
    return (
        f"{text} {lost} of them had left their players: the transcript does not hold them, and its "
        "leakage does not count them; the ledger does."
    )


def _kept_back(silent: BoolArray) -> str:
    if not silent.any():
        return ""
    return f"The filter kept back {int(silent.sum())} messages ({_which(silent)})."


def _absent(experiment: Experiment, players: Sequence[PlayerRecord]) -> str:
    absent = experiment.run.num_clients - len(players)
    if not absent:
        return ""
    return f"{absent} players never registered: x_0 stands for their messages."
