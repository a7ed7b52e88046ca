"""MNIST with a small convolutional network (JSAM paper, section VI-A4)."""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass
from torch import nn

from fedgame.tasks.base import COMPONENT, DataSource, Examples
from fedgame.tasks.classification import Classifier
from fedgame.tasks.mnist import Mnist
from fedgame.tasks.models import MaxPool, convolution, linear


@dataclass(frozen=True, config=COMPONENT)
class MnistCnn(Classifier):
    """The section [mnist-cnn], which has no keys: digits of 28x28 pixels for two convolutions.

    Pixels are standardised as in [mnist]. The paper names two convolutions, 2x2 max pooling and two
    fully connected layers with ReLU, but no sizes; these are those of Opacus' MNIST example, with
    which the paper trains, and of Tramer and Boneh's MNIST network (arXiv:2011.11660).
    """

    name: ClassVar[str] = "mnist-cnn"

    def load(self, source: DataSource, num_clients: int, seed: int) -> tuple[Examples, Examples]:
        """Return (training, public test) examples, inputs (n, 1, 28, 28), targets int64 0 to 9.

        Raises:
            DataError: The files are missing, truncated or altered.
            ConfigError: `train_size` is larger than the training set.
        """
        train, test = Mnist().load(source, num_clients, seed)
        return _as_images(train), _as_images(test)

    def module(self) -> nn.Module:
        """Return the network, 26,010 parameters.

        Pooling comes before the activation: ReLU is increasing, so the result is the same.
        """
        return nn.Sequential(
            convolution(1, 16, 8, stride=2, padding=3),
            MaxPool(stride=1),
            nn.ReLU(),
            convolution(16, 32, 4, stride=2),
            MaxPool(stride=1),
            nn.ReLU(),
            nn.Flatten(),
            linear(512, 32, bias=True),
            nn.ReLU(),
            linear(32, 10, bias=True),
        )


def _as_images(examples: Examples) -> Examples:
    return Examples(examples.inputs.reshape(-1, 1, 28, 28), examples.targets)
