"""The server half of privacy procurement: elicit, choose, pay, and train with what was bought.

JSAM and its baselines are five mechanisms of it. Before the first round: reports, allocation,
schedule and noise, and a contract with every client; then FedSGD over the schedule (JSAM paper,
section II-C).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.accountants.base import Accountant, epsilon_by_client
from fedgame.errors import InvalidReply, RunFailed
from fedgame.games.procurement.settings import draw_sensitivities
from fedgame.ledger.events import LedgerRow, PrivacyEvent, SampledGaussian
from fedgame.messages.procurement import (
    Contract,
    Report,
    Signature,
    unpack_report,
    unpack_signature,
)
from fedgame.messages.training import TrainOrder, TrainReply, turns
from fedgame.randomness import public_generator
from fedgame.strategies.base import RoundRecord, RunResult, Stage
from fedgame.strategies.bridge import Bridge
from fedgame.strategies.checkpoint import Checkpoint
from fedgame.strategies.data import federated_data
from fedgame.strategies.federation import CONTRACT
from fedgame.strategies.jsam_client import UPDATE
from fedgame.strategies.jsam_outcome import (
    Procured,
    client_records,
    notes,
    procurement_record,
)
from fedgame.strategies.outcome import Histories, unaccounted_releases
from fedgame.strategies.purchase import buy, choose, prior_of
from fedgame.strategies.settings import Experiment
from fedgame.strategies.training_half import DIVERGES, TrainingHalf

log = logging.getLogger(__name__)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class JsamServer(TrainingHalf):
    """The server half: one run from the reports to the last round."""

    def __init__(self, *args: Any) -> None:
        """Elicit reports, buy, and sign contracts; nothing is released yet. See `ServerHalf`.

        Raises:
            RunFailed: Too few nodes or clients came, or none accepts its contract.
            ConfigError: The mechanism does not fit the clients, or no noise fits a budget.
        """
        self._prior = prior_of(args[0].procurement)
        super().__init__(*args)
        experiment, declared = self._experiment, self._hosts.declared
        self._reports: FloatArray = declared["sensitivities"]
        self._bought = buy(
            experiment,
            self._reports,
            declared["losses"],
            self._accountants.guarantee,
            lambda message: self._listener(Stage(message)),
        )
        self._bridge = Bridge(experiment, self._hosts.counts)
        self._strengths = self._bridge.strengths_of(self._bought.noise_multipliers)
        self._signed = self._sign()
        self._promised = self._promises()
        self._guarantees = self._guaranteed()
        self._released = np.zeros_like(self._bought.draws)
        self._ordered = np.zeros(len(self._signed), dtype=np.bool_)
        self._used: list[float] = []
        self._taking_part: set[int] = set()

    @staticmethod
    def preflight(experiment: Experiment, accountant: Accountant) -> None:  # noqa: ARG004
        """Check what only data and a plan can show; see `ServerHalf.preflight`."""
        federated_data(experiment)
        total = experiment.run.num_clients
        rng = public_generator(experiment.run.seed, "sensitivities")
        drawn = draw_sensitivities(prior_of(experiment.procurement), total, rng)
        choose(experiment, drawn, np.zeros(total), pay=False)

    def read_declaration(self, content: RecordDict) -> Report:
        """Read a report; the prior must allow it."""
        report = unpack_report(content, self._experiment.run.num_clients)
        try:
            self._prior.virtual_cost(report.sensitivities)
        except ValueError as error:
            raise InvalidReply(str(error)) from error
        return report

    def _sign(self) -> NDArray[np.bool_]:
        """Offer every client its contract and write down who accepts, shape (clients,)."""
        contracts = {node: self._contract(node) for node in self._hosts.positions}
        replies = self._ask(contracts, CONTRACT, 0, self._read_signature)
        signed = np.zeros(len(self._hosts.clients), dtype=np.bool_)
        for node, signature in replies.items():
            signed[self._hosts.positions[node]] = signature.accepted
        for client in self._hosts.clients[~signed]:
            log.warning("client %d signed no contract: no draws, no payment", client)
        if not (signed & (self._bought.draws > 0)).any():
            raise RunFailed("no client that the schedule draws has signed its contract")
        accepted = set(self._hosts.clients[signed].tolist())
        offers = [offer for contract in contracts.values() for offer in contract.offers()]
        self._ledger.append_purchases(offer for offer in offers if offer.client in accepted)
        return signed

    def _contract(self, node: int) -> Contract:
        # a node's clients ascend, as they did in its registration
        positions, bought = self._hosts.positions[node], self._bought
        return Contract(
            clients=self._hosts.clients[positions],
            reports=self._reports[positions],
            budgets=bought.allocation.budgets[positions],
            payments=bought.payments[positions],
            draws=bought.draws[positions],
            noise_multipliers=bought.noise_multipliers[positions],
            delta=self._experiment.accounting.delta,
            run_name=self._folder.name,
            ledger=self._ledger_of(node),
        )

    def _read_signature(self, _: int, content: RecordDict, contract: Contract) -> Signature:
        return unpack_signature(content, contract)

    def _promises(self) -> dict[int, list[PrivacyEvent]]:
        """Return what each client is going to release, by its contract."""
        bought = self._bought
        return {
            int(client): [self._event(position, int(bought.draws[position]))]
            if bought.draws[position] and self._signed[position]
            else []
            for position, client in enumerate(self._hosts.clients)
        }

    def _guaranteed(self) -> FloatArray:
        """Return what each client's contract costs it, shape (clients,)."""
        accountant, delta = self._accountants.guarantee, self._experiment.accounting.delta
        found = epsilon_by_client(accountant, self._promised, delta)
        return np.array([found[int(client)] for client in self._hosts.clients])

    def train(self) -> None:
        """Run the rounds of the schedule.

        A draw whose update is missing counts as zero, and nobody takes its place: another client
        has sold what it sold and no more.
        """
        start = time.monotonic()
        clients, done = self._taking_part, self._done
        for round_, drawn in enumerate(self._bought.schedule[done:], start=done + 1):
            able = drawn[self._signed[drawn]]
            self._ordered[able] = True
            replies = self._train_round(self._orders(round_, able))
            clients |= self._apply(round_, replies)
            if due := self._is_due(round_):
                self._rounds.append(self._record(round_, len(clients), start))
                self._used.append(self._money_used())
                start, clients = time.monotonic(), set()
            self._keep_round(round_, clients)
            if due:
                self._listener(self._rounds[-1])

    def _keep_round(self, round_: int, clients: set[int]) -> None:
        arrays = {"released": self._released, "ordered": self._ordered}
        self._keep(round_, arrays, {"used": self._used, "clients": sorted(clients)})

    def _restore(self, found: Checkpoint) -> None:
        # what was bought follows from the reports again, bit for bit
        self._released, self._ordered = found.arrays["released"], found.arrays["ordered"]
        self._used = found.settings["used"]
        self._taking_part = set(found.settings["clients"])

    def _orders(self, round_: int, drawn: IntArray) -> dict[int, TrainOrder]:
        """Return the order to each node that hosts a client drawn in this round."""
        orders = {}
        for node, positions in self._hosts.positions.items():
            own = drawn[np.isin(drawn, positions)]
            if len(own):
                orders[node] = TrainOrder(
                    round=round_,
                    parameters=self._parameters,
                    clients=self._hosts.clients[own],
                    turns=turns(own),
                    weights=np.full(len(own), 1 / self._experiment.procurement.draws),
                    strengths=self._strengths[own],
                    run_name=self._folder.name,
                    ledger=self._ledger_of(node),
                )
        return orders

    def _apply(self, round_: int, replies: Mapping[int, TrainReply]) -> set[int]:
        """Charge every draw that was answered, then add the sum; return whose updates were used."""
        rows, used = [], set()
        for reply in replies.values():
            positions = np.searchsorted(self._hosts.clients, reply.clients)
            for position, turn in zip(positions, turns(reply.clients), strict=True):
                client, event = int(self._hosts.clients[position]), self._event(position, 1)
                rows.append(LedgerRow(client, round_, int(turn), UPDATE, event))
                self._released[position] += 1
            used |= set(reply.clients[reply.used].tolist())
        self._ledger.append(rows)
        self._add(round_, replies)
        return used

    def _event(self, position: int, draws: int) -> SampledGaussian:
        """Return what some draws of a client cost.

        The noise is read off the strength, as the client does it: equal to the last bit.
        """
        event = self._bridge.update_event(position, float(self._strengths[position]))
        return replace(event, steps=draws * event.steps)

    def _record(self, round_: int, clients: int, start: float) -> RoundRecord:
        loss, accuracy = self._evaluate()
        return RoundRecord(
            round=round_,
            loss=loss,
            accuracy=accuracy,
            mean_strength=float(np.average(self._strengths, weights=self._bought.draws)),
            # what all draws will cost bounds what those so far did, whoever received them
            worst_epsilon=float(self._guarantees[self._ordered].max(initial=0.0)),
            exploitability=None,
            clients=clients,
            seconds=time.monotonic() - start,
        )

    def _money_used(self) -> float:
        share = self._released / np.maximum(self._bought.draws, 1)
        return float((self._bought.payments * share * self._signed).sum())

    def result(self, realised: Histories) -> RunResult:
        """Return the record of the run; see `ServerHalf.result`."""
        failed = not self._released.any()
        procured = Procured(
            experiment=self._experiment,
            hosts=self._hosts,
            bought=self._bought,
            signed=self._signed,
            strengths=self._strengths,
            used=tuple(self._used),
        )
        reason = f"no round had a valid update{DIVERGES if self._left_out else ''}"
        return RunResult(
            status="failed" if failed else "finished",
            reason=reason if failed else "",
            rounds=tuple(self._rounds),
            clients=client_records(procured, self._promised, realised, self._accountants),
            parameters=self._parameters,
            tensors=self._tensors,
            strengths=np.tile(self._strengths, (len(self._rounds), 1)),
            notes=notes(procured, realised),
            unaccounted=unaccounted_releases(realised),
            procurement=procurement_record(procured, realised),
        )
