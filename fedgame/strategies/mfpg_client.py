"""The client half of the privacy grid: declare clients, then choose and train round by round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import InvalidOrder
from fedgame.games.privacy.mapg import Mapg
from fedgame.ledger.answers import Answer
from fedgame.ledger.events import LedgerRow, UnaccountedRelease
from fedgame.ledger.store import Ledger
from fedgame.messages.privacy_game import Registration, RoundOrder, unpack_round_order
from fedgame.messages.records import pack
from fedgame.messages.registration import RegistrationOrder, unpack_registration_order
from fedgame.messages.training import TrainReply
from fedgame.randomness import generator
from fedgame.strategies.aggregation import acceptable, weighted_sum
from fedgame.strategies.burn_in import burn_in_rows, burns_in, unwritten
from fedgame.strategies.certificates import mean_curvature
from fedgame.strategies.client_half import Action, ClientHalf, Draft
from fedgame.strategies.cohort import Cohort
from fedgame.strategies.data import federated_data
from fedgame.strategies.federation import REGISTER, TRAIN
from fedgame.strategies.node import Node
from fedgame.strategies.plan import choice_event, round_rows
from fedgame.strategies.settings import Experiment

FloatArray = NDArray[np.float64]


class MfpgClient(ClientHalf):
    """The client half: one node's clients."""

    def __init__(self, experiment: Experiment, node: Node) -> None:
        """Keep the experiment; data are loaded when first needed."""
        super().__init__(experiment, node)
        self._cohorts: dict[tuple[str, bytes], Cohort] = {}

    @property
    def actions(self) -> Mapping[str, Action]:
        """What the server may ask for, by name."""
        return {
            REGISTER: lambda content, _: pack(self.register(unpack_registration_order(content))),
            TRAIN: lambda content, _: pack(self.train(unpack_round_order(content))),
        }

    def register(self, order: RegistrationOrder) -> Registration:
        """Declare the clients hosted here, their numbers of examples and preferences: public."""
        game = self._experiment.game
        if isinstance(game, Mapg) and game.curvature == "own":
            return self._once(REGISTER, order, Registration, partial(self._with_curvatures, order))
        return self._registration(order)

    def _registration(self, order: RegistrationOrder) -> Registration:
        hosted = self._hosted(order)
        betas = self._experiment.population.betas(self._experiment.run.num_clients)
        none = np.zeros(len(hosted.clients))
        return Registration(**vars(hosted), betas=betas[hosted.clients], curvatures=none)

    def _with_curvatures(self, order: RegistrationOrder, ledger: Ledger) -> Draft[Registration]:
        """Declare Hessian traces of the clients' own data too; the ledger says: no guarantee."""
        plain = self._registration(order)
        event = UnaccountedRelease(self._experiment.training.neighbours, "own curvature")
        rows = [LedgerRow(int(k), 0, 0, "curvature", event) for k in plain.clients]
        curvatures = self._own_curvatures(order, plain.clients)
        return Draft(0, replace(plain, curvatures=curvatures), self._unsold(ledger, rows))

    def _own_curvatures(self, order: RegistrationOrder, clients: NDArray[np.int64]) -> FloatArray:
        experiment, data = self._experiment, federated_data(self._experiment)
        secret = self._node.secret(experiment, order.run_name)
        initial = experiment.task.initial_parameters(experiment.run.seed)
        measure = partial(mean_curvature, experiment, initial)
        rngs = [generator(secret, int(k), 0, "curvature") for k in clients]
        return np.array(
            [measure(data.client(int(k)), rng) for k, rng in zip(clients, rngs, strict=True)]
        )

    def train(self, order: RoundOrder) -> TrainReply:
        """Choose, train, write the ledger, and only then answer."""
        return self._once(TRAIN, order, TrainReply, partial(self._round, order))

    def _round(self, order: RoundOrder, ledger: Ledger) -> Draft[TrainReply]:
        cohort = self._cohort(order)
        strengths = order.strengths
        if order.choose:
            strengths = cohort.choose(order)
        local = cohort.train(order.round, order.parameters, strengths)
        if burns_in(self._experiment):
            rows: Iterable[LedgerRow] = self._burn_in_rows(ledger, cohort)
            kept = tuple(self._burnt(ledger, cohort))
        else:
            kept = ()
            choice = choice_event(self._experiment) if order.choose else None
            rows = round_rows(order.round, cohort.clients, local.events, choice)
        used = acceptable(local.updates)
        reply = TrainReply(
            clients=order.clients,
            counts=cohort.counts,
            strengths=strengths,
            used=used,
            update=weighted_sum(local.updates[used], order.weights[used]),
        )
        return Draft(order.round, reply, self._unsold(ledger, rows), kept=kept)

    def _burn_in_rows(self, ledger: Ledger, cohort: Cohort) -> list[LedgerRow]:
        """Return what the particles cost, unless it is written; a round on them costs nothing."""
        pairs = zip(cohort.clients, cohort.counts.tolist(), strict=True)
        rows = [row for k, count in pairs for row in burn_in_rows(self._experiment, k, count)]
        return unwritten(rows, ledger.rows())

    def _burnt(self, ledger: Ledger, cohort: Cohort) -> Iterator[Answer]:
        """Yield what the ledger must keep of the examples that burnt in.

        Raises:
            InvalidOrder: A client burnt in with other examples before: with the same noise.
        """
        for client, found in zip(cohort.clients, cohort.burnt, strict=True):
            action = f"burn-in of client {client}"
            known = ledger.answer(action)
            if known is None:
                yield Answer(action, 0, found, b"")
            elif known.digest != found:
                raise InvalidOrder(f"client {client} burnt in with other examples in this run")

    def _cohort(self, order: RoundOrder) -> Cohort:
        key = (order.run_name, order.clients.tobytes())
        if key not in self._cohorts:
            secret = self._node.secret(self._experiment, order.run_name)
            data = federated_data(self._experiment)
            cohort = Cohort(self._experiment, data, order.clients.tolist(), secret)
            self._cohorts = {key: cohort}
        return self._cohorts[key]
