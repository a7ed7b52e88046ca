"""The collector rests for the length of a block and is then as it was."""

from __future__ import annotations

import gc

import pytest

from fedgame.strategies.collector import collector_paused


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_before(on: bool) -> None:
    (gc.enable if on else gc.disable)()
    try:
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is on
    finally:
        gc.enable()


def test_a_failure_inside_does_not_leave_it_off() -> None:
    with pytest.raises(ZeroDivisionError), collector_paused():
        _ = 1 / 0
    assert gc.isenabled()
