"""Schedules: values by hand, texts, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from fedgame.games.aggregative.schedules import Schedules, parse_schedule


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("power:1:0.5:1", [1, 1.5, 2, 2.5]),
        ("power:2:1:0.5", [2, 3, 2 + np.sqrt(2), 2 + np.sqrt(3)]),
        ("inverse:1:2:0.5", [1 / 2, 1 / 2.5, 1 / 3, 1 / 3.5]),
        (
            "inverse:.1:1:.1:.9",
            [0.1, 0.1 / 1.1, 0.1 / (1 + 0.1 * 2**0.9), 0.1 / (1 + 0.1 * 3**0.9)],
        ),
        ("geometric:2:0.5", [2, 1, 0.5, 0.25]),
        ("0.3", [0.3, 0.3, 0.3, 0.3]),
        ("4, 3, 2, 1", [4, 3, 2, 1]),
        ("5, 4, 3, 2, 1", [5, 4, 3, 2]),
    ],
)
def test_values(text: str, values: list[float]) -> None:
    assert parse_schedule(text).values(4) == pytest.approx(values, rel=1e-15)


@pytest.mark.parametrize(
    "text", ["", "power:1:2", "power:1:2:x", "power", "other:1", "1, x", "inf", "nan", "1,,2"]
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match='must be "power:P1:P2:P3"'):
        parse_schedule(text)


@pytest.mark.parametrize(
    ("noise", "error"),
    [
        ("0", "is 0 at iteration 0: must be > 0, from 1e-30"),
        ("power:0:1:1", "is 0 at iteration 0"),
        ("power:1:-0.5:1", "is 0 at iteration 2"),
        ("power:1:1:-1", "is inf at iteration 0"),
        ("geometric:1:1e-200", "is 1e-200 at iteration 1"),
        ("1, -1, 1, 1", "is -1 at iteration 1"),
        ("1, 2, 3", "3 numbers listed: 4 iterations need as many"),
        ("x", "must be"),
    ],
)
def test_the_error_names_the_schedule(noise: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^noise = '{noise}': {error}"):
        Schedules.of(4, noise=noise, step="1")


def test_three_schedules_of_a_run() -> None:
    schedules = Schedules.of(3, noise="1, 2, 3", step=".5, .4", gamma=".9, .7")
    assert len(schedules) == 3
    assert schedules.noise.tolist() == [1, 2, 3]
    assert schedules.step.tolist() == [0.5, 0.4]
    assert schedules.gamma.tolist() == [0.9, 0.7]
    assert Schedules.of(1, noise="1", step="1").step.shape == (0,)


def test_lengths_must_fit() -> None:
    with pytest.raises(ValueError, match="messages = 0: must be at least 1"):
        Schedules.of(0, noise="1", step="1")
    with pytest.raises(ValueError, match="schedules of shapes"):
        Schedules(np.ones(3), np.ones(3), np.ones(2))
