"""From the transcript and the ledger to what is said about players, and what is not covered."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from fedgame.games.aggregative.transcript import Transcript
from fedgame.ledger.events import LaplaceVector
from fedgame.strategies.federation import Hosts
from fedgame.strategies.game_result import PlayerRecord
from fedgame.strategies.outcome import Histories
from fedgame.strategies.settings import Experiment


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


def notes(experiment: Experiment, players: Sequence[PlayerRecord]) -> tuple[str, ...]:
    """Return what a reader must know before believing a number."""
    candidates = (
        _seed(players),
        _prior(experiment),
        "A player, who knows its own cost function too, may learn more about the others.",
        _lost(players),
        _absent(experiment, players),
    )
    return tuple(note for note in candidates if note)


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


def _lost(players: Sequence[PlayerRecord]) -> str:
    lost = sum(player.released - player.sent for player in players)
    if not lost:
        return ""
    return (
        f"{lost} messages left their players and did not come, or were rejected: the transcript "
        "does not hold them, and its leakage does not count them; the ledger does."
    )


def _absent(experiment: Experiment, players: Sequence[PlayerRecord]) -> str:
    absent = experiment.run.num_clients - len(players)
    if not absent:
        return ""
    return f"{absent} players never registered: x_0 stands for their messages."
