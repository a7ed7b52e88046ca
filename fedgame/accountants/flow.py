"""What particles reveal of the examples that they were, after a burn-in of noisy steps.

In the data reading of the MFPG paper (its state X_t) a client's examples, clipped to |x| <= R,
become particles that flow by x <- phi(x) + N(0, 2 s tau I). The raw examples are never used again.
If phi is c-Lipschitz, two neighbouring starts at distance D are mu-GDP after K steps, with

    mu = D c^K sqrt((1 - c^2)/(1 - c^(2 K))) / sqrt(2 s tau),

exact for linear maps, and for all others by shifts (Bok, Su, Altschuler 2024). Everything later is
post-processing: the whole run costs what one Gaussian release of the raw example costs with noise
multiplier 1/mu. With c < 1 this decays exponentially in K, which is the paper's Theorem 1 with the
smoothness of the loss where the paper writes its gradient norm. What decays is the influence of the
data, so the particles' use for training decays too.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.accountants.contraction import pulls
from fedgame.accountants.gdp import checked_array, positive_array
from fedgame.errors import AccountingError
from fedgame.ledger.events import Neighbours, SampledGaussian

FloatArray = NDArray[np.float64]

ParticleCenter: TypeAlias = Literal["own", "public", "clients"]
"""What lambda pulls the particles to: the mean of the client's own particles, a frozen public
constant, or a mean over clients, which no burn-in covers."""

Relation: TypeAlias = Neighbours | Literal["example-replace"]
"""The ledger's relations, and one example replaced by another."""

Labels: TypeAlias = Literal["none", "public", "randomised-response", "private"]

LEAST_MU = 1e-100
"""A step that forgets everything has mu 0; its event is charged this, which costs nothing."""


