"""Run jobs one after the other, and say how long the rest will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from statistics import fmean
from typing import Protocol, TypeVar

from scripts.results import Key


class BenchmarkError(Exception):
    """A run that gives no row; the text is for the user."""


class Timed(Protocol):
    """A job."""

    @property
    def place(self) -> Key:
        """What it has in common with the jobs that take about as long."""
        ...

    @property
    def label(self) -> str:
        """Its name for the user."""
        ...


JobT = TypeVar("JobT", bound=Timed)


class Clock:
    """How long the runs to come will take, judged by those that were."""

    def __init__(self, known: Iterable[tuple[Key, float]]) -> None:
        """Start from the seconds that runs took, by their places, wherever they were made."""
        self._seconds: dict[Key, list[float]] = {}
        for place, seconds in known:
            self.took(place, seconds)

    def took(self, place: Key, seconds: float) -> None:
        """Take note of a run."""
        self._seconds.setdefault(place, []).append(seconds)

    def left(self, jobs: Sequence[Timed]) -> str:
        """Return the time that jobs will take, or that it is not known yet."""
        known = [second for seconds in self._seconds.values() for second in seconds]
        if not known:
            return "time left unknown"
        guesses = (fmean(self._seconds.get(job.place, known)) for job in jobs)
        return f"about {timedelta(seconds=round(sum(guesses)))} left"


def say(text: str) -> None:
    """Write a line about the progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def run_all(jobs: Sequence[JobT], clock: Clock, run: Callable[[JobT], str]) -> int:
    """Run jobs in order and return how many failed.

    Args:
        jobs: What to run.
        clock: What is known about their durations; learns from each run.
        run: Runs one job, keeps its rows, and returns what to say; may raise `BenchmarkError`.
    """
    failed = 0
    for number, job in enumerate(jobs, start=1):
        left, start = clock.left(jobs[number - 1 :]), time.monotonic()
        try:
            said = run(job)
        except BenchmarkError as error:
            failed, said = failed + 1, f"failed: {error}"
        clock.took(job.place, time.monotonic() - start)
        say(f"{number}/{len(jobs)}, {left}: {job.label}: {said}")
    return failed
