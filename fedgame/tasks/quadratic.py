"""Linear least squares with a planted solution (MFPG paper, appendix D, task i)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import nn

from fedgame.randomness import public_generator
from fedgame.tasks.base import COMPONENT, DataSource, Examples
from fedgame.tasks.initial import initial_parameters
from fedgame.tasks.models import linear
from fedgame.tasks.synthetic import TEST_EXAMPLES, planted_features, planted_vector
from fedgame.tasks.train_size import train_indices


@dataclass(frozen=True, config=COMPONENT)
class Quadratic:
    """The section [quadratic]: loss 1/2 (a.w - b)^2 an example, that is, 1/2 |A w - b|^2 / n.

    Rows a are N(0, I/dim) and b = a.w* + noise with |w*| = sqrt(dim), so that targets have variance
    1 + noise_std^2 and the Hessian of the mean loss is about I/dim: its largest eigenvalue stays
    below 1 with a few examples per dimension, and plain gradient descent is stable up to a learning
    rate of 2 and more. The paper names only dimension, clients and rounds; the scale is ours.

    Attributes:
        dim: Number of parameters.
        examples_per_client: Training examples are `num-clients` times this.
        noise_std: Standard deviation of the noise in the targets; the best expected loss is half
            its square.
    """

    name: ClassVar[str] = "quadratic"
    kind: ClassVar[str] = "regression"

    dim: int = Field(default=5, ge=1, le=10**6)
    examples_per_client: int = Field(default=50, ge=1)
    noise_std: float = Field(default=0.1, ge=0)

    def load(self, source: DataSource, num_clients: int, seed: int) -> tuple[Examples, Examples]:
        """Return (training, public test) examples, inputs (n, dim), targets float32 (n,).

        Raises:
            ConfigError: `train_size` is larger than the training set.
        """
        train = self._draw("train", num_clients * self.examples_per_client, seed)
        chosen = train_indices(len(train), source, seed)
        return train.subset(chosen), self._draw("test", TEST_EXAMPLES, seed)

    def planted_parameters(self, seed: int) -> NDArray[np.float64]:
        """Return w*, the minimiser of the expected loss, shape (dim,)."""
        return planted_vector(public_generator(seed, "quadratic planted"), self.dim)

    def module(self) -> nn.Module:
        """Return the model a -> a.w."""
        return linear(self.dim, 1, bias=False)

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Return zeros, shape (dim,)."""
        return initial_parameters(self.module(), seed)

    def input_smoothness(self, parameters: NDArray[np.float32]) -> float:
        """Return |w|^2: the Hessian in x of 1/2 (x.w - b)^2 is w w^T."""
        return float(np.sum(parameters.astype(np.float64) ** 2))

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return 1/2 (output - target)^2, shape (..., examples)."""
        return 0.5 * (outputs.squeeze(-1) - targets).square()

    def correct(self, outputs: torch.Tensor, targets: torch.Tensor) -> None:  # noqa: ARG002
        """Return None: a regression has no accuracy."""
        return

    def _draw(self, part: str, count: int, seed: int) -> Examples:
        rng = public_generator(seed, f"quadratic {part} features")
        features, products = planted_features(rng, count, self.planted_parameters(seed))
        noise = public_generator(seed, f"quadratic {part} noise").standard_normal(count)
        targets = products + self.noise_std * noise
        return Examples(features, targets.astype(np.float32))
