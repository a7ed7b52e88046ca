"""Handwritten digits of 8x8 pixels, which ship with scikit-learn: the demo task."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass
from torch import nn

from fedgame.randomness import public_generator
from fedgame.tasks.base import COMPONENT, DataSource, Examples
from fedgame.tasks.classification import Classifier
from fedgame.tasks.models import linear
from fedgame.tasks.train_size import train_indices

TEST_EXAMPLES = 360
"""Size of the public test set; the other 1437 of the 1797 images are for training."""

PIXELS = 64
MAX_PIXEL = 16.0
OFFSET = 0.3
"""About the mean pixel over MAX_PIXEL: centred pixels make the clipped gradients shorter."""


@dataclass(frozen=True, config=COMPONENT)
class Digits(Classifier):
    """The section [digits], which has no keys: softmax regression on pixel/16 - .3."""

    name: ClassVar[str] = "digits"

    def load(
        self,
        source: DataSource,
        num_clients: int,  # noqa: ARG002
        seed: int,
    ) -> tuple[Examples, Examples]:
        """Return (training, public test) examples, inputs (n, 64), targets int64 0 to 9.

        Raises:
            ConfigError: `train_size` is larger than 1437.
        """
        from sklearn.datasets import load_digits  # takes a second: only for whoever needs it

        pixels, labels = load_digits(return_X_y=True)
        inputs = (pixels / MAX_PIXEL - OFFSET).astype(np.float32)
        order = public_generator(seed, "digits test split").permutation(len(labels))
        shuffled = Examples(inputs[order], labels[order].astype(np.int64))
        chosen = train_indices(len(labels) - TEST_EXAMPLES, source, seed)
        test = np.arange(len(labels) - TEST_EXAMPLES, len(labels))
        return shuffled.subset(chosen), shuffled.subset(test)

    def module(self) -> nn.Module:
        """Return softmax regression: a linear layer with bias, 650 parameters."""
        return linear(PIXELS, 10, bias=True)
