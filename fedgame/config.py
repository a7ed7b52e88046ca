"""Flat run configuration -> one frozen, validated experiment.

A key is `name` at the top level or `section.name`; a component's section bears its own name
(`jko.tau`). Flower passes scalars only, so a list is a comma separated string.
"""

from __future__ import annotations

import difflib
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from fedgame.accountants import ACCOUNTANTS
from fedgame.accountants.base import Accountant
from fedgame.accountants.pml_filter import PmlFilter
from fedgame.errors import ConfigError
from fedgame.games import GAMES
from fedgame.games.aggregative import AGGREGATIVE, PRIORS
from fedgame.games.aggregative.settings import Aggregative
from fedgame.games.privacy.population import Population
from fedgame.games.procurement import PROCUREMENT
from fedgame.games.procurement.settings import Procurement
from fedgame.mechanisms import MECHANISMS
from fedgame.mechanisms.burn_in import BurnInSettings
from fedgame.partitions import PARTITIONS
from fedgame.registry import Registry
from fedgame.reports.run_folder import toml_value
from fedgame.strategies.accounting import contraction_accountant, flow_accountant, lsi_accountant
from fedgame.strategies.consistency import check_together
from fedgame.strategies.settings import Accounting, Experiment, RunSettings, Scalar, Training
from fedgame.tasks import TASKS
from fedgame.tasks.base import DataSource

T = TypeVar("T")

CELLS: dict[str, tuple[str, str]] = {
    "dp-sgd": ("gaussian", "none"),
    "mfep": ("jko", "none"),
    "mapg-dp": ("gaussian", "mapg"),
    "mfpg": ("jko", "mean-field"),
}
"""(mechanism, game) of each cell of the 2x2 grid (MFPG paper, Table 1)."""

_SETTINGS: dict[str, type] = {
    "training": Training,
    "accountant": Accounting,
    "task": DataSource,
    "burn-in": BurnInSettings,
    "population": Population,
    "procurement": Procurement,
    "aggregative": Aggregative,
    "pml-filter": PmlFilter,
}
_REGISTRIES: dict[str, Registry[Any]] = {
    "task": TASKS,
    "partition": PARTITIONS,
    "mechanism": MECHANISMS,
    "game": GAMES,
    "procurement": PROCUREMENT,
    "aggregative": AGGREGATIVE,
    "prior": PRIORS,
}
_CHOICES = {
    "partition.name": "iid",
    "mechanism.name": "auto",
    "game.name": "auto",
    "prior.name": "product-prior",
}


def toml_key(field: str) -> str:
    """Return the TOML key of a dataclass field: `lambda_` -> `lambda`, `data_dir` -> `data-dir`."""
    return field.rstrip("_").replace("_", "-")


def _scalar(value: object) -> Scalar:
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{value!r} has no place in a flat configuration")


def _default(field: Field[Any]) -> object:
    # pydantic keeps its own Field object as the dataclass default
    default = field.default
    if default is MISSING:
        raise TypeError(f"field {field.name} of a component has no default")
    return getattr(default, "default", default)


def _section_defaults(cls: type) -> dict[str, Scalar]:
    return {toml_key(field.name): _scalar(_default(field)) for field in fields(cls)}


@functools.cache
def _sections() -> dict[str, type]:
    """Every section and the class that validates it, in the order of the configuration table."""
    sections = dict(_SETTINGS)
    for registry in _REGISTRIES.values():
        sections.update({name: registry.get(name) for name in registry})
    return sections


@functools.cache
def defaults() -> Mapping[str, Scalar]:
    """Return every key with its default: together they are the demo experiment."""
    table: dict[str, Scalar] = _section_defaults(RunSettings)
    table.update(_CHOICES)
    for section, cls in _sections().items():
        table.update({f"{section}.{key}": value for key, value in _section_defaults(cls).items()})
    return table


def to_toml(flat: Mapping[str, Scalar]) -> str:
    """Return a flat configuration as TOML text with dotted keys, one line a key."""
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in flat.items())


def config_keys_toml() -> str:
    """Return the body of pyproject's [tool.flwr.app.config] table."""
    return to_toml(defaults())


