"""Accountants that need to know more of an experiment than its ledger says."""

from __future__ import annotations

from typing import Literal

from fedgame.accountants.contraction import ContractionAccountant
from fedgame.accountants.flow_accountant import FlowAccountant
from fedgame.accountants.lsi import LsiAccountant
from fedgame.errors import AccountingError
from fedgame.mechanisms.jko import Jko
from fedgame.strategies.burn_in import burns_in
from fedgame.strategies.settings import Experiment


def lsi_accountant(experiment: Experiment) -> LsiAccountant:
    """Return the MFPG paper's claim for an experiment.

    Raises:
        AccountingError: Its mechanism is not entropic, or it is in the data reading.
    """
    mechanism = _entropic("lsi: the paper's claim", experiment)
    if burns_in(experiment):
        raise AccountingError(
            "lsi: the paper's claim needs a bound G on the loss gradient in x, and a burn-in clips "
            "examples and no such gradient; ask flow, pld or rdp"
        )
    return LsiAccountant(
        tau=mechanism.tau,
        prior_std=mechanism.prior_std,
        variance_penalty=mechanism.lambda_,
        gradient_bound=experiment.training.clipping_norm,
        dimension=sum(p.numel() for p in experiment.task.module().parameters()),
        num_clients=experiment.run.num_clients,
    )


def contraction_accountant(experiment: Experiment) -> ContractionAccountant:
    """Return the accountant of local runs of which only the last state is sent.

    Every local run starts from the broadcast model, and xbar is the mean of a tensor's own entries.
    A single step is projected after the last one, whatever the projection.

    Raises:
        AccountingError: Its mechanism is not entropic, or it is in the data reading.
    """
    mechanism = _entropic("contraction: a bound", experiment)
    if burns_in(experiment):
        raise AccountingError(
            "contraction: in the data reading the local steps have no noise and cost nothing; ask "
            "flow, which is about the burn-in"
        )
    steps = experiment.training.local_steps
    return ContractionAccountant(
        local_steps=steps,
        only_last_sent=True,
        public_start=True,
        projection=_projection(mechanism, steps),
        tau=mechanism.tau,
        prior_std=mechanism.prior_std,
        variance_penalty=mechanism.lambda_,
    )


def flow_accountant(experiment: Experiment) -> FlowAccountant:
    """Return the accountant of a burn-in.

    Raises:
        AccountingError: The experiment is not in the data reading.
    """
    if not burns_in(experiment):
        raise AccountingError(
            'flow: only a run with jko.reading = "data" burns in; here every round meets the data '
            "again (ask pld or rdp)"
        )
    return FlowAccountant()


def _projection(mechanism: Jko, steps: int) -> Literal["none", "last", "every-step"]:
    if not mechanism.sinkhorn:
        return "none"
    return "last" if steps == 1 else "every-step"


def _entropic(what: str, experiment: Experiment) -> Jko:
    if not isinstance(experiment.mechanism, Jko):
        raise AccountingError(f"{what} exists for the entropic mechanism (jko) only")
    return experiment.mechanism
