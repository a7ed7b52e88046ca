"""What the MFPG paper claims for its entropic cells (eq. 4.3, appendix C.2). Not a guarantee.

The proof bounds total variation by a Wasserstein distance, which is false, and takes a bound on the
gradient where the contraction needs one on the Hessian; an attack attains more than the claim for
small strengths. It is computed only to be shown beside the sound numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.accountants.rdp import check_epsilon, composable
from fedgame.errors import AccountingError
from fedgame.ledger.events import LaplaceVector, PrivacyEvent, SampledGaussian


def lsi_delta(
    strength: ArrayLike,
    steps: ArrayLike,
    *,
    dimension: ArrayLike,
    num_clients: ArrayLike,
    tau: ArrayLike = 0.1,
    prior_std: ArrayLike = 1.0,
    variance_penalty: ArrayLike = 0.01,
    gradient_bound: ArrayLike = 1.0,
) -> NDArray[np.float64]:
    """Return the claimed delta, MFPG paper eq. 4.3 with the envelope 1/(K+1) of its section 6.

    With r = s / sigma0^2 - lambda - G it is min(1, (C_d / sqrt N) f), C_d = min(sqrt d, 10), where
    f = exp(-r K tau / 2) if r > 0 and 1 / (K + 1) otherwise. All arguments broadcast.

    Args:
        strength: Entropic strength s, > 0.
        steps: K, how many steps of the flow were taken, >= 1.
        dimension: d, the number of parameters, >= 1.
        num_clients: N, >= 1.
        tau: Step size of the flow, > 0.
        prior_std: sigma0, > 0.
        variance_penalty: lambda, >= 0.
        gradient_bound: G, >= 0.

    Returns:
        Claimed delta in [0, 1], of the broadcast shape.

    Raises:
        AccountingError: A strength is not finite and positive.

    Example:
        >>> round(float(lsi_delta(2.0, 10, dimension=5, num_clients=5)), 10)
        0.6095709073
    """
    s, k, d, n, step, sigma0, penalty, bound = (
        np.asarray(value, dtype=np.float64)
        for value in (
            strength,
            steps,
            dimension,
            num_clients,
            tau,
            prior_std,
            variance_penalty,
            gradient_bound,
        )
    )
    if not np.all(np.isfinite(s) & (s > 0)):
        raise AccountingError("strength: every value must be finite and > 0")
    rate = s / sigma0**2 - penalty - bound
    contraction = np.exp(-np.maximum(rate, 0.0) * k * step / 2)
    factor = np.where(rate > 0, contraction, 1 / (k + 1))
    constant = np.minimum(np.sqrt(d), 10.0) / np.sqrt(n)
    return np.asarray(np.minimum(1.0, constant * factor))


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class LsiAccountant:
    """The paper's claimed delta for a history of entropic steps.

    Attributes:
        dimension: d, the number of model parameters.
        num_clients: N, the number of clients.
        tau: Step size of the flow.
        prior_std: sigma0, standard deviation of the Gaussian prior.
        variance_penalty: lambda, weight of the variance penalty.
        gradient_bound: G, the clipping norm.
    """

    dimension: int = Field(ge=1)
    num_clients: int = Field(ge=1)
    tau: float = Field(default=0.1, gt=0)
    prior_std: float = Field(default=1.0, gt=0)
    variance_penalty: float = Field(default=0.01, ge=0)
    gradient_bound: float = Field(default=1.0, ge=0)

    name: ClassVar[str] = "lsi"
    sound: ClassVar[bool] = False

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        """Refuse: the paper's "linear budget" epsilon = 1 is a label that nothing derives.

        Raises:
            AccountingError: Always.
        """
        raise AccountingError(
            f"the lsi claim gives no epsilon (asked at delta = {delta} for {len(events)} events): "
            "the paper states a label; use rdp or pld"
        )

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        """Return the claimed delta after all steps, at the strength of the last one; 0 for no step.

        Choices do not count, since the paper's claim is about the flow alone, and the claim is the
        same at every epsilon.

        Args:
            events: One client's history in ledger order.
            epsilon: Finite and >= 0; plays no role.

        Raises:
            AccountingError: A release has no strength, as no Laplace vector has, so that the claim
                does not apply, or the events do not compose.
        """
        check_epsilon(epsilon)
        steps, strength = 0, None
        for event in composable(events):
            if isinstance(event, LaplaceVector) or (
                isinstance(event, SampledGaussian) and event.strength is None
            ):
                raise AccountingError(
                    f"the lsi claim is about entropic steps: {event.mechanism} has no strength"
                )
            if isinstance(event, SampledGaussian):
                steps, strength = steps + event.steps, event.strength
        if strength is None:
            return 0.0
        return float(
            lsi_delta(
                strength,
                steps,
                dimension=self.dimension,
                num_clients=self.num_clients,
                tau=self.tau,
                prior_std=self.prior_std,
                variance_penalty=self.variance_penalty,
                gradient_bound=self.gradient_bound,
            )
        )
