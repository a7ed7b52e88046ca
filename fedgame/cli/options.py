"""Values from the command line over those of a TOML file; errors name where a value stands."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedgame.errors import ConfigError, FedgameError

SMALLEST, LARGEST = 1e-30, 1e30
"""What a number > 0 may be: powers and products of these are still floating-point numbers."""


@dataclass(frozen=True)
class Given:
    """A value that somebody gave.

    Attributes:
        label: What an error calls it: `--eta`, or `problem.toml: eta`.
        value: The value.
        folder: What a path in it is relative to.
    """

    label: str
    value: object
    folder: Path


def number_or_text(text: str) -> int | float | str:
    """Return the number that a text of the command line is, else the text, for an error to show."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class Options:
    """The values of a command by key; a key is an option's name without the dashes."""

    def __init__(
        self, keys: Collection[str], options: Mapping[str, object], path: Path | None
    ) -> None:
        """Merge.

        Args:
            keys: Every key that the command knows.
            options: Values of the command line, None where an option was not given.
            path: A TOML file whose values options overrule; its paths are relative to it.

        Raises:
            ConfigError: The file cannot be read, is no TOML, or holds an unknown key.
        """
        self._given = {} if path is None else _read(path, keys)
        self._here = {
            key: Given(f"--{key}", value, Path())
            for key, value in options.items()
            if value is not None
        }
        self._given |= self._here

    def __contains__(self, key: str) -> bool:
        return key in self._given

    def given(self, key: str) -> Given | None:
        """Return a value with its label, None where nobody gave one."""
        return self._given.get(key)

    @contextmanager
    def writing(self, key: str) -> Iterator[None]:
        """Turn what the system says of the folder of an option into an error that names it."""
        try:
            yield
        except OSError as error:
            reason = f"must be a folder that can be written ({error.strerror})"
            raise self.refuse(key, reason) from error

    def refuse(self, key: str, allowed: str) -> FedgameError:
        """Return the error about a key's value, or about its absence."""
        given = self.given(key)
        if given is None:
            return FedgameError(f"--{key} is missing: {allowed}")
        return ConfigError(given.label, given.value, allowed)

    def exclude(self, first: str, second: str) -> None:
        """Refuse two keys given together; one on the command line overrules the other in the file.

        Raises:
            ConfigError: Both stand on the command line, or both in the file.
        """
        if first in self and second in self:
            if (first in self._here) == (second in self._here):
                raise self.refuse(first, f"excludes {self._given[second].label}; give one of them")
            del self._given[second if first in self._here else first]

    def positive(self, key: str) -> float | None:
        """Return a finite number > 0, within reason, None where nobody gave one.

        Raises:
            ConfigError: The value is something else.
        """
        if key not in self:
            return None
        number = as_number(self._given[key].value)
        if number is None or number <= 0:
            raise self.refuse(key, "must be a finite number > 0")
        if not SMALLEST <= number <= LARGEST:
            raise self.refuse(key, f"must be from {SMALLEST:g} to {LARGEST:g}")
        return number

    def integer(self, key: str, least: int) -> int | None:
        """Return an integer that is at least `least`, None where nobody gave one.

        Raises:
            ConfigError: The value is something else.
        """
        if key not in self:
            return None
        value = self._given[key].value
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.refuse(key, f"must be an integer >= {least}")
        return value

    def text(self, key: str) -> str | None:
        """Return a text, None where nobody gave one.

        Raises:
            ConfigError: The value is something else.
        """
        if key not in self:
            return None
        value = self._given[key].value
        if not isinstance(value, str):
            raise self.refuse(key, "must be a text")
        return value

    def choice(self, key: str, names: Collection[str], default: str) -> str:
        """Return one of some names, or the default where nobody gave one.

        Raises:
            ConfigError: The value is something else.
        """
        name = self.text(key)
        if name is not None and name not in names:
            raise self.refuse(key, "allowed: " + ", ".join(names))
        return default if name is None else name

    def path(self, key: str) -> Path | None:
        """Return a path, a relative one taken from the place of the file that names it.

        Raises:
            ConfigError: The value is something else.
        """
        text = self.text(key)
        return None if text is None else self._given[key].folder / text


def as_number(value: object) -> float | None:
    """Return a finite number as a float, None for anything else, also for true and false."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _read(path: Path, keys: Collection[str]) -> dict[str, Given]:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError("problem", str(path), f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError("problem", str(path), "is not text in UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("problem", str(path), f"is not valid TOML: {error}") from error
    for key, value in tree.items():
        if key not in keys:
            close = difflib.get_close_matches(key, keys, n=1)
            hint = f"did you mean {close[0]}?" if close else "allowed: " + ", ".join(keys)
            raise ConfigError(f"{path}: {key}", value, f"unknown key; {hint}")
    return {key: Given(f"{path}: {key}", value, path.parent) for key, value in tree.items()}
