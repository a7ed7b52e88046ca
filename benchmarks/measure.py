"""What one run of a job takes: the thread's time and the memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


def timed(job: Callable[..., Result], *args: Any) -> tuple[float, Result]:
    """Return the CPU time of one run in seconds, and its result."""
    start = time.thread_time()
    result = job(*args)
    return time.thread_time() - start, result


def mebibytes(job: Callable[..., object], *args: Any) -> float:
    """Return the most memory that one run has allocated at a time."""
    tracemalloc.start()
    job(*args)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20
