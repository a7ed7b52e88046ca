"""Binary logistic regression with a planted separator (MFPG paper, appendix D, task ii)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import nn
from torch.nn.functional import logsigmoid

from fedgame.randomness import public_generator
from fedgame.tasks.base import COMPONENT, DataSource, Examples
from fedgame.tasks.initial import initial_parameters
from fedgame.tasks.models import linear
from fedgame.tasks.synthetic import TEST_EXAMPLES, planted_features, planted_vector
from fedgame.tasks.train_size import train_indices


@dataclass(frozen=True, config=COMPONENT)
class Logistic:
    """The section [logistic]: which side of a planted hyperplane, some labels flipped.

    Rows x are N(0, I/dim), the label is 1 where x.w* > 0, and each label is flipped with
    probability `label_noise`: the best possible accuracy is exactly 1 - label_noise. The paper
    names only dimension, clients and rounds; the scale is ours.

    Attributes:
        dim: Number of parameters.
        examples_per_client: Training examples are `num-clients` times this.
        label_noise: Probability that a label is flipped.
    """

    name: ClassVar[str] = "logistic"
    kind: ClassVar[str] = "classification"

    dim: int = Field(default=20, ge=1, le=10**6)
    examples_per_client: int = Field(default=50, ge=1)
    label_noise: float = Field(default=0.1, ge=0, lt=0.5)

    def load(self, source: DataSource, num_clients: int, seed: int) -> tuple[Examples, Examples]:
        """Return (training, public test) examples, inputs (n, dim), targets float32 0 or 1.

        Raises:
            ConfigError: `train_size` is larger than the training set.
        """
        train = self._draw("train", num_clients * self.examples_per_client, seed)
        chosen = train_indices(len(train), source, seed)
        return train.subset(chosen), self._draw("test", TEST_EXAMPLES, seed)

    def planted_parameters(self, seed: int) -> NDArray[np.float64]:
        """Return w*, the normal of the planted hyperplane, shape (dim,)."""
        return planted_vector(public_generator(seed, "logistic planted"), self.dim)

    def module(self) -> nn.Module:
        """Return the model x -> x.w, a logit."""
        return linear(self.dim, 1, bias=False)

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Return zeros, shape (dim,)."""
        return initial_parameters(self.module(), seed)

    def input_smoothness(self, parameters: NDArray[np.float32]) -> float:
        """Return |w|^2/4: the Hessian in x is p (1 - p) w w^T, p the probability of label 1."""
        return float(np.sum(parameters.astype(np.float64) ** 2)) / 4

    def losses(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the binary cross entropy of each logit, shape (..., examples)."""
        # Not softplus or torch's binary cross entropy: their last bits depend on where an element
        # stands in the array, so a client's result would depend on who else is in its cohort.
        return -logsigmoid((2.0 * targets - 1.0) * outputs.squeeze(-1))

    def correct(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return whether the logit's sign is the label's; a logit of 0 predicts label 0."""
        return (outputs.squeeze(-1) > 0) == (targets > 0.5)

    def _draw(self, part: str, count: int, seed: int) -> Examples:
        rng = public_generator(seed, f"logistic {part} features")
        features, products = planted_features(rng, count, self.planted_parameters(seed))
        uniform = public_generator(seed, f"logistic {part} label noise").random(count)
        labels = (products > 0) ^ (uniform < self.label_noise)
        return Examples(features, labels.astype(np.float32))
