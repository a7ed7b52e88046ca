"""Examples that become particles: the data reading of the JKO flow (MFPG paper, its state X_t).

A client's examples, clipped to a ball, take K noisy steps of the flow with a public model. What is
left of them afterwards is all that training ever sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import nn
from torch.func import functional_call

from fedgame.mechanisms.gaussian import noisy_step
from fedgame.mechanisms.jko import Jko

FloatArray = NDArray[np.float64]

RANDOMISED_RESPONSE = "randomised-response"
"""The name of the mechanism that labels are released by, where they are not public."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class BurnInSettings:
    """The section [burn-in]: what happens before the first round where `jko.reading` is "data".

    Step size, strength, prior and variance penalty are those of the section [jko].

    Attributes:
        steps: K, noisy steps that the particles take.
        radius: R, the norm to which each example's features are clipped.
        learning_rate: Factor of the clipped gradient in the noiseless training steps afterwards.
        labels: "public" (declared to be no secret), or "randomised-response": each label is drawn
            anew once, and everything uses that one.
        label_epsilon: Budget of one label under randomised response, charged once.
    """

    steps: int = Field(default=10, ge=1, le=10**6)
    radius: float = Field(default=1.0, ge=1e-9, le=1e9)
    learning_rate: float = Field(default=2.0, ge=1e-9, le=1e9)
    labels: Literal["public", "randomised-response"] = "public"
    label_epsilon: float = Field(default=2.0, gt=0, le=30)


def clipped(inputs: NDArray[np.float32], radius: float) -> FloatArray:
    """Return examples as particles of norm at most `radius`, shape (examples, d).

    An example that is not finite becomes 0.

    Args:
        inputs: Features, shape (examples, ...).
        radius: R > 0.
    """
    particles = inputs.reshape(len(inputs), -1).astype(np.float64)
    particles[~np.isfinite(particles).all(axis=1)] = 0.0
    norms = np.linalg.norm(particles, axis=1, keepdims=True)
    return np.asarray(particles * np.minimum(1.0, radius / np.maximum(norms, radius)))


def randomised_response(
    labels: NDArray[Any], classes: int, epsilon: float, rng: np.random.Generator
) -> NDArray[Any]:
    """Return labels of which each is kept with probability e^epsilon / (e^epsilon + k - 1).

    The others become each other class with the same probability, so that a label is epsilon-DP.

    Args:
        labels: Classes 0 to k - 1 in any type, shape (examples,).
        classes: k >= 2.
        epsilon: Budget of one label, > 0.
        rng: Source of randomness.

    Returns:
        Shape and type of `labels`.
    """
    kept = rng.random(len(labels)) < 1.0 / (1.0 + (classes - 1) * np.exp(-epsilon))
    shift = rng.integers(1, classes, len(labels))
    drawn = np.where(kept, labels, (labels + shift) % classes)
    return drawn.astype(labels.dtype)


class InputGradient:
    """The gradient of each example's loss in its features, at one public model, in float64."""

    def __init__(
        self,
        module: nn.Module,
        losses: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        parameters: NDArray[np.float32],
    ) -> None:
        """Fix the model.

        Args:
            module: The model's structure; it is not changed.
            losses: Loss of each example from outputs and targets.
            parameters: One flat vector in `module.parameters()` order.
        """
        self._module, self._losses = module, losses
        named = dict(module.named_parameters())
        pieces = np.split(parameters, np.cumsum([p.numel() for p in named.values()])[:-1])
        self._state = {
            name: torch.from_numpy(piece.astype(np.float64)).view_as(named[name])
            for name, piece in zip(named, pieces, strict=True)
        }

    def __call__(self, inputs: FloatArray, targets: NDArray[Any]) -> FloatArray:
        """Return the gradients, of the shape of `inputs`, (examples, ...)."""
        features = torch.from_numpy(inputs).requires_grad_()
        outputs = functional_call(self._module, self._state, (features,))
        total = self._losses(outputs, torch.from_numpy(targets)).sum()
        (gradient,) = torch.autograd.grad(total, features)
        return np.asarray(gradient.numpy(), dtype=np.float64)

    def classes(self, inputs: FloatArray) -> int:
        """Return how many classes the model tells apart, from examples of any value."""
        outputs = functional_call(self._module, self._state, (torch.from_numpy(inputs[:1]),))
        return max(2, int(outputs.shape[-1]))


def flow_step(
    particles: FloatArray, gradients: FloatArray, noise: FloatArray, mechanism: Jko
) -> FloatArray:
    """Return x - tau [g + (s/sigma0^2) x + lambda (x - mean)] + sqrt(2 s tau) noise.

    The mean is the client's own: over its particles.

    Args:
        particles: x, shape (examples, d).
        gradients: g, the loss gradient in x, same shape.
        noise: Standard normal draws, same shape.
        mechanism: tau, s, sigma0 and lambda.
    """
    drift = gradients + mechanism.strength / mechanism.prior_std**2 * particles
    if mechanism.lambda_ > 0:
        drift += mechanism.lambda_ * (particles - particles.mean(axis=0))
    strengths = np.full(len(particles), mechanism.strength)
    return noisy_step(particles, drift, strengths, noise, mechanism.tau)


def as_inputs(particles: FloatArray, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return particles as a model's inputs; what a step that overshoots blew up is cut off."""
    largest = float(np.finfo(np.float32).max)
    finite = np.nan_to_num(particles, nan=0.0, posinf=largest, neginf=-largest)
    return np.clip(finite, -largest, largest).astype(np.float32).reshape(shape)
