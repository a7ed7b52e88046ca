"""What the last of K noisy local steps reveals, where each step contracts.

Bok, Su, Altschuler, "Shifted Interpolation for Differential Privacy", 2024. If one step is
w <- phi(w) + noise, the maps of two neighbouring data sets are never further apart than the
sensitivity, and one of the two is c-Lipschitz, then the state after K steps is mu-GDP with

    mu = sqrt((1 - c^K)/(1 + c^K) * (1 + c)/(1 - c)) / z,

z being the noise multiplier of one step. It saturates in K, while K releases would cost sqrt(K)/z.
This is the valid form of the decay that the MFPG paper claims (its eq. 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.accountants.gdp import (
    checked_array,
    compose_gdp,
    gdp_delta,
    gdp_epsilon,
    positive_array,
)
from fedgame.accountants.rdp import check_delta, check_epsilon, composable
from fedgame.errors import AccountingError
from fedgame.ledger.events import ChargedEvent, Neighbours, PrivacyEvent, SampledGaussian

FloatArray = NDArray[np.float64]

Center: TypeAlias = Literal["own", "public"]
"""What the penalty lambda pulls to: the mean of the tensor's own entries, or a frozen public
constant. The own mean moves with the entries, so that lambda does nothing to a common shift."""

PULLED = "jko"
"""The mechanism whose steps pull to the prior. A Gaussian step may carry a strength as well, but
only as another name for its noise."""


def contraction_mu(
    noise_multiplier: ArrayLike, steps: ArrayLike, constant: ArrayLike, sends: ArrayLike = 1
) -> FloatArray:
    """Return the mu of `sends` states, each the last of `steps` noisy steps from a public state.

    For constants of 1 and more it is sqrt(K R)/z, what releasing every step costs: the closed form
    would fall again there, but steps that only add the gradient attain this.

    Args:
        noise_multiplier: z, noise standard deviation over sensitivity of one step, > 0.
        steps: K >= 1, steps before a send.
        constant: c >= 0, the Lipschitz constant of one step without its noise.
        sends: R >= 1, how often the last state is sent.

    Returns:
        mu, of the broadcast shape.

    Raises:
        AccountingError: A number is out of range or not finite.

    >>> round(float(contraction_mu(6**0.5, 10, 0.97)), 6)
    1.28609
    """
    z, k, c, r = np.broadcast_arrays(
        positive_array("noise_multiplier", noise_multiplier),
        checked_array("steps", steps, 1),
        checked_array("constant", constant),
        checked_array("sends", sends, 1),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        # The same fractions as above; a c next to 1 loses no digits.
        half = -np.log(c) / 2
        growth = np.where(half > 0, np.tanh(k * half) / np.tanh(half), k)
    return np.asarray(np.sqrt(r * growth) / z)


def client_constant(
    tau: ArrayLike,
    strength: ArrayLike,
    prior_std: ArrayLike = 1.0,
    variance_penalty: ArrayLike = 0.0,
    center: Center = "own",
) -> FloatArray:
    """Return c under relation "client", whatever the loss is, networks included.

    One of the two neighbours is the client that contributes nothing: its step is the linear pull to
    the prior, c = |1 - tau s/sigma0^2|, and it is enough that this one contracts.

    Args:
        tau: Step size of the flow, > 0.
        strength: Entropic strength s, > 0.
        prior_std: sigma0, standard deviation of the prior, > 0.
        variance_penalty: lambda >= 0.
        center: What lambda pulls to.

    Returns:
        c, of the broadcast shape; with the own mean the larger of the constants along a common
        shift, where lambda does nothing, and across it.
    """
    step = positive_array("tau", tau)
    weakest, strongest = pulls(strength, prior_std, variance_penalty, center)
    return np.maximum(np.abs(1 - step * weakest), np.abs(1 - step * strongest))


def example_constant(
    tau: ArrayLike,
    strength: ArrayLike,
    smoothness: ArrayLike,
    prior_std: ArrayLike = 1.0,
    variance_penalty: ArrayLike = 0.0,
    center: Center = "own",
) -> FloatArray:
    """Return c under relation "example", for a convex loss of one linear output.

    The averaged clipped gradient is then the gradient of a convex function, and with m the pull and
    M its smoothness c = max(|1 - tau m|, |1 - tau (m + M)|): the first, up to the largest tau.

    Args:
        tau: Step size of the flow, > 0.
        strength: Entropic strength s, > 0.
        smoothness: M >= 0, Lipschitz constant of the averaged clipped gradient in the parameters.
        prior_std: sigma0, standard deviation of the prior, > 0.
        variance_penalty: lambda >= 0.
        center: What lambda pulls to.

    Returns:
        c, of the broadcast shape.

    Raises:
        AccountingError: A smoothness is negative or not finite, or tau > 2/(2 m + M), where a step
            overshoots.
    """
    step, smooth = positive_array("tau", tau), checked_array("smoothness", smoothness)
    weakest, strongest = pulls(strength, prior_std, variance_penalty, center)
    limit = 2 / (weakest + strongest + smooth)
    if not np.all(step <= limit):
        raise AccountingError(
            f"tau = {np.max(step):g}: under relation 'example' a contraction needs tau <= "
            f"2/(2 m + M) = {np.min(limit):g}, m the pull to the prior and M the smoothness"
        )
    return np.asarray(1 - step * weakest)


def pulls(
    strength: ArrayLike, prior_std: ArrayLike, variance_penalty: ArrayLike, center: Center
) -> tuple[FloatArray, FloatArray]:
    """Return the weakest and the strongest rate at which a step's public terms pull together.

    Args:
        strength: Entropic strength s, > 0.
        prior_std: sigma0, > 0.
        variance_penalty: lambda >= 0.
        center: What lambda pulls to; the own mean leaves a common shift to the prior alone.

    Raises:
        AccountingError: A number is out of range.
    """
    s, sigma0 = positive_array("strength", strength), positive_array("prior_std", prior_std)
    prior = s / sigma0**2
    strongest = prior + checked_array("variance_penalty", variance_penalty)
    return (strongest if center == "public" else prior), strongest


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class ContractionAccountant:
    """The cost of sending only the last of each K entropic steps.

    The first five attributes are facts about the run that no ledger row holds, and the bound is
    false without them, so that none has a default.

    Attributes:
        local_steps: K, steps of one local run.
        only_last_sent: Whether nothing but the last state of a local run leaves the client.
        public_start: Whether each local run starts from what was public: the broadcast state, not
            one that the client kept.
        projection: Where states are projected by Sinkhorn: "none", "last" (after the last step of
            a local run, which is post-processing) or "every-step" (which may expand).
        tau: Step size of the flow.
        prior_std: sigma0, standard deviation of the prior.
        variance_penalty: lambda.
        center: What lambda pulls to.
        convex: Whether the loss is convex in the parameters; relation "example" needs it.
        outputs: How many numbers the model puts out for an example, 1 for a linear or logistic
            regression; clipping the gradient of a softmax leaves no gradient of a convex function.
        smoothness: M, Lipschitz constant of the averaged clipped gradient, if there is one.
    """

    local_steps: int = Field(ge=1)
    only_last_sent: bool
    public_start: bool
    projection: Literal["none", "last", "every-step"]
    tau: float = Field(gt=0)
    prior_std: float = Field(default=1.0, gt=0)
    variance_penalty: float = Field(default=0.0, ge=0)
    center: Center = "own"
    convex: bool = False
    outputs: int = Field(default=0, ge=0)
    smoothness: float | None = Field(default=None, ge=0)

    name: ClassVar[str] = "contraction"
    sound: ClassVar[bool] = True

    def mu(self, events: Sequence[PrivacyEvent]) -> float:
        """Return the mu of all local runs together; 0 for no events.

        Args:
            events: One client's history in ledger order, all local steps of it.

        Raises:
            AccountingError: A condition fails, and the text says which.
        """
        steps = [_entropic_step(event) for event in composable(events)]
        if not steps:
            return 0.0
        self._check_run()
        values = []
        for (z, strength), group in groupby(steps, key=lambda e: (e.noise_multiplier, e.strength)):
            same = list(group)
            sends, rest = divmod(sum(event.steps for event in same), self.local_steps)
            if rest:
                raise AccountingError(
                    f"contraction: steps of noise multiplier {z:g} do not make whole local runs of "
                    f"{self.local_steps} ({rest} left over); a run needs one noise throughout"
                )
            constant = self.constant(same[0].neighbours, cast(float, strength))
            values.append(contraction_mu(z, self.local_steps, constant, sends))
        return float(compose_gdp(values))

    def constant(self, neighbours: Neighbours, strength: float) -> float:
        """Return c of one step under a relation.

        Raises:
            AccountingError: The relation's conditions fail, and the text says which.
        """
        terms = (self.prior_std, self.variance_penalty, self.center)
        if neighbours == "client":
            return float(client_constant(self.tau, strength, *terms))
        if neighbours == "client-replace":
            raise AccountingError(
                "contraction: under relation 'client-replace' neither neighbour's step is the pull "
                "to the prior alone, so that nothing is known to contract"
            )
        if not self.convex or self.outputs != 1 or self.smoothness is None:
            raise AccountingError(
                "contraction: relation 'example' needs a convex loss of one output whose clipped "
                f"gradient is M-smooth, not convex = {self.convex}, outputs = {self.outputs}, "
                f"smoothness = {self.smoothness}"
            )
        return float(example_constant(self.tau, strength, self.smoothness, *terms))

    def _check_run(self) -> None:
        """Refuse a run whose steps are no chain of contractions, or leak more than the last one."""
        if not self.only_last_sent:
            raise AccountingError("contraction: more than the last state of a local run is sent")
        if not self.public_start:
            raise AccountingError(
                "contraction: local runs start from a state that the client kept, so that they "
                "are one long run of which more than the last state is sent"
            )
        if self.projection == "every-step":
            raise AccountingError(
                "contraction: Sinkhorn between the local steps can expand; it may follow the last"
            )

    def epsilon(self, events: Sequence[PrivacyEvent], delta: float) -> float:
        """Return the epsilon at `delta` in (0, 1) of all events together; refuses as `mu` does."""
        check_delta(delta)
        return float(gdp_epsilon(self.mu(events), delta))

    def delta(self, events: Sequence[PrivacyEvent], epsilon: float) -> float:
        """Return the delta at `epsilon` >= 0 of all events together; refuses as `mu` does."""
        check_epsilon(epsilon)
        return float(gdp_delta(self.mu(events), epsilon))


def _entropic_step(event: ChargedEvent) -> SampledGaussian:
    """Return a full-batch step of the entropic flow, after refusing everything else."""
    if not isinstance(event, SampledGaussian) or event.mechanism != PULLED:
        raise AccountingError(
            f"contraction: a release of {event.mechanism!r} is no step of the entropic flow "
            f"({PULLED!r}), whose pull to the prior contracts"
        )
    if event.strength is None:
        raise AccountingError("contraction: a step without a strength has no known pull")
    if event.sampling_rate < 1:
        raise AccountingError(
            f"contraction: sampling_rate = {event.sampling_rate:g}: every step must use the full "
            "batch (only 1 is allowed)"
        )
    return event
