"""One thread for every client computation: two threads change sums, and bits with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def single_thread() -> Iterator[None]:
    """Run the block with one thread in torch and in every BLAS, then restore the numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)