def read_toml(path: Path) -> dict[str, Scalar]:
    """Read an experiment file into flat keys.

    Raises:
        ConfigError: The file is missing or is no valid TOML, or holds a value that is no scalar.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("experiment", str(path), f"cannot be read ({error})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("experiment", str(path), f"is not valid TOML: {error}") from error
    return _flatten(tree)


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Scalar]:
    flat: dict[str, Scalar] = {}
    for key, value in tree.items():
        name = prefix + key
        if isinstance(value, Mapping):
            flat.update(_flatten(value, name + "."))
            continue
        try:
            flat[name] = _scalar(value)
        except TypeError:
            raise ConfigError(name, value, "must be a scalar or a list of scalars") from None
    return flat


def parse_override(text: str) -> tuple[str, Scalar]:
    """Parse one `key=value`; the value is TOML, a bare word is a string.

    Raises:
        ConfigError: The text has no `=`.
    """
    key, separator, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not separator or not key:
        raise ConfigError("--run-config", text, "must be of the form key=value")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    return key, _flatten({key: parsed})[key] if not isinstance(parsed, Mapping) else value


def _check_keys(flat: Mapping[str, object]) -> None:
    known = defaults()
    for key, value in flat.items():
        if key in known:
            if isinstance(value, bool) and not isinstance(known[key], bool):
                raise ConfigError(key, value, "must not be true or false")
            continue
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(key, value, f"unknown key{hint} (`fedgame keys` lists them all)")


def _allowed(error: Mapping[str, Any]) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    # not what is written in capitals, such as the names of a form
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def _build(cls: type[T], section: str, flat: Mapping[str, object]) -> T:
    prefix = f"{section}." if section else ""
    names = {toml_key(field.name): field.name for field in fields(cls)}  # type: ignore[arg-type]
    values = {name: flat[prefix + key] for key, name in names.items()}
    try:
        return cls(**values)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        # a check over several fields has no place of its own and names its fields in its text
        key = prefix + toml_key(field) if field in names.values() else section or "configuration"
        value = first["input"] if field in names.values() else "(the section)"
        raise ConfigError(key, value, _allowed(first)) from None


def _component(kind: str, name: str, flat: Mapping[str, object]) -> Any:
    return _build(_REGISTRIES[kind].get(name), name, flat)


def load(overrides: Mapping[str, object]) -> Experiment:
    """Validate a flat configuration over the defaults and build its components.

    Raises:
        ConfigError: The first key that is unknown or has a value that is not allowed.
    """
    _check_keys(overrides)
    flat: dict[str, Any] = {**defaults(), **overrides}
    run = _build(RunSettings, "", flat)
    # what is bought is Gaussian noise, whatever cell the privacy grid would be in
    mechanism, game = CELLS[run.cell if run.strategy == "mfpg" else "dp-sgd"]
    flat["mechanism.name"] = (
        mechanism if flat["mechanism.name"] == "auto" else flat["mechanism.name"]
    )
    flat["game.name"] = game if flat["game.name"] == "auto" else flat["game.name"]
    for section, cls in _sections().items():
        # also what this run does not use: a wrong value is a mistake wherever it stands
        _build(cls, section, flat)
    source = _build(DataSource, "task", flat)
    procurement = _build(Procurement, "procurement", flat)
    aggregative = _build(Aggregative, "aggregative", flat)
    experiment = Experiment(
        run=run,
        training=_build(Training, "training", flat),
        accounting=_build(Accounting, "accountant", flat),
        source=source,
        task=_component("task", source.name, flat),
        partition=_component("partition", str(flat["partition.name"]), flat),
        mechanism=_component("mechanism", str(flat["mechanism.name"]), flat),
        burn_in=_build(BurnInSettings, "burn-in", flat),
        game=_component("game", str(flat["game.name"]), flat),
        population=_build(Population, "population", flat),
        procurement=procurement,
        buyer=_component("procurement", procurement.name, flat),
        aggregative=aggregative,
        cost_game=_component("aggregative", aggregative.name, flat),
        prior=_component("prior", str(flat["prior.name"]), flat),
        pml_filter=_build(PmlFilter, "pml-filter", flat),
        flat=flat,
    )
    check_together(experiment)
    return experiment


def accountant(name: str, experiment: Experiment) -> Accountant:
    """Build the accountant called `name` for an experiment.

    Raises:
        ConfigError: No accountant has that name.
        AccountingError: It is not about such a run.
    """
    if name == "lsi":
        return lsi_accountant(experiment)
    if name == "contraction":
        return contraction_accountant(experiment)
    if name == "flow":
        return flow_accountant(experiment)
    return ACCOUNTANTS.get(name)()
