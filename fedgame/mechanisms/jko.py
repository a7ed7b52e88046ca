"""The particle-Sinkhorn JKO step: entropic gradient flow as a Gaussian mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic.dataclasses import dataclass

from fedgame.mechanisms.base import ClientContext, Release
from fedgame.mechanisms.gaussian import gaussian_events, noisy_step
from fedgame.mechanisms.sinkhorn import (
    MATRIX_ENTRIES,
    POT_ENTRIES,
    barycentric_projection,
    large_projection,
    pot_projection,
)

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Jko:
    """The local update of the entropic cells MFEP and MFPG (MFPG paper, Alg. 3).

    x' = x - tau [g + (s/sigma0^2) x + lambda (x - xbar)] + sqrt(2 s tau) N(0, I), then each tensor
    is moved to its barycentric image under entropic transport onto itself. The clipped gradient g
    enters once and with that noise; the drift's other terms, the projection and all that follows
    use public values and x' only. So one step is a Gaussian mechanism with noise multiplier
    sqrt(2 s/tau)/sensitivity, and the rest is post-processing.

    Attributes:
        tau: Step size of the flow.
        prior_std: sigma0, standard deviation of the prior that pulls parameters to zero with
            strength s/sigma0^2.
        lambda_: Penalty on the variance of a tensor's entries around their mean xbar.
        strength: s where no game chooses it. The default gives noise multiplier 4.5 to a client
            with 143 examples at sampling rate 1/4, clipping norm 1 and tau 2.
        noise_multiplier: If positive, used instead of `strength`: the strength at which the client
            with the fewest examples has this noise multiplier.
        sinkhorn: Whether to project.
        sinkhorn_reg: Regulariser of the transport, over the variance of the tensor's entries.
        sinkhorn_cap: Tensors with more entries are not projected. 512 is the MFPG paper's cap; a
            larger one lifts it, and the largest, 10^9, projects every tensor. Above 512 entries
            time and memory are proportional to the number of entries.
        sinkhorn_solver: "symmetric" (one potential), or "pot" (the POT library: the same up to its
            tolerance, slow, and with matrices of all pairs, so that the cap is at most 4096).
        reading: What the particles are: each tensor's entries ("parameters"), or the client's
            examples ("data"), which take their steps before the first round; see [burn-in].
    """

    name: ClassVar[str] = "jko"

    tau: float = Field(default=2.0, ge=1e-9, le=1e9)
    prior_std: float = Field(default=1.0, ge=1e-6, le=1e9)
    lambda_: float = Field(default=0.0, ge=0, le=1e6)
    strength: float = Field(default=0.016, gt=0, le=1e30)
    noise_multiplier: float = Field(default=0.0, ge=0, le=1e30)
    sinkhorn: bool = True
    sinkhorn_reg: float = Field(default=0.1, gt=0)
    sinkhorn_cap: int = Field(default=512, ge=2, le=10**9)
    sinkhorn_solver: Literal["symmetric", "pot"] = "symmetric"
    reading: Literal["parameters", "data"] = "parameters"

    @field_validator("sinkhorn_solver")
    @classmethod
    def _fits_in_memory(cls, value: str, info: ValidationInfo) -> str:
        cap = info.data.get("sinkhorn_cap", 0)
        if value == "pot" and cap > POT_ENTRIES:
            raise ValueError(
                f"needs a sinkhorn-cap of at most {POT_ENTRIES}, not {cap}: POT holds matrices of "
                'all pairs of entries; "symmetric" takes any cap'
            )
        return value

    @property
    def step_size(self) -> float:
        """tau, the step size of the flow."""
        return self.tau

    def release(
        self,
        states: FloatArray,
        gradients: FloatArray,
        strengths: FloatArray,
        contexts: Sequence[ClientContext],
        noise: FloatArray,
        tensor_sizes: Sequence[int],
    ) -> Release:
        """Take one noisy step and project; see `Mechanism.release`."""
        drift = (strengths / self.prior_std**2)[:, None] * states
        drift += gradients
        if self.lambda_ > 0:
            for tensor in _tensors(tensor_sizes):
                own = states[:, tensor]
                drift[:, tensor] += self.lambda_ * (own - own.mean(axis=1, keepdims=True))
        value = noisy_step(states, drift, strengths, noise, self.tau)
        if self.sinkhorn:
            self._project(value, tensor_sizes)
        return Release(value, gaussian_events(self.name, strengths, contexts, self.tau))

    def _project(self, value: FloatArray, tensor_sizes: Sequence[int]) -> None:
        """Replace each tensor that is small enough by its projection."""
        for tensor in _tensors(tensor_sizes):
            size = tensor.stop - tensor.start
            if 2 <= size <= self.sinkhorn_cap:
                value[:, tensor] = self._projection(size)(value[:, tensor], self.sinkhorn_reg)

    def _projection(self, size: int) -> Callable[[FloatArray, float], FloatArray]:
        """Return what projects tensors of one size."""
        if self.sinkhorn_solver == "pot":
            return pot_projection
        return barycentric_projection if size <= MATRIX_ENTRIES else large_projection


def _tensors(sizes: Sequence[int]) -> Iterator[slice]:
    """Yield where each tensor's entries are in the flat parameter vector."""
    start = 0
    for size in sizes:
        yield slice(start, start + size)
        start += size
