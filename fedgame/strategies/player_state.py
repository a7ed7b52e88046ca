"""Where a node's players stand, kept in the node's own state from one order to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict
from numpy.typing import NDArray

from fedgame.errors import InvalidOrder
from fedgame.games.aggregative.dynamics import State
from fedgame.messages.aggregative import MessageOrder
from fedgame.strategies.aggregative_public import PublicGame

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_NAME = "players"


@dataclass(frozen=True)
class Standing:
    """Strategy and estimate that each candidate of some players would have; it is private.

    A player's own cost function is one of its candidates, and nothing here says which.

    Attributes:
        players: Their numbers, ascending, shape (p,).
        iterations: The iteration before which each stands, shape (p,).
        x: Strategies, shape (p, m, n).
        v: Estimates, shape (p, m, n).
    """

    players: IntArray
    iterations: IntArray
    x: FloatArray
    v: FloatArray

    @classmethod
    def at_start(cls, public: PublicGame, players: IntArray) -> Standing:
        """Return where players stand before iteration 0."""
        none, game = np.zeros(len(players), dtype=np.int64), public.dynamics.game
        shape = (len(players), game.num_types, game.dimension)
        x, v = (array.reshape(shape) for array in public.follower(players).state)
        return cls(players, none, x, v)

    @classmethod
    def read(cls, state: RecordDict, public: PublicGame, players: IntArray) -> Standing:
        """Return where players stand; those that the state does not know are at the start."""
        if _NAME not in state.array_records:
            return cls.at_start(public, players)
        kept = cls(**{key: value.numpy() for key, value in state.array_records[_NAME].items()})
        return kept.joined(cls.at_start(public, np.setdiff1d(players, kept.players)))

    def write(self, state: RecordDict) -> None:
        """Put it into the state."""
        arrays = {name: Array(np.ascontiguousarray(value)) for name, value in vars(self).items()}
        state[_NAME] = ArrayRecord(arrays)

    def joined(self, others: Standing) -> Standing:
        """Return it with other players added, in the order of their numbers."""
        order = np.argsort(np.concatenate([self.players, others.players]))
        columns = zip(vars(self).values(), vars(others).values(), strict=True)
        return Standing(*(np.concatenate(column)[order] for column in columns))

    def advanced(self, public: PublicGame, order: MessageOrder) -> Standing:
        """Return it after what an order forwards, for the players of the order.

        A player that knows a part already, from an order whose answer was lost, takes up the rest.

        Raises:
            InvalidOrder: What is forwarded does not follow what a player has heard.
        """
        rows = np.searchsorted(self.players, order.players)
        x, v, iterations = self.x.copy(), self.v.copy(), self.iterations.copy()
        for iteration in np.unique(iterations[rows]).tolist():
            if not order.first <= iteration <= order.iteration:
                raise InvalidOrder(
                    f"a player stands before iteration {iteration}, and the iterations "
                    f"{order.first} to {order.iteration} are forwarded: they do not follow"
                )
            some = iterations[rows] == iteration
            own = rows[some]
            follower = public.follower(order.players[some])
            size = x.shape[-1]
            follower.state = State(x[own].reshape(-1, size), v[own].reshape(-1, size))
            follower.iteration = iteration
            for step in range(iteration - order.first, order.iteration - order.first):
                heard, sent = order.heard[some, step], order.own[some, step]
                follower.advance_by(public.dynamics.signal_heard(heard, sent, follower.players))
            shape = x[own].shape
            x[own], v[own] = (array.reshape(shape) for array in follower.state)
            iterations[own] = order.iteration
        return Standing(self.players, iterations, x, v)

    def estimates(self, players: IntArray) -> FloatArray:
        """Return v of some of the players, shape (players, m, n)."""
        return self.v[np.searchsorted(self.players, players)]
