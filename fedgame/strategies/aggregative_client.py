"""The client half of an aggregative game: hold cost functions in private, send noisy messages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.errors import ConfigError, InvalidOrder
from fedgame.games.aggregative.referee import sensitivities
from fedgame.ledger.events import LedgerRow
from fedgame.ledger.store import Ledger
from fedgame.mechanisms import laplace
from fedgame.messages.aggregative import (
    LARGEST,
    MessageOrder,
    MessageReply,
    PlayerDeclaration,
    unpack_message_order,
)
from fedgame.messages.records import pack
from fedgame.messages.registration import RegistrationOrder, unpack_registration_order
from fedgame.randomness import generator
from fedgame.strategies.aggregative_public import PublicGame, public_game, simulated_types
from fedgame.strategies.client_half import Action, ClientHalf, Draft
from fedgame.strategies.federation import MESSAGE, REGISTER
from fedgame.strategies.player_state import Standing

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PURPOSE = "message"
"""Purpose of every release, and of the generator of its noise."""

LESS_NOISE = 1e-12
"""By how much, relatively, noise may be less than planned from rounding."""


class AggregativeClient(ClientHalf):
    """One node's players.

    A player keeps its cost function, its strategy and its estimate in the node's own state; what
    leaves the node is its estimate plus noise. It follows all its candidate cost functions, which
    are public, to know how far apart they are and so what a message costs.
    """

    @property
    def actions(self) -> Mapping[str, Action]:
        """What the server may ask for, by name."""
        return {
            REGISTER: lambda content, _: pack(self.declare(unpack_registration_order(content))),
            MESSAGE: lambda content, state: pack(
                self.send(unpack_message_order(content, self._iterations), state)
            ),
        }

    def public_counts(self, clients: IntArray) -> IntArray:
        """Return 1 for every player: it has one cost function."""
        return np.ones(len(clients), dtype=np.int64)

    @cached_property
    def _public(self) -> PublicGame:
        return public_game(self._experiment)

    @property
    def _iterations(self) -> int:
        return len(self._public.dynamics.schedules)

    def declare(self, order: RegistrationOrder) -> PlayerDeclaration:
        """Declare the players hosted here; nothing about their cost functions."""
        hosted = self._hosted(order)
        own = np.full(len(hosted.clients), self._node.player_type is not None)
        self._types(hosted.clients)
        return PlayerDeclaration(**vars(hosted), own_types=own)

    def _types(self, players: IntArray) -> IntArray:
        """Return the types of players hosted here, shape (players,).

        Raises:
            ConfigError: The node's own type is none that the prior allows.
        """
        own, prior = self._node.player_type, self._public.prior
        if own is None:
            return simulated_types(self._experiment, prior)[players]
        for player in players:
            possible = np.flatnonzero(prior.support[player]).tolist()
            if own not in possible:
                raise ConfigError("type", own, f"player {player} can have the types {possible}")
        return np.full(len(players), own)

    def send(self, order: MessageOrder, state: RecordDict) -> MessageReply:
        """Follow what was heard, add noise, write the ledger, and only then answer.

        Raises:
            InvalidOrder: The order asks for less noise than is public, for players of another
                node, or leaves out what was heard before.
        """
        public = self._public
        self._check(order)
        standing = Standing.read(state, public, order.players).advanced(public, order)
        candidates = standing.estimates(order.players)
        if not (np.abs(candidates) <= LARGEST).all():
            raise InvalidOrder(f"what was heard leads beyond {LARGEST:g}, where noise is lost")
        draft = partial(self._messages, order, candidates)
        reply = self._once(MESSAGE, order, MessageReply, draft)
        standing.write(state)
        return reply

    def _messages(
        self, order: MessageOrder, candidates: FloatArray, ledger: Ledger
    ) -> Draft[MessageReply]:
        players, prior = order.players, self._public.prior
        estimates = candidates[np.arange(len(players)), self._types(players)]
        moved = sensitivities(candidates, prior, players)
        secret = self._node.secret(self._experiment, order.run_name)
        releases = [
            laplace.release(
                estimates[row],
                float(order.scales[row]),
                float(moved[row]),
                generator(secret, int(player), order.iteration, PURPOSE),
            )
            for row, player in enumerate(players)
        ]
        rows = [
            LedgerRow(int(player), order.iteration, 0, PURPOSE, release.event)
            for player, release in zip(players, releases, strict=True)
        ]
        reply = MessageReply(np.stack([release.value for release in releases]))
        return Draft(order.iteration, reply, self._unsold(ledger, rows))

    def _check(self, order: MessageOrder) -> None:
        total = self._experiment.run.num_clients
        strangers = [k for k in order.players.tolist() if not self._node.may_host(k) or k >= total]
        if strangers:
            raise InvalidOrder(f"player {strangers[0]} is not here")
        dynamics, n = self._public.dynamics, order.heard.shape[-1]
        forwarded = dynamics.graph.heard(np.zeros((total, n)), order.players).shape[1:]
        if n != dynamics.game.dimension or order.heard.shape[2:] != forwarded:
            raise InvalidOrder(
                f"heard of shape {order.heard.shape}: the graph forwards {forwarded} of each "
                "iteration"
            )
        planned = float(dynamics.schedules.noise[order.iteration])
        if not (order.scales >= planned * (1 - LESS_NOISE)).all():
            raise InvalidOrder(
                f"noise scale {order.scales.min()} in iteration {order.iteration}: the public "
                f"schedule has {planned}"
            )