def flow_mu(
    distance: ArrayLike,
    steps: ArrayLike,
    constant: ArrayLike,
    strength: ArrayLike,
    tau: ArrayLike,
) -> FloatArray:
    """Return the mu of particles after `steps` steps; D/sqrt(2 s tau K) at c = 1.

    Args:
        distance: D >= 0, between the starts of neighbouring data sets.
        steps: K >= 1, steps of the burn-in.
        constant: c >= 0, the Lipschitz constant of one step without its noise.
        strength: Entropic strength s, > 0.
        tau: Step size of the flow, > 0.

    Returns:
        mu, of the broadcast shape.

    Raises:
        AccountingError: A number is out of range or not finite.

    >>> round(float(flow_mu(2.0, 10, 0.9, 1.0, 0.1)), 10)
    0.7252119605
    """
    d, k, c, s, step = np.broadcast_arrays(
        checked_array("distance", distance),
        checked_array("steps", steps, 1),
        checked_array("constant", constant),
        positive_array("strength", strength),
        positive_array("tau", tau),
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log = np.log(c)
        # c^2K (1 - c^2)/(1 - c^2K); a c next to 1 loses no digits.
        kept = np.where(c == 1, 1 / k, np.expm1(2 * log) / -np.expm1(-2 * k * log))
    return np.asarray(d * np.sqrt(kept / (2 * s * step)))


def flow_constant(
    tau: ArrayLike,
    strength: ArrayLike,
    smoothness: ArrayLike,
    prior_std: ArrayLike = 1.0,
    variance_penalty: ArrayLike = 0.0,
    center: ParticleCenter = "own",
) -> FloatArray:
    """Return c of one step, |1 - tau (s/sigma0^2 + lambda)| + tau G_x.

    With the own particle mean lambda does nothing to a common shift of all particles, and c is the
    larger of that and the one without lambda.

    Args:
        tau: Step size of the flow, > 0.
        strength: Entropic strength s, > 0.
        smoothness: G_x >= 0, Lipschitz constant in x of the loss gradient in x.
        prior_std: sigma0, standard deviation of the prior, > 0.
        variance_penalty: lambda >= 0.
        center: What lambda pulls to.

    Returns:
        c, of the broadcast shape.

    Raises:
        AccountingError: A number is out of range, or the particles are pulled to a mean over
            clients.
    """
    step, g = positive_array("tau", tau), checked_array("smoothness", smoothness)
    weakest, strongest = _particle_pulls(strength, prior_std, variance_penalty, center)
    slowest = np.maximum(np.abs(1 - step * weakest), np.abs(1 - step * strongest))
    return np.asarray(slowest + step * g)


def _particle_pulls(
    strength: ArrayLike, prior_std: ArrayLike, variance_penalty: ArrayLike, center: ParticleCenter
) -> tuple[FloatArray, FloatArray]:
    """Return the weakest and the strongest rate at which public terms pull particles together."""
    if center == "clients":
        raise AccountingError(
            "flow: particles pulled to a mean over clients need that mean sent before the burn-in "
            "ends; release it once, charged, before the burn-in and take it as public"
        )
    return pulls(strength, prior_std, variance_penalty, center)


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Activation:
    """Whether a burn-in decays: s/sigma0^2 (and lambda) > G_x, and no step overshoots.

    Attributes:
        constant: c, Lipschitz constant of one step.
        pull: Weakest rate at which particles are pulled together.
        smoothness: G_x, the rate at which the loss may drive them apart.
        overshoot: tau times the strongest pull and G_x together; must be below 2.
    """

    constant: float
    pull: float
    smoothness: float
    overshoot: float

    @property
    def holds(self) -> bool:
        """Whether c < 1; if not, mu is still right but falls like 1/sqrt(K) or not to 0."""
        return self.constant < 1

    def __str__(self) -> str:
        """Say both conditions with their numbers, in one line."""
        return (
            f"pull {self.pull:g} {'>' if self.pull > self.smoothness else '<='} G_x "
            f"{self.smoothness:g}, tau (pull + G_x) {self.overshoot:g} "
            f"{'<' if self.overshoot < 2 else '>='} 2: c = {self.constant:g}, the particles "
            f"{'forget' if self.holds else 'do not forget'} exponentially"
        )


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class BurnIn:
    """A burn-in, the facts that its guarantee rests on, and what it costs.

    Attributes:
        radius: R > 0, the norm to which examples are clipped.
        strength: Entropic strength s.
        tau: Step size of the flow.
        steps: K, steps of the burn-in.
        smoothness: G_x, Lipschitz constant in x of the loss gradient in x; None where there is
            none, as for a network with ReLU.
        num_examples: n_k, public.
        neighbours: The relation; a missing example is a particle that starts at 0.
        first_send: Steps that were taken when the client first sends something; >= K.
        public_settings: Whether the model, s, K, tau and R of the burn-in do not depend on the
            client's data.
        particles_only: Whether training, metrics, choices and early stopping use the particles
            alone, never the raw examples again.
        labels: "none", "public" (declared), "randomised-response" (charged by itself) or "private",
            which the flow does not cover.
        projection: Whether Sinkhorn moves the particles during the burn-in.
        prior_std: sigma0, standard deviation of the prior.
        variance_penalty: lambda.
        center: What lambda pulls to.
    """

    radius: float = Field(gt=0)
    strength: float = Field(gt=0)
    tau: float = Field(gt=0)
    steps: int = Field(ge=1)
    smoothness: float | None = Field(ge=0)
    num_examples: int = Field(ge=1)
    neighbours: Relation
    first_send: int = Field(ge=0)
    public_settings: bool
    particles_only: bool
    labels: Labels
    projection: bool
    prior_std: float = Field(default=1.0, gt=0)
    variance_penalty: float = Field(default=0.0, ge=0)
    center: ParticleCenter = "own"

    name: ClassVar[str] = "flow"

    @property
    def distance(self) -> float:
        """D between neighbouring starts: R or, replaced, 2 R; times sqrt(n_k) for a client."""
        replaced = self.neighbours in ("example-replace", "client-replace")
        differing = 1 if self.neighbours.startswith("example") else self.num_examples
        return float(self.radius * (2.0 if replaced else 1.0) * np.sqrt(differing))

    @property
    def activation(self) -> Activation:
        """The condition under which the particles forget their examples exponentially.

        Raises:
            AccountingError: There is no G_x, or the particles are pulled to a mean over clients.
        """
        g = self._smoothness()
        terms = (self.prior_std, self.variance_penalty, self.center)
        weakest, strongest = _particle_pulls(self.strength, *terms)
        return Activation(
            constant=float(flow_constant(self.tau, self.strength, g, *terms)),
            pull=float(weakest),
            smoothness=g,
            overshoot=self.tau * (float(strongest) + g),
        )

    @property
    def mu(self) -> float:
        """The mu of everything that the client ever sends.

        Raises:
            AccountingError: A condition fails, and the text says which.
        """
        self._check_facts()
        constant = self.activation.constant
        return float(flow_mu(self.distance, self.steps, constant, self.strength, self.tau))

    def event(self) -> SampledGaussian:
        """Return the one event that every accountant can charge for the whole run.

        Raises:
            AccountingError: A condition fails, or the ledger has no such relation.
        """
        if self.neighbours == "example-replace":
            raise AccountingError(
                "flow: the ledger has no relation for one example replaced by another "
                "(use 'example', add or remove)"
            )
        noise_multiplier = 1 / max(self.mu, LEAST_MU)
        return SampledGaussian(noise_multiplier, 1.0, 1, self.neighbours, self.name, self.strength)

    def _smoothness(self) -> float:
        if self.smoothness is None:
            raise AccountingError(
                "flow: the loss gradient in x has no Lipschitz constant G_x, as for a network with "
                "ReLU, so that a step may drive neighbours apart by any factor"
            )
        return self.smoothness

    def _check_facts(self) -> None:
        """Refuse a run in which something other than burnt-in particles meets the raw data."""
        refusals = (
            (
                self.first_send < self.steps,
                f"first_send = {self.first_send}: something is sent before step {self.steps}, the "
                "end of the burn-in",
            ),
            (
                not self.public_settings,
                "the model, s, K, tau or R of the burn-in depends on the client's data",
            ),
            (
                not self.particles_only,
                "the raw examples are used again after they became particles",
            ),
            (
                self.labels == "private",
                "labels are not covered: use randomised response, charged by itself, or declare "
                "them public",
            ),
            (self.projection, "Sinkhorn during the burn-in can expand; project after it"),
        )
        for fails, reason in refusals:
            if fails:
                raise AccountingError(f"flow: {reason}")
