"""From a TOML file and overrides to the settings of the coupled equations, every value checked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fedgame.cli.options import Given, Options
from fedgame.config import parse_override, toml_key
from fedgame.errors import ConfigError, FedgameError
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk, flow_constants

NAMES: Final = {
    toml_key(field.name): field.name
    for field in fields(HjbFpk)
    if field.name != "initial_density"  # a function, for Python only
}
"""Every key of the command, and the field that it sets."""

LARGEST: Final = 1e9
LIMITED: Final = ("x-min", "x-max", "s0", "initial-mean", "num-clients")
"""Keys whose numbers are held to at most LARGEST in size here; `HjbFpk` limits the others."""

CONSTANTS: Final = ("theta", "s0")
GRADIENT_BOUND: Final = 1.0
"""G where s0 is not given: the clipping norm of the paper's experiments."""

PAPER: Final[Mapping[str, object]] = {
    "loss": "logistic",
    "horizon": 1.5,
    "num_clients": 8,
    "betas": (0.5, 0.75, 1.0, 1.25, 1.5),
    "privacy": "once",
}
"""The MFPG paper's logistic task, with its K = 15 steps of length 0.1 and its N = 8 clients.

Its preferences go evenly from 0.5 to 1.5; lambda = 0.01, sigma0 = 1 and strengths from 0.1 to 2 are
defaults of `HjbFpk`. The equations have one dimension, so that C_d = 1: with the C_d of the task's
20 nearly every client would take the largest strength. Privacy is paid once, as eq. 5.3 says.
"""


def read_settings(path: Path | None, overrides: Sequence[str]) -> HjbFpk:
    """Return the settings: overrides over those of a file over the paper's.

    theta and s0, where nobody gives them, follow from horizon, prior-std and variance-penalty by
    `flow_constants`, with G = 1.

    Args:
        path: A TOML file, None for the paper's setting.
        overrides: Texts of the form key=value.

    Raises:
        FedgameError: The first key that is unknown or has a value that is not allowed.
    """
    options = Options(NAMES, {}, path)
    found = {key: options.given(key) for key in NAMES}
    given = {key: value for key, value in found.items() if value is not None}
    given |= _overrides(overrides)
    for key, entry in given.items():
        _check_kind(key, entry)
        if key in ("betas", "weights"):
            given[key] = Given(entry.label, _listed(entry.value), entry.folder)
    # every default is spelled out, so that it is checked against what was given as well
    base = HjbFpk(**PAPER)  # type: ignore[arg-type]
    values = {name: getattr(base, name) for name in NAMES.values()}
    values |= {NAMES[key]: entry.value for key, entry in given.items()}
    free = {name: value for name, value in values.items() if name not in CONSTANTS}
    constants = _constants(_checked(free, given), given)
    values |= {key: value for key, value in constants.items() if key not in given}
    return _checked(values, given)


def _constants(settings: HjbFpk, given: Mapping[str, Given]) -> dict[str, float]:
    try:
        theta, s0 = flow_constants(
            1, settings.horizon, settings.prior_std, settings.variance_penalty, GRADIENT_BOUND
        )
    except ZeroDivisionError:
        reason = "too small: T/(2 prior-std^2) is infinite"
        raise ConfigError(given["prior-std"].label, settings.prior_std, reason) from None
    return {"theta": theta, "s0": s0}


def _overrides(texts: Sequence[str]) -> dict[str, Given]:
    parsed = dict(parse_override(text) for text in texts)
    for key, value in parsed.items():
        if key not in NAMES:
            close = difflib.get_close_matches(key, NAMES, n=1)
            hint = f"did you mean {close[0]}?" if close else "allowed: " + ", ".join(NAMES)
            raise ConfigError(key, value, f"unknown key; {hint}")
    return {key: Given(key, value, Path()) for key, value in parsed.items()}


def _check_kind(key: str, entry: Given) -> None:
    if isinstance(entry.value, bool):
        raise ConfigError(entry.label, entry.value, "must not be true or false")
    if key in LIMITED and isinstance(entry.value, int | float) and abs(entry.value) > LARGEST:
        raise ConfigError(entry.label, entry.value, f"must be at most {LARGEST:g} in size")


def _listed(value: object) -> object:
    """Return a list as it is, and a comma separated text or a single number as a list."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int | float) else value


def _checked(values: Mapping[str, Any], given: Mapping[str, Given]) -> HjbFpk:
    try:
        return HjbFpk(**values)
    except ValidationError as error:
        first = error.errors()[0]
        message = str(first["msg"]).removeprefix("Value error, ")
        if not first["loc"]:
            # a check over several fields names them, with their values, in its text
            raise FedgameError(message) from None
        key = toml_key(str(first["loc"][0]))
        label = given[key].label if key in given else key
        if key in CONSTANTS and key not in given:
            label = f"{key}, from horizon, prior-std and variance-penalty,"
        raise ConfigError(label, first["input"], _allowed(first["type"], message)) from None


def _allowed(kind: str, message: str) -> str:
    if kind == "too_short":
        return "must have at least one number"
    text = message[:1].lower() + message[1:]
    return "must" + text.removeprefix("input should") if text.startswith("input should") else text
