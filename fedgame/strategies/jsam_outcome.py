"""From contracts and ledger to the record of a run: what was bought, paid and spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgame.games.procurement.schedule import implied_q
from fedgame.ledger.events import PrivacyEvent, SampledGaussian
from fedgame.strategies.base import ClientRecord, ProcurementRecord, PurchaseRecord
from fedgame.strategies.federation import Hosts
from fedgame.strategies.outcome import (
    Accountants,
    Histories,
    client_privacy,
    reproducible_note,
    unaccounted_note,
)
from fedgame.strategies.purchase import Bought
from fedgame.strategies.settings import Experiment

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Procured:
    """What a run leaves behind; arrays are over the clients that reported, in order.

    Attributes:
        experiment: The experiment.
        hosts: Which node hosts which client.
        bought: What was bought.
        signed: Who accepted its contract, shape (clients,).
        strengths: Strength of each client, shape (clients,).
        used: Money used at each recorded round; see `ProcurementRecord`.
    """

    experiment: Experiment
    hosts: Hosts
    bought: Bought
    signed: NDArray[np.bool_]
    strengths: FloatArray
    used: tuple[float, ...]


def client_records(
    procured: Procured, promised: Histories, realised: Histories, accountants: Accountants
) -> tuple[ClientRecord, ...]:
    """Return one record a client, with what its contract promises as its guarantee."""
    delta = procured.experiment.accounting.delta
    privacy = client_privacy(accountants, promised, realised, delta)
    return tuple(
        ClientRecord(
            id=int(client),
            num_examples=int(procured.hosts.counts[position]),
            beta=None,
            strength=float(procured.strengths[position]),
            noise_multiplier=float(procured.bought.noise_multipliers[position]),
            **vars(privacy[int(client)]),
        )
        for position, client in enumerate(procured.hosts.clients)
    )


def procurement_record(procured: Procured, realised: Histories) -> ProcurementRecord:
    """Return what was decided and bought."""
    bought, allocation = procured.bought, procured.bought.allocation
    training = procured.experiment.training
    ratios = implied_q(
        bought.noise_multipliers, allocation.budgets, bought.draws, training.sampling_rate
    )
    drawn = ratios[np.isfinite(ratios)]
    return ProcurementRecord(
        mechanism=allocation.mechanism,
        eta=bought.terms.eta,
        q=bought.terms.q,
        epsilon_max=bought.terms.epsilon_max,
        expected_cost=allocation.expected_cost,
        objective=allocation.objective,
        threshold=allocation.threshold,
        cap_binds=allocation.cap_binds,
        ironed=allocation.ironed,
        kkt_residual=allocation.certificate.kkt_residual,
        brute_force_gap=allocation.certificate.brute_force_gap,
        implied_q=(float(drawn.min()), float(np.median(drawn)), float(drawn.max())),
        purchases=tuple(
            _purchase(procured, position, realised.get(int(client), ()), training.local_steps)
            for position, client in enumerate(procured.hosts.clients)
        ),
        used=procured.used,
    )


def _purchase(
    procured: Procured, position: int, spent: Sequence[PrivacyEvent], local_steps: int
) -> PurchaseRecord:
    bought, signed = procured.bought, bool(procured.signed[position])
    allocation = bought.allocation
    reports = procured.hosts.declared["sensitivities"]
    steps = sum(event.steps for event in spent if isinstance(event, SampledGaussian))
    return PurchaseRecord(
        report=float(reports[position]),
        virtual_cost=float(allocation.virtual_costs[position]),
        probability=float(allocation.probabilities[position]),
        budget=float(allocation.budgets[position]) if signed else 0.0,
        payment=float(bought.payments[position]) if signed else 0.0,
        scheduled=int(bought.draws[position]),
        released=steps // local_steps,
    )


def notes(procured: Procured, realised: Histories) -> tuple[str, ...]:
    """Return what a reader must know before believing a number."""
    allocation, settings = procured.bought.allocation, procured.experiment.procurement
    drawn = procured.bought.draws > 0
    idle = int((~drawn & (allocation.probabilities > 0)).sum())
    unsigned = int((~procured.signed).sum())
    missing = procured.experiment.run.num_clients - len(procured.hosts.clients)
    found = [
        reproducible_note(procured.hosts),
        unaccounted_note(realised),
        "Reports, budgets and payments reveal each client's privacy sensitivity: declared public.",
        f"{idle} clients were paid and never drawn: a payment is for the budget that was bought."
        if idle
        else None,
        "Virtual costs were ironed, the distribution is not regular."
        if allocation.ironed
        else None,
        f"The cap procurement.epsilon-max = {settings.epsilon_max:g} binds."
        if allocation.cap_binds
        else None,
        "The server is taken to know every client's cost: clients would gain by reporting more."
        if procured.bought.mechanism.complete_information
        else None,
        f"{missing} clients did not answer: left out, and not paid." if missing else None,
        f"{unsigned} clients signed no contract: not drawn, and not paid." if unsigned else None,
    ]
    return tuple(note for note in found if note)
