"""What has no per-example gradients is refused, and the message names the layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgame.errors import ConfigError
from fedgame.mechanisms.bookkeeping import PerExampleClipper

pytestmark = pytest.mark.filterwarnings("ignore")  # importing Opacus warns of deprecations


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets, reduction="none")


def shared() -> nn.Module:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), second)


def frozen() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 4))
    module.requires_grad_(requires_grad=False)
    return module


class OwnBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


AT_CONSTRUCTION: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "batch norm": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)),
        "1 (BatchNorm2d)",
        "mixes the examples",
    ),
    "batch norm without parameters": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False)),
        "1 (BatchNorm1d)",
        "mixes the examples",
    ),
    "instance norm with statistics": (
        lambda: nn.Sequential(nn.InstanceNorm1d(4, track_running_stats=True), nn.Linear(4, 4)),
        "0 (InstanceNorm1d)",
        "track_running_stats=False",
    ),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)),
        "1 (Dropout)",
        "global generator",
    ),
    "lstm": (lambda: nn.Sequential(nn.LSTM(4, 4)), "0 (LSTM)", "has a rule"),
    "attention": (
        lambda: nn.TransformerEncoderLayer(4, 2, dropout=0.0),
        "self_attn (MultiheadAttention)",
        "has a rule",
    ),
    "weight norm": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))),
        "0 (ParametrizedLinear)",
        "has a rule",
    ),
    "own buffer": (lambda: nn.Sequential(OwnBuffer()), "0 (OwnBuffer)", "buffers"),
    "half precision": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).half()),
        "1 (Linear)",
        "torch.float16",
    ),
    "double precision": (lambda: nn.Linear(4, 4).double(), "model (Linear)", "torch.float64"),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(4)), "0 (LazyLinear)", "not known yet"),
    "shared": (shared, "2 (Linear)", "shares a parameter with 0 (Linear)"),
    "frozen": (frozen, "0 (Linear)", "frozen"),
    "no parameters": (lambda: nn.ReLU(), "model (ReLU)", "no parameters"),
}


@pytest.mark.parametrize("case", AT_CONSTRUCTION)
def test_refused_at_construction(case: str) -> None:
    make, layer, reason = AT_CONSTRUCTION[case]
    with pytest.raises(ConfigError) as caught:
        PerExampleClipper(make(), cross_entropy)
    assert caught.value.key == "model"
    assert caught.value.value == layer
    assert reason in str(caught.value)


def test_dropout_that_drops_nothing_is_allowed() -> None:
    PerExampleClipper(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0)), cross_entropy)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(torch.tanh(self.layer(x)))
        return out


class ByHand(Twice):
    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.layer.weight, self.layer.bias)


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu_(self.second(torch.tanh(self.first(x))))


class InputInPlace(InPlace):
    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x)) * 2.0
        out: Tensor = self.second(hidden)
        hidden.add_(1.0)
        return out


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.factor * x + y


class UsesTwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = TwoInputs()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x, x)
        return out


@pytest.mark.parametrize(
    ("make", "layer", "reason"),
    [
        (Twice, "layer (Linear)", "called twice"),
        (ByHand, "layer (Linear)", "does not call it"),
        (InPlace, "second (Linear)", "changed in place"),
        (InputInPlace, "second (Linear)", "changed in place"),
        (UsesTwoInputs, "layer (TwoInputs)", "one tensor"),
    ],
)
def test_refused_at_the_first_pass(make: Callable[[], nn.Module], layer: str, reason: str) -> None:
    """These would give wrong gradients without a word."""
    clipper = PerExampleClipper(make(), cross_entropy)
    parameters = np.zeros(clipper.num_parameters, dtype=np.float32)
    inputs, targets = np.ones((3, 4), dtype=np.float32), np.zeros(3, dtype=np.int64)
    with pytest.raises(ConfigError) as caught:
        clipper.clipped_sum(parameters, inputs, targets, 1.0)
    assert caught.value.value == layer
    assert reason in str(caught.value)
