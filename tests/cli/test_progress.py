"""Marked lines of a log, and what a user sees of them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fedgame.cli.progress import ProgressView, at_most, bound, number, read_mark, round_line

RECORD: dict[str, Any] = {
    "round": 3,
    "total_rounds": 10,
    "loss": 0.51234,
    "accuracy": 0.9,
    "mean_strength": 0.25,
    "worst_epsilon": 1.5,
    "exploitability": None,
    "clients": 5,
    "seconds": 0.1,
}

scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)


@given(st.dictionaries(st.text(), scalars), st.sampled_from(["progress", "summary", "error"]))
def test_a_mark_comes_back_whatever_stands_around_it(content: dict[str, Any], kind: str) -> None:
    line = f"(ClientAppActor pid=1) noise fedgame-{kind} {json.dumps(content)}INFO : more }} noise"
    mark = read_mark(line)
    assert mark is not None
    assert (mark.kind, mark.content) == (kind, content)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "fedgame-progress",
        "fedgame-progress {",
        'fedgame-progress {"round": 1',
        'fedgame-other {"round": 1}',
        "round 3/10  accuracy 0.9",
    ],
)
def test_other_lines_have_no_mark(line: str) -> None:
    assert read_mark(line) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.123456, "0.1235"),
        (12, "12"),
        (0, "0"),
        (1e-5, "1e-05"),
        (None, "-"),
        (float("nan"), "-"),
        (float("inf"), "inf"),
        ("text", "-"),
    ],
)
def test_numbers_in_tables(value: object, shown: str) -> None:
    assert number(value) == shown


def test_an_iteration_of_a_game_shows_what_leaked() -> None:
    record = {
        "round": 3,
        "total_rounds": 10,
        "strategy": "aggregative",
        "leakage": 0.123411,
        "worst_individual_leakage": 0.0567891,
        "worst_epsilon": 1.5,
        "possible": 0.25,
        "asked": 4,
        "sent": 4,
        "noise": 2.25,
        "seconds": 0.1,
    }
    # leakages are rounded up
    line = "leakage 0.1235  about any one player 0.05679  noise 2.25  sent 4"
    assert round_line(record) == line
    stream = io.StringIO()
    with ProgressView(Console(file=stream, width=120), "waiting") as view:
        view.show(record)
    assert f"round 3/10  {line}\n" in stream.getvalue()
    assert round_line({**record, "sent": 2, "asked": 6}).endswith("  sent 2 of 6")


def test_a_round_shows_what_it_has() -> None:
    assert round_line(RECORD) == "accuracy 0.9  loss 0.5123  s-bar 0.25  worst epsilon 1.5"


def test_a_round_of_a_purchase_shows_who_took_part_and_no_strength() -> None:
    record = {**RECORD, "strategy": "jsam"}
    assert round_line(record) == "accuracy 0.9  loss 0.5123  clients 5  worst epsilon 1.5"
    assert "s-bar 0.25" in round_line({**RECORD, "strategy": "mfpg"})


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (0.123456, "0.1234", "0.1235"),
        (0.99999, "0.9999", "1"),
        (0, "0", "0"),
        (2, "2", "2"),
        (None, "-", "-"),
        (float("nan"), "-", "-"),
        ("text", "-", "-"),
    ],
)
def test_budgets_are_rounded_down_and_bounds_up(value: object, down: str, up: str) -> None:
    assert (at_most(value), bound(value)) == (down, up)


def view_lines(total: int) -> list[str]:
    stream = io.StringIO()
    with ProgressView(Console(file=stream, width=200), "waiting for Ray") as view:
        for done in range(1, total + 1):
            view.show({**RECORD, "round": done, "total_rounds": total})
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("rounds", [3, 100])
def test_every_round_gets_a_line(rounds: int) -> None:
    lines = view_lines(rounds)
    assert lines[0] == "waiting for Ray"
    expected = [f"{done}/{rounds}" for done in range(1, rounds + 1)]
    assert [line.split()[1] for line in lines[1:]] == expected


def test_on_a_narrow_terminal_a_round_stays_one_line() -> None:
    stream = io.StringIO()
    with ProgressView(Console(file=stream, width=60, force_terminal=True), "waiting") as view:
        view.show({**RECORD, "exploitability": 0.123456})
    assert "accuracy 0.9" in stream.getvalue()
    # a wrapped line would be cleared by going up twice
    assert stream.getvalue().rsplit("accuracy", 1)[1].count("\x1b[1A") == 1


def test_on_a_terminal_the_view_says_what_is_waited_for() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=200, force_terminal=True)
    with ProgressView(console, "waiting for Ray") as view:
        view.say("a line above")
    assert "waiting for Ray" in stream.getvalue()
    assert "a line above" in stream.getvalue()
