"""The server half of an aggregative game: forward what the graph allows, audit every message.

The server computes no equilibrium. It asks for messages as long as the budget allows, keeps the
transcript, and forwards; players find the equilibrium by themselves (PML paper, algorithm A).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.accountants.base import Accountant
from fedgame.games.aggregative.referee import Referee
from fedgame.games.aggregative.transcript import FILE, Recording, write_recording
from fedgame.ledger.events import LedgerRow
from fedgame.mechanisms.laplace import laplace_event
from fedgame.messages.aggregative import (
    MessageOrder,
    MessageReply,
    PlayerDeclaration,
    unpack_message_reply,
    unpack_player_declaration,
)
from fedgame.strategies.aggregative_client import PURPOSE
from fedgame.strategies.aggregative_outcome import notes, player_records, warnings
from fedgame.strategies.aggregative_public import public_game, simulated_types
from fedgame.strategies.base import Result, Stage
from fedgame.strategies.federation import MESSAGE
from fedgame.strategies.game_result import GameResult, IterationRecord
from fedgame.strategies.journal import Journal
from fedgame.strategies.outcome import Histories
from fedgame.strategies.server_half import ServerHalf
from fedgame.strategies.settings import Experiment

log = logging.getLogger(__name__)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SAVE_SECONDS = 1.0
"""The transcript is written to disk no more often than this, and at the end."""


class AggregativeServer(ServerHalf):
    """The server half: one run from registration to the last message."""

    def __init__(self, *args: Any) -> None:
        """Build what is public, then register the nodes; see `ServerHalf`.

        Raises:
            RunFailed: Too few nodes or players came.
        """
        self._public = public_game(args[0])
        super().__init__(*args)
        dynamics, prior = self._public.dynamics, self._public.prior
        self._referee = Referee(dynamics, prior, self._experiment.pml_filter)
        players = dynamics.game.num_players
        # how far each player is known to have followed; see `MessageOrder.first`
        self._confirmed = np.zeros(players, dtype=np.int64)
        self._epsilons = np.zeros(players)
        self._iterations: list[IterationRecord] = []
        self._reason, self._failed = "", False
        self._asked: list[NDArray[np.bool_]] = []
        self._possible = 0.0
        self._saved = -SAVE_SECONDS
        self._journal, self._hears_again = Journal(self._folder), False
        self._warnings = warnings(self._public, self._types)
        for warning in self._warnings:
            self._listener(Stage(f"warning: {warning}"))

    @staticmethod
    def preflight(experiment: Experiment, accountant: Accountant) -> None:  # noqa: ARG004
        """Check that game, graph, schedules and prior fit; see `ServerHalf.preflight`."""
        public = public_game(experiment)
        Referee(public.dynamics, public.prior, experiment.pml_filter)

    def public_counts(self, clients: IntArray) -> IntArray:
        """Return 1 for every player: it has one cost function."""
        return np.ones(len(clients), dtype=np.int64)

    def read_declaration(self, content: RecordDict) -> PlayerDeclaration:
        """Read a declaration of players."""
        return unpack_player_declaration(content, self._experiment.run.num_clients)

    @property
    def _types(self) -> IntArray | None:
        """All players' types, where all of them come from the public seed."""
        hosts = self._hosts
        if len(hosts.clients) < self._experiment.run.num_clients:
            return None
        if hosts.declared["own_types"].any():
            return None
        return simulated_types(self._experiment, self._public.prior)

    def resume(self) -> None:
        """Play again what was played, from the journal; see `ServerHalf`."""
        self._journal.rewind()
        self._hears_again = self._journal.is_past

    @property
    def heard(self) -> Sequence[IterationRecord]:
        """What the listener was told so far; of a run that goes on, also before it was killed."""
        return self._iterations

    def train(self) -> None:
        """Run the iterations, until they are over or one more message could leak too much."""
        for _ in range(len(self._public.dynamics.schedules)):
            if self._referee.has_diverged:
                self._stop("the messages diverge: try smaller steps or a feasible set", failed=True)
                break
            start = time.monotonic()
            asked = np.zeros(self._experiment.run.num_clients, dtype=np.bool_)
            self._asked.append(asked)
            referee = self._referee
            came = self._sequential(asked) if referee.is_sequential else self._simultaneous(asked)
            if not asked.any():
                self._asked.pop()
                budget = self._experiment.pml_filter.budget
                self._stop(
                    f"any further message could leak more than the budget of {budget:g}: up to "
                    f"{self._possible:.4g} nats"
                )
                break
            referee.close()
            self._record(came, start)
            if self._is_over(int(asked.sum()), came):
                break
        self._save(last=True)

    def _stop(self, reason: str, *, failed: bool = False) -> None:
        self._reason, self._failed = reason, failed

    def _is_over(self, asked: int, came: int) -> bool:
        """Return whether too few messages came to go on."""
        least = self._experiment.run.min_clients
        missing = f"{asked - came} of {asked} players' messages did not come"
        if came < min(least, asked):
            self._stop(f"{missing}, min-clients = {least}", failed=True)
        elif came < asked and self._experiment.aggregative.missing == "stop":
            self._stop(f'{missing}, and aggregative.missing = "stop"', failed=True)
        return self._failed

    def _simultaneous(self, asked: NDArray[np.bool_]) -> int:
        """Ask all players at once, if that may be; return how many answered."""
        decision = self._referee.decide()
        self._possible = float(decision.worst)
        if not decision.send:
            return 0
        players = self._hosts.clients
        asked[players] = True
        return self._exchange(players, np.full(len(players), float(decision.scales)))

    def _sequential(self, asked: NDArray[np.bool_]) -> int:
        """Ask one player after the other, each if what came before allows it.

        Of what is asked, the largest possible leakage is kept; of nothing, the least.
        """
        came = 0
        sent: list[float] = []
        refused: list[float] = []
        for player in self._hosts.clients.tolist():
            decision = self._referee.decide_player(player)
            (sent if decision.send else refused).append(float(decision.worst))
            if decision.send:
                asked[player] = True
                came += self._exchange(np.array([player]), np.array([float(decision.scales)]))
        self._possible = max(sent) if sent else min(refused)
        return came

    def _exchange(self, players: IntArray, scales: FloatArray) -> int:
        """Ask for messages, charge and keep those that can be believed; return how many."""
        if self._hears_again and not self._journal.is_past:
            # nodes that were started anew know nothing of what came before
            self._confirmed[:], self._hears_again = 0, False
        orders = {}
        for node, positions in self._hosts.positions.items():
            own = np.flatnonzero(np.isin(players, self._hosts.clients[positions]))
            if len(own):
                orders[node] = self._order(node, players[own], scales[own])
        self._confirmed[players] = 0
        iteration = self._referee.iteration
        replies = self._journal.replies(
            orders, lambda: self._ask(orders, MESSAGE, iteration, self._read_messages)
        )
        came = 0
        for node, reply in replies.items():
            self._confirmed[orders[node].players] = iteration
            came += self._accept(orders[node], reply)
        return came

    def _order(self, node: int, players: IntArray, scales: FloatArray) -> MessageOrder:
        first = int(self._confirmed[players].min())
        heard, own = self._referee.forwarded(players, first)
        return MessageOrder(
            iteration=self._referee.iteration,
            first=first,
            players=players,
            scales=scales,
            heard=heard,
            own=own,
            run_name=self._folder.name,
            ledger=self._ledger_of(node),
        )

    def _read_messages(self, _: int, content: RecordDict, order: MessageOrder) -> MessageReply:
        return unpack_message_reply(content, order, self._public.dynamics.game.dimension)

    def _accept(self, order: MessageOrder, reply: MessageReply) -> int:
        """Charge the messages that an honest player could have sent, then let them count."""
        referee = self._referee
        honest = referee.is_plausible(order.players, reply.messages, order.scales)
        for player in order.players[~honest]:
            log.warning(
                "iteration %d: message of player %d rejected: it is further from every candidate "
                "than noise could take it",
                order.iteration,
                player,
            )
        players, scales = order.players[honest], order.scales[honest]
        moved, dimension = referee.sensitivities(players), reply.messages.shape[1]
        rows = [
            LedgerRow(
                int(player),
                order.iteration,
                0,
                PURPOSE,
                laplace_event(float(scale), float(sensitivity), dimension),
            )
            for player, scale, sensitivity in zip(players, scales, moved, strict=True)
        ]
        self._ledger.append(rows)
        self._epsilons[players] += moved / scales
        referee.hear(players, reply.messages[honest], scales)
        return len(players)

    def _record(self, came: int, start: float) -> None:
        referee = self._referee
        record = IterationRecord(
            round=referee.iteration - 1,
            leakage=referee.leakage,
            worst_individual_leakage=float(referee.individual_leakage.max()),
            worst_epsilon=float(self._epsilons.max()),
            possible=self._possible,
            asked=int(self._asked[-1].sum()),
            sent=came,
            noise=referee.noise_used,
            seconds=time.monotonic() - start,
        )
        self._iterations.append(record)
        self._save()
        self._listener(record)

    def _save(self, *, last: bool = False) -> None:
        """Put the transcript on disk, so that a run that is killed loses little of it."""
        now = time.monotonic()
        if last or now - self._saved >= SAVE_SECONDS:
            write_recording(self._folder / FILE, self.recording)
            self._saved = now

    @property
    def recording(self) -> Recording:
        """The transcript with its public schedules and start."""
        dynamics = self._public.dynamics
        initial = np.asarray(dynamics.initial, dtype=np.float64)
        return Recording(self._referee.transcript(), initial, dynamics.schedules)

    @property
    def _asked_so_far(self) -> NDArray[np.bool_]:
        """Who was asked in each iteration, shape (K', N)."""
        return np.reshape(self._asked, (len(self._asked), self._experiment.run.num_clients))

    def result(self, realised: Histories) -> Result:
        """Return the record of the run; see `ServerHalf.result`."""
        transcript = self._referee.transcript()
        players = player_records(self._hosts, transcript, realised)
        return GameResult(
            status="failed" if self._failed else "finished",
            reason=self._reason,
            iterations=tuple(self._iterations),
            players=players,
            dynamics=self._public.dynamics,
            prior=self._public.prior,
            transcript=transcript,
            types=self._types,
            notes=(
                *self._warnings,
                *notes(self._experiment, players, self._asked_so_far, transcript.sent),
            ),
        )
