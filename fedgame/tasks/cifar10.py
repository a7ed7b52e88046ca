"""CIFAR-10 with the convolutional network that private learning is measured on (JSAM, VI-A4)."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass
from torch import nn

from fedgame.tasks.base import COMPONENT, DataSource, Examples
from fedgame.tasks.cifar10_files import read_cifar10
from fedgame.tasks.classification import Classifier
from fedgame.tasks.data_files import RawSplit
from fedgame.tasks.models import MaxPool, convolution, linear
from fedgame.tasks.train_size import train_indices

CHANNELS = (3, 32, 64, 128)
"""Colours, then the width of each of the three stages."""

HIDDEN = 128
PUBLIC_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
PUBLIC_STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
"""Published moments of ImageNet's red, green and blue over 255, with which Tramer and Boneh train:
no image of CIFAR-10 went into them, so they cost no privacy."""


@dataclass(frozen=True, config=COMPONENT)
class Cifar10(Classifier):
    """The section [cifar10], which has no keys: photographs of 32x32 pixels in ten classes.

    The network is the one of Tramer and Boneh, "Differentially private learning needs better
    features (or much more data)" (2021), which the JSAM paper takes: stages of two 3x3 convolutions
    with 32, 64 and 128 channels, each followed by 2x2 max pooling, then two fully connected layers,
    with tanh throughout.
    """

    name: ClassVar[str] = "cifar10"

    def load(
        self,
        source: DataSource,
        num_clients: int,  # noqa: ARG002
        seed: int,
    ) -> tuple[Examples, Examples]:
        """Return (training, public test) examples, inputs (n, 3, 32, 32), targets int64 0 to 9.

        Raises:
            DataError: The files are missing, truncated or altered.
            ConfigError: `train_size` is larger than the training set.
        """
        train, test = read_cifar10(source)
        chosen = train_indices(len(train.labels), source, seed)
        return (
            _examples(RawSplit(train.images[chosen], train.labels[chosen])),
            _examples(test),
        )

    def module(self) -> nn.Module:
        """Return the network, 550,570 parameters.

        Pooling comes before tanh: tanh is increasing, so the result is the same at a quarter of the
        evaluations.
        """
        stages = [part for sizes in pairwise(CHANNELS) for part in _stage(*sizes)]
        return nn.Sequential(
            *stages,
            nn.Flatten(),
            linear(CHANNELS[-1] * 16, HIDDEN, bias=True),
            nn.Tanh(),
            linear(HIDDEN, 10, bias=True),
        )


def _stage(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return (
        convolution(inputs, outputs, 3, padding=1),
        nn.Tanh(),
        convolution(outputs, outputs, 3, padding=1),
        MaxPool(stride=2),
        nn.Tanh(),
    )


def _examples(split: RawSplit) -> Examples:
    inputs = split.images.astype(np.float32)
    inputs /= 255.0
    inputs -= PUBLIC_MEAN[:, None, None]
    inputs /= PUBLIC_STD[:, None, None]
    return Examples(inputs, split.labels.astype(np.int64))
