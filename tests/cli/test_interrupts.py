"""Signals become notes: nothing is interrupted in the middle, and waits end."""

from __future__ import annotations

import os
import signal
import time

import pytest

from fedgame.cli.interrupts import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noted_and_raises_nothing(number: signal.Signals) -> None:
    with Interrupts() as interrupts:
        assert not interrupts.stop
        os.kill(os.getpid(), number)
        assert interrupts.stop
        assert not interrupts.hurry
    assert interrupts.exit_code == 128 + number


def test_the_first_signal_sets_the_exit_code_and_the_second_hurries() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.hurry
    assert interrupts.exit_code == 143


def test_each_signal_is_told() -> None:
    told: list[int] = []
    with Interrupts() as interrupts:
        interrupts.on_signal = lambda: told.append(len(interrupts.signals))
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert told == [1, 2]


def test_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_an_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupts.stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_wait_returns_when_it_is_done() -> None:
    answers = iter([False, False, True])
    assert Interrupts().wait(lambda: next(answers), 60)


def test_wait_ends_in_time() -> None:
    start = time.monotonic()
    assert not Interrupts().wait(lambda: False, 0.2)
    assert time.monotonic() - start < 5


def test_a_second_signal_ends_a_wait() -> None:
    interrupts = Interrupts()
    interrupts.signals = [signal.SIGINT, signal.SIGINT]
    start = time.monotonic()
    assert not interrupts.wait(lambda: False, 60)
    assert time.monotonic() - start < 5


def test_a_wait_gives_up_when_told() -> None:
    start = time.monotonic()
    assert not Interrupts().wait(lambda: False, 60, give_up=lambda: True)
    assert time.monotonic() - start < 5
