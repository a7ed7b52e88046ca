"""The client half of privacy procurement: report, check what is bought, and give no more of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedgame.accountants import ACCOUNTANTS
from fedgame.errors import InvalidOrder
from fedgame.games.procurement.biggest_loss import Bbm
from fedgame.games.procurement.settings import draw_sensitivities
from fedgame.ledger.events import LedgerRow, SampledGaussian, UnaccountedRelease
from fedgame.ledger.purchases import Purchase
from fedgame.ledger.store import Ledger
from fedgame.messages.procurement import Contract, Report, Signature, unpack_contract
from fedgame.messages.records import pack
from fedgame.messages.registration import RegistrationOrder, unpack_registration_order
from fedgame.messages.training import TrainOrder, TrainReply, unpack_train_order
from fedgame.randomness import public_generator
from fedgame.strategies.aggregation import acceptable, weighted_sum
from fedgame.strategies.bridge import Bridge, client_context
from fedgame.strategies.client_half import Action, ClientHalf, Draft
from fedgame.strategies.cohort import Cohort
from fedgame.strategies.data import federated_data
from fedgame.strategies.federation import CONTRACT, REGISTER, TRAIN
from fedgame.strategies.node import Node
from fedgame.strategies.purchase import ROUNDING, prior_of
from fedgame.strategies.settings import Experiment
from fedgame.tasks.evaluation import evaluate

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

UPDATE = "update"
"""Purpose of the releases that are bought."""

LESS_NOISE = 1e-12
"""By how much, relatively, noise may be less than agreed from rounding."""


class JsamClient(ClientHalf):
    """One node's clients.

    Every client keeps the contract in its own ledger and holds each order against it, so that a
    server cannot draw more from it than it bought.
    """

    def __init__(self, experiment: Experiment, node: Node) -> None:
        """Keep the experiment; data are loaded when first needed."""
        super().__init__(experiment, node)
        self._kept: dict[tuple[float, ...], bool] = {}

    @property
    def actions(self) -> Mapping[str, Action]:
        """What the server may ask for, by name."""
        return {
            REGISTER: lambda content, _: pack(self.report(unpack_registration_order(content))),
            CONTRACT: lambda content, _: pack(self.sign(unpack_contract(content))),
            TRAIN: lambda content, _: pack(self.train(unpack_train_order(content))),
        }

    def report(self, order: RegistrationOrder) -> Report:
        """Declare the clients hosted here and report their sensitivities: public."""
        if isinstance(self._experiment.buyer, Bbm):
            return self._once(REGISTER, order, Report, partial(self._with_losses, order))
        return self._plain_report(order)

    def _plain_report(self, order: RegistrationOrder) -> Report:
        hosted = self._hosted(order)
        reports, none = self._reports(hosted.clients), np.zeros(len(hosted.clients))
        return Report(**vars(hosted), sensitivities=reports, losses=none)

    def _reports(self, clients: IntArray) -> FloatArray:
        experiment, settings = self._experiment, self._experiment.procurement
        own = self._node.sensitivity
        if own is not None:
            return np.full(len(clients), own)
        prior, run = prior_of(settings), experiment.run
        drawn = draw_sensitivities(
            prior, run.num_clients, public_generator(run.seed, "sensitivities")
        )
        return np.array([settings.report(int(k), float(drawn[k]), prior) for k in clients])

    def _with_losses(self, order: RegistrationOrder, ledger: Ledger) -> Draft[Report]:
        """Report the clients' losses at the initial model too; the ledger says: no guarantee."""
        plain = self._plain_report(order)
        event = UnaccountedRelease(self._experiment.training.neighbours, "initial loss")
        rows = [LedgerRow(int(k), 0, 0, "loss", event) for k in plain.clients]
        losses = self._initial_losses(plain.clients)
        return Draft(0, replace(plain, losses=losses), self._unsold(ledger, rows))

    def _initial_losses(self, clients: IntArray) -> FloatArray:
        experiment, data = self._experiment, federated_data(self._experiment)
        task, initial = experiment.task, experiment.task.initial_parameters(experiment.run.seed)
        module = task.module()
        return np.array([evaluate(task, module, initial, data.client(int(k)))[0] for k in clients])

    def sign(self, contract: Contract) -> Signature:
        """Accept what costs a client no more than is bought from it, and keep it on disk.

        The rest of the offer must be what the run's public configuration says.
        """
        return self._once(CONTRACT, contract, Signature, lambda _: self._signed(contract))

    def _signed(self, contract: Contract) -> Draft[Signature]:
        try:
            offers = contract.offers()
        except ValueError as error:
            raise InvalidOrder(str(error)) from error
        offered = [offer for offer in offers if self._is_hosted(offer.client)]
        reports = self._reports(np.array([offer.client for offer in offered], dtype=np.int64))
        accepted = [
            offer
            for offer, report in zip(offered, reports.tolist(), strict=True)
            if offer.report == report and self._is_fair(offer) and self._is_kept(offer)
        ]
        signed = [offer.client for offer in accepted]
        reply = Signature(contract.clients, np.isin(contract.clients, signed))
        return Draft(0, reply, sold=accepted)

    def _is_hosted(self, client: int) -> bool:
        return client < self._experiment.run.num_clients and self._node.may_host(client)

    def _is_fair(self, offer: Purchase) -> bool:
        """Return whether an offer is on the terms that are public."""
        experiment, settings = self._experiment, self._experiment.procurement
        # an interim payment covers a client's cost on average only
        covered = (
            settings.payments == "interim"
            or offer.payment >= offer.report * offer.epsilon * (1 - ROUNDING)
        )
        return bool(
            covered
            and offer.delta == experiment.accounting.delta
            and offer.epsilon <= settings.epsilon_max
            and offer.draws <= experiment.run.rounds * settings.draws
        )

    def _is_kept(self, offer: Purchase) -> bool:
        """Return whether the noise keeps a client's cost within the budget that is bought.

        What a draw costs is read off this run's configuration, so that a contract of another
        sampling rate, relation or number of local steps is none here.
        """
        if offer.draws == 0:
            return True
        key = (offer.epsilon, offer.delta, offer.draws, offer.noise_multiplier)
        if key not in self._kept:
            training, context = self._experiment.training, client_context(self._experiment, 1)
            event = SampledGaussian(
                noise_multiplier=offer.noise_multiplier,
                sampling_rate=context.amplifying_rate,
                steps=offer.draws * training.local_steps,
                neighbours=context.neighbours,
                mechanism=self._experiment.mechanism.name,
            )
            accountant = ACCOUNTANTS.get(self._experiment.accounting.name)()
            self._kept[key] = bool(accountant.epsilon([event], offer.delta) <= offer.epsilon)
        return self._kept[key]

    def train(self, order: TrainOrder) -> TrainReply:
        """Hold the order against the contracts, train, write the ledger, and only then answer."""
        return self._once(TRAIN, order, TrainReply, partial(self._draws, order))

    def _draws(self, order: TrainOrder, ledger: Ledger) -> Draft[TrainReply]:
        experiment = self._experiment
        secret = self._node.secret(experiment, order.run_name)
        cohort = Cohort(experiment, federated_data(experiment), order.clients.tolist(), secret)
        self._check(order, ledger)
        local = cohort.train(order.round, order.parameters, order.strengths, order.turns)
        events = zip(cohort.clients, order.turns, local.events, strict=True)
        rows = [LedgerRow(k, order.round, int(turn), UPDATE, event) for k, turn, event in events]
        used = acceptable(local.updates)
        reply = TrainReply(
            clients=order.clients,
            counts=cohort.counts,
            strengths=order.strengths,
            used=used,
            update=weighted_sum(local.updates[used], order.weights[used]),
        )
        # checked once more where nobody can come in between: another order may have been faster
        return Draft(order.round, reply, rows, check=lambda: self._check(order, ledger))

    def _check(self, order: TrainOrder, ledger: Ledger) -> None:
        """Refuse an order that would take more from a client than was bought from it.

        Raises:
            InvalidOrder: There is no contract, its draws are used up, or the noise is too small.
        """
        agreed, local_steps = ledger.purchases(), self._experiment.training.local_steps
        counts = federated_data(self._experiment).counts[order.clients]
        noise_multipliers = Bridge(self._experiment, counts).noise_multipliers(order.strengths)
        for client, times in Counter(order.clients.tolist()).items():
            if client not in agreed:
                raise InvalidOrder(f"client {client} has signed no contract")
            contract, steps = agreed[client], ledger.count(client, UPDATE)
            if not (self._node.may_host(client) and self._is_kept(contract)):
                raise InvalidOrder(f"client {client} has signed no contract for this configuration")
            if steps + times * local_steps > contract.draws * local_steps:
                raise InvalidOrder(
                    f"client {client} has given {steps // local_steps} of {contract.draws} draws, "
                    f"{times} more are asked for"
                )
            asked = float(noise_multipliers[order.clients == client].min())
            if not asked >= contract.noise_multiplier * (1 - LESS_NOISE):
                raise InvalidOrder(
                    f"client {client} agreed to the noise multiplier {contract.noise_multiplier}, "
                    f"{asked} is asked for"
                )
