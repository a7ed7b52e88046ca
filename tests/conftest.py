"""What tests of whole runs share."""

from __future__ import annotations

import signal
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame import config
from fedgame.local_grid import ReplyHook
from fedgame.runner import Finished, run_in_process
from tests.support import SMALL, Run


def pytest_configure() -> None:
    """Let Ctrl-C reach tests and what they start: a background job and its children ignore it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests in one worker, and all that start Flower in one: they look for strays."""
    for item in items:
        group = "flower" if item.get_closest_marker("e2e") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a small experiment in this process, with `overrides` on top."""

    def start(
        overrides: dict[str, Any] | None = None, *, nodes: int = 2, hook: ReplyHook | None = None
    ) -> Finished:
        flat = {**SMALL, "output-dir": str(tmp_path), **(overrides or {})}
        return run_in_process(config.load(flat), nodes, lambda _: None, hook)

    return start


@pytest.fixture
def mnist_like(tmp_path: Path) -> Path:
    """Write a tiny data set in MNIST's files: 60 training and 20 test images of noise."""
    raw = tmp_path / "images" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 60), ("t10k", 20)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = rng.integers(0, 10, count, dtype=np.uint8)
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (raw / f"{prefix}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        header = struct.pack(">II", 0x801, count)
        (raw / f"{prefix}-labels-idx1-ubyte").write_bytes(header + labels.tobytes())
    return tmp_path / "images"
