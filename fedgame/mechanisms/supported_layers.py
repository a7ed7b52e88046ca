"""Which layers of a model have per-example gradients, and the rule of each.

Linear layers and two-dimensional convolutions have rules of our own; other layers use Opacus' where
it has one, or its vmap fall-back for layers that the user wrote. Whatever is left is refused by
name before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedgame.errors import ConfigError
from fedgame.mechanisms.layer_gradients import (
    LayerGradients,
    LayerRule,
    conv2d_rule,
    linear_rule,
    materialised,
)


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer with parameters.

    Attributes:
        name: Its path in the model and its type, as shown in errors.
        module: The layer itself.
        parameters: Its parameters, in the order of `module.parameters()`.
        rule: Builds its per-example gradients.
    """

    name: str
    module: nn.Module
    parameters: tuple[nn.Parameter, ...]
    rule: LayerRule


def supported_layers(module: nn.Module) -> tuple[Layer, ...]:
    """Return the layers of `module` that have parameters; in-place activations are switched off.

    Raises:
        ConfigError: A layer mixes examples, draws random numbers, shares a parameter, is frozen or
            not float32, or has no rule; the message names it.
    """
    for path, part in module.named_modules():
        _check_behaviour(_title(path, part), part)
        if getattr(part, "inplace", False):
            part.inplace = False
    owners: dict[nn.Parameter, str] = {}
    layers = []
    for path, part in _units(module, ""):
        title = _title(path, part)
        parameters = tuple(part.parameters())
        for parameter in parameters:
            if parameter in owners:
                raise refused(title, f"it shares a parameter with {owners[parameter]}")
            owners[parameter] = title
            _check_parameter(title, parameter)
        rule = _rule(title, part)
        layers.append(Layer(title, part, parameters, rule))
    if not layers:
        raise refused(_title("", module), "it has no parameters")
    return tuple(layers)


def refused(title: str, reason: str) -> ConfigError:
    """Return the error that names a layer and why it has no per-example gradients."""
    return ConfigError("model", title, f"per-example gradients cannot be had: {reason}")


def _title(path: str, part: nn.Module) -> str:
    return f"{path or 'model'} ({type(part).__name__})"


def _check_behaviour(title: str, part: nn.Module) -> None:
    """Refuse layers that mix examples or draw from torch's global generator."""
    if isinstance(part, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001
        raise refused(title, "it mixes the examples of a batch; use GroupNorm or LayerNorm")
    if getattr(part, "track_running_stats", False):
        raise refused(title, "it keeps statistics of the batch; set track_running_stats=False")
    if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:  # noqa: SLF001
        raise refused(title, "it draws from a global generator, so no run could be repeated")


def _check_parameter(title: str, parameter: nn.Parameter) -> None:
    if nn.parameter.is_lazy(parameter):
        raise refused(title, "its shape is not known yet; run the model once beforehand")
    if parameter.dtype != torch.float32:
        raise refused(title, f"its parameters are {parameter.dtype}; they must be torch.float32")
    if not parameter.requires_grad:
        raise refused(title, "it has a frozen parameter; make that a buffer")


def _units(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield the topmost modules that own parameters directly; what is inside belongs to them."""
    if next(module.parameters(recurse=False), None) is not None:
        yield path, module
        return
    for name, child in module.named_children():
        yield from _units(child, f"{path}.{name}" if path else name)


def _rule(title: str, part: nn.Module) -> LayerRule:
    names = {name for name, _ in part.named_parameters()}
    # A subclass may compute something else, and weight normalisation renames the parameters.
    if names <= {"weight", "bias"} and "weight" in names:
        if type(part) is nn.Linear:
            return _own(part, linear_rule(part))
        if type(part) is nn.Conv2d:
            return _own(part, conv2d_rule(part))
    return _opacus_rule(title, part)


def _own(part: nn.Module, rule: LayerRule) -> LayerRule:
    """Keep autograd away from the parameters: their gradients come from the rule."""
    part.requires_grad_(requires_grad=False)
    return rule


def _opacus_rule(title: str, part: nn.Module) -> LayerRule:
    # Opacus takes a second to import, and most models never need it.
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.functorch import ft_compute_per_sample_gradient, prepare_layer

    sampler = GradSampleModule.GRAD_SAMPLERS.get(type(part))
    if sampler is None:
        if type(part).__module__.startswith("torch."):
            raise refused(title, "neither fedgame nor Opacus has a rule for it")
        if next(part.buffers(), None) is not None:
            raise refused(title, "Opacus has no rule for a layer of one's own that has buffers")
        prepare_layer(part)
        sampler = ft_compute_per_sample_gradient

    def rule(inputs: Tensor, gradients: Tensor) -> LayerGradients:
        samples: dict[Any, Tensor] = sampler(part, [inputs], gradients)
        return materialised(tuple(samples[parameter].detach() for parameter in part.parameters()))

    return rule
