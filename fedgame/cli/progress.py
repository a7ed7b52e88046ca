"""What a run says while it runs: marked lines of Flower's log, and the lines that a user sees.

The ServerApp prints `fedgame-stage {...}` before what takes long, `fedgame-progress {...}` after a
round, and at the end `fedgame-summary {...}` or `fedgame-error {...}`. They cross any SuperLink,
near or far, as part of the run's log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isnan
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeGuard

from rich.console import Console
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column

_MARK = re.compile(r"fedgame-(stage|progress|summary|error) (?=\{)")

_Part: TypeAlias = tuple[str, object, Callable[[object], str]]

WAITING = "starting Flower: the first message takes 10-20 s while Ray and torch load"


@dataclass(frozen=True)
class Mark:
    """One marked line: its kind, and the JSON object that it carries."""

    kind: Literal["stage", "progress", "summary", "error"]
    content: Mapping[str, Any]


def read_mark(line: str) -> Mark | None:
    """Return the mark in a line of the log, None if it has none or a damaged one.

    Threads of Flower and Ray write to the same log, so other text may stand before and after.
    """
    found = _MARK.search(line)
    if found is None:
        return None
    try:
        content, _ = json.JSONDecoder().raw_decode(line, found.end())
    except json.JSONDecodeError:
        return None
    kind: Any = found[1]
    return Mark(kind, content)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value)


def number(value: object, digits: int = 4) -> str:
    """Return a number for a table: a few significant digits, a dash for None or NaN."""
    if not _is_number(value):
        return "-"
    return f"{value:.{digits}g}"


def bound(value: object) -> str:
    """Return an upper bound for a table, rounded up so that what is printed is still a bound."""
    if not _is_number(value):
        return "-"
    from fedgame.reports.guarantees import format_bound

    return format_bound(float(value))


def at_most(value: object) -> str:
    """Return a number for a table rounded down, so that what is printed is not too much."""
    if not _is_number(value):
        return "-"
    from fedgame.reports.guarantees import format_floor

    return format_floor(float(value))


def round_line(record: Mapping[str, Any]) -> str:
    """Return what is worth seeing of one round, as one line.

    Args:
        record: The fields of a RoundRecord, or of an IterationRecord in a game by messages, and
            `strategy`. Where privacy is bought nobody chooses a strength, and clients take turns.
    """
    parts = _of_game(record) if record.get("strategy") == "aggregative" else _of_training(record)
    return "  ".join(f"{name} {show(value)}" for name, value, show in parts if value is not None)


def _of_game(record: Mapping[str, Any]) -> list[_Part]:
    sent, asked = record.get("sent"), record.get("asked")
    return [
        ("leakage", record.get("leakage"), bound),
        ("about any one player", record.get("worst_individual_leakage"), bound),
        ("noise", record.get("noise"), number),
        ("sent", sent if asked in {None, sent} else f"{sent} of {asked}", str),
    ]


def _of_training(record: Mapping[str, Any]) -> list[_Part]:
    own: _Part = ("s-bar", record.get("mean_strength"), number)
    if record.get("strategy") == "jsam":
        own = ("clients", record.get("clients"), number)
    return [
        ("accuracy", record.get("accuracy"), number),
        ("loss", record.get("loss"), number),
        own,
        ("worst epsilon", record.get("worst_epsilon"), bound),
        ("exploitability", record.get("exploitability"), number),
    ]


class ProgressView:
    """A context that shows a run: a line a round, and on a terminal a living one below."""

    def __init__(self, console: Console, waiting: str) -> None:
        """Show on `console`; `waiting` is said until the first round is over."""
        self._console = console
        self._waiting = waiting
        self._live = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._live.add_task(waiting, total=None)

    def __enter__(self) -> ProgressView:
        if not self._console.is_terminal:
            self._console.print(self._waiting, highlight=False)
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, record: Mapping[str, Any]) -> None:
        """Show one round: `total_rounds`, and what `round_line` needs."""
        done, total = int(record["round"]), int(record["total_rounds"])
        line = round_line(record)
        doing = "playing" if record.get("strategy") == "aggregative" else "training"
        self._live.update(self._task, description=doing, completed=done, total=total)
        self.say(f"round {done}/{total}  {line}")

    def say(self, text: str) -> None:
        """Print a line above the living one."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
