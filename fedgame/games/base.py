"""What every game has in common: a name, and a section of the configuration."""

from __future__ import annotations

from typing import ClassVar, Protocol


class Game(Protocol):
    """The rules by which players choose; a frozen dataclass built from its section."""

    name: ClassVar[str]
