"""The client half of the privacy grid: declare clients, then choose and train round by round."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedgame.games.privacy.mapg import Mapg
from fedgame.ledger.events import LedgerRow, UnaccountedRelease
from fedgame.ledger.store import Ledger
from fedgame.messages import Registration, RegistrationOrder, RoundOrder, RoundReply
from fedgame.randomness import generator
from fedgame.strategies.aggregation import acceptable, weighted_sum
from fedgame.strategies.certificates import mean_curvature
from fedgame.strategies.cohort import Cohort
from fedgame.strategies.data import federated_data
from fedgame.strategies.node import Node
from fedgame.strategies.plan import choice_event
from fedgame.strategies.settings import Experiment

FloatArray = NDArray[np.float64]


class MfpgClient:
    """The client half: one node's clients."""

    def __init__(self, experiment: Experiment, node: Node) -> None:
        """Keep the experiment; data are loaded when first needed."""
        self._experiment = experiment
        self._node = node
        self._cohorts: dict[tuple[str, tuple[int, ...]], Cohort] = {}

    def register(self, order: RegistrationOrder) -> Registration:
        """Declare the clients hosted here, their numbers of examples and preferences: public."""
        experiment = self._experiment
        total = experiment.run.num_clients
        clients = np.array(self._node.clients(order.place, order.nodes, total), dtype=np.int64)
        counts = federated_data(experiment).counts[clients]
        betas = experiment.population.betas(total)[clients]
        curvatures = np.zeros(len(clients))
        game = experiment.game
        if isinstance(game, Mapg) and game.curvature == "own":
            curvatures = self._own_curvatures(order, clients)
        own_noise = np.full(len(clients), self._node.keeps_a_secret(experiment))
        return Registration(clients, counts, betas, curvatures, own_noise)

    def _own_curvatures(self, order: RegistrationOrder, clients: NDArray[np.int64]) -> FloatArray:
        """Return Hessian traces of the clients' own data; the ledger says: no guarantee."""
        experiment, data = self._experiment, federated_data(self._experiment)
        event = UnaccountedRelease(experiment.training.neighbours, "own curvature")
        self._write(order, [LedgerRow(int(k), 0, 0, "curvature", event) for k in clients])
        secret = self._node.secret(experiment, order.run_name)
        initial = experiment.task.initial_parameters(experiment.run.seed)
        measure = partial(mean_curvature, experiment, initial)
        rngs = [generator(secret, int(k), 0, "curvature") for k in clients]
        return np.array(
            [measure(data.client(int(k)), rng) for k, rng in zip(clients, rngs, strict=True)]
        )

    def train(self, order: RoundOrder) -> RoundReply:
        """Choose, train, write the ledger, and only then answer."""
        cohort = self._cohort(order)
        strengths = order.strengths
        if order.choose:
            strengths = cohort.choose(order)
        local = cohort.train(order.round, order.parameters, strengths)
        events = zip(cohort.clients, local.events, strict=True)
        rows = [LedgerRow(client, order.round, 0, "update", event) for client, event in events]
        choice = choice_event(self._experiment) if order.choose else None
        if choice is not None:
            rows += [LedgerRow(k, order.round, 0, "choice", choice) for k in cohort.clients]
        self._write(order, rows)
        used = acceptable(local.updates)
        return RoundReply(
            clients=order.clients,
            counts=cohort.counts,
            strengths=strengths,
            used=used,
            update=weighted_sum(local.updates[used], order.weights[used]),
        )

    def _write(self, order: RegistrationOrder | RoundOrder, rows: list[LedgerRow]) -> None:
        path = self._node.ledger(order.run_name, order.ledger)
        path.parent.mkdir(parents=True, exist_ok=True)
        with Ledger(path) as ledger:
            ledger.append(rows)

    def _cohort(self, order: RoundOrder) -> Cohort:
        key = (order.run_name, tuple(int(client) for client in order.clients))
        if key not in self._cohorts:
            secret = self._node.secret(self._experiment, order.run_name)
            data = federated_data(self._experiment)
            self._cohorts = {key: Cohort(self._experiment, data, key[1], secret)}
        return self._cohorts[key]
