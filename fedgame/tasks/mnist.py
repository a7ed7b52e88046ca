"""MNIST with a multilayer perceptron (MFPG paper, appendix D, task iii)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass
from torch import nn

from fedgame.tasks.base import COMPONENT, DataSource, Examples
from fedgame.tasks.classification import Classifier
from fedgame.tasks.data_files import Pixels
from fedgame.tasks.mnist_files import read_mnist
from fedgame.tasks.models import multilayer_perceptron
from fedgame.tasks.train_size import train_indices

PIXELS = 784
PUBLIC_MEAN = 0.1307
PUBLIC_STD = 0.3081
"""Published moments of MNIST's pixels over 255: constants of the task, so they cost no privacy."""


def _split_widths(value: object) -> object:
    """Turn "128, 64" (the form in which Flower carries lists) into its parts."""
    if isinstance(value, str | int):
        text = str(value)
        return text.split(",") if text.strip() else ()
    return value


Widths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_split_widths)]


@dataclass(frozen=True, config=COMPONENT)
class Mnist(Classifier):
    """The section [mnist]: digits of 28x28 pixels, flattened, for a network with ReLU.

    Attributes:
        hidden: Widths of the hidden layers, as "128, 64" or a sequence; empty = softmax regression.
        standardise: Whether pixels are standardised by the published mean .1307 and standard
            deviation .3081; otherwise they are scaled to [0, 1].
    """

    name: ClassVar[str] = "mnist"

    hidden: Widths = (128, 64)
    standardise: bool = True

    def load(
        self,
        source: DataSource,
        num_clients: int,  # noqa: ARG002
        seed: int,
    ) -> tuple[Examples, Examples]:
        """Return (training, public test) examples, inputs (n, 784), targets int64 0 to 9.

        Raises:
            DataError: The files are missing, truncated or altered.
            ConfigError: `train_size` is larger than the training set.
        """
        train, test = read_mnist(source)
        chosen = train_indices(len(train.labels), source, seed)
        return (
            self._examples(train.images[chosen], train.labels[chosen]),
            self._examples(test.images, test.labels),
        )

    def module(self) -> nn.Module:
        """Return the network; with the default widths it has 109,386 parameters."""
        return multilayer_perceptron((PIXELS, *self.hidden, 10))

    def _examples(self, images: Pixels, labels: Pixels) -> Examples:
        inputs = images.reshape(len(images), PIXELS).astype(np.float32)
        inputs /= 255.0
        if self.standardise:
            inputs -= PUBLIC_MEAN
            inputs /= PUBLIC_STD
        return Examples(inputs, labels.astype(np.int64))
