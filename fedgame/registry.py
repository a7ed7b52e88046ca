"""Tables of components by name: one line a component, imported when first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

from fedgame.errors import ConfigError

T = TypeVar("T")


class Registry(Generic[T]):
    """The components of one kind: a mapping from their names to "module:Class".

    Components are imported when first asked for, so that listing them costs nothing.
    """

    def __init__(self, kind: str, table: Mapping[str, str]) -> None:
        """Keep the table; `kind` is the configuration section that chooses among its names."""
        self.kind = kind
        self._table = dict(table)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def get(self, name: str) -> type[T]:
        """Return the class registered as `name`.

        Raises:
            ConfigError: No component of this kind has that name.
        """
        if name not in self._table:
            allowed = "allowed: " + ", ".join(sorted(self._table))
            raise ConfigError(f"{self.kind}.name", name, allowed)
        module, _, attribute = self._table[name].partition(":")
        component: type[T] = getattr(import_module(module), attribute)
        return component
