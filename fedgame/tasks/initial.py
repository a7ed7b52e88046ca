"""Public initial parameters, from NumPy's Philox so that they are the same on every machine."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedgame.errors import ConfigError
from fedgame.randomness import public_generator


def initial_parameters(module: nn.Module, seed: int) -> NDArray[np.float32]:
    """Return initial parameters as one flat vector in `module.parameters()` order.

    A single linear layer starts at zero (its loss is convex). Every other model follows torch's
    default rule: weights and bias of a layer uniform on +-1/sqrt(fan-in).

    Args:
        module: The model, made of nn.Linear and nn.Conv2d layers and of layers without parameters.
        seed: The public seed.

    Raises:
        ConfigError: The model has parameters in a layer of another type.

    Examples:
        >>> initial_parameters(nn.Linear(3, 2), seed=0)
        array([0., 0., 0., 0., 0., 0., 0., 0.], dtype=float32)
    """
    if isinstance(module, nn.Linear):
        return np.zeros(sum(p.numel() for p in module.parameters()), dtype=np.float32)
    rng = public_generator(seed, "initial parameters")
    parts: list[NDArray[np.float64]] = []
    for layer in module.modules():
        own = list(layer.parameters(recurse=False))
        if not own:
            continue
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            allowed = "initial parameters have a rule for Linear and Conv2d; give the task its own"
            raise ConfigError("model", type(layer).__name__, allowed)
        bound = 1.0 / sqrt(layer.weight[0].numel())
        parts.extend(rng.uniform(-bound, bound, parameter.numel()) for parameter in own)
    return np.concatenate(parts).astype(np.float32)
