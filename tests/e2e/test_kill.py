"""A run that SIGKILL ends at any moment goes on as if nothing had happened."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame import config
from fedgame.ledger.events import LedgerRow
from fedgame.ledger.store import Ledger
from fedgame.runner import run_in_process

RUN: dict[str, Any] = {
    "task.name": "logistic",
    "num-clients": 6,
    "rounds": 10,
    "mean-field.choice-every": 3,
    "reply-timeout": 0.1,
}


def _forked(act: Callable[[], object]) -> int:
    """Do something in a process of its own, which nobody's clean-up follows; return its number."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    return child


def _ended(child: int, timeout: float = 120.0) -> bool:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    return False


def _what_is_left(folder: Path) -> tuple[list[LedgerRow], str, str]:
    with Ledger(folder / "ledger.sqlite", read_only=True) as ledger:
        rows, digest = ledger.rows(), ledger.digest()
    if (folder / "transcript.npz").exists():
        with np.load(folder / "transcript.npz") as stored:
            parts = [name.encode() + stored[name].tobytes() for name in sorted(stored.files)]
        return rows, digest, hashlib.sha256(b"".join(parts)).hexdigest()
    return rows, digest, json.loads((folder / "summary.json").read_text())["model_sha256"]


@pytest.mark.e2e
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize(("system", "kills"), [("mfpg", 20), ("aggregative", 5)])
def test_killed_at_random_moments(tmp_path: Path, system: str, kills: int) -> None:
    base = {**RUN, "strategy": system, "output-dir": str(tmp_path)}
    if system == "aggregative":
        base |= {"aggregative.noise": "power:2:1:1", "pml-filter.action": "measure"}

    def play(name: str, *, resume: bool = False) -> None:
        flat = {**base, "run-name": name, "resume": resume}
        run_in_process(config.load(flat), 2, lambda _: None)

    started = time.monotonic()
    assert _ended(_forked(partial(play, "whole")))
    took = time.monotonic() - started
    whole = _what_is_left(tmp_path / "whole")
    rng, killed, tries = random.Random(42), 0, 0
    while killed < kills:
        tries += 1
        name = f"killed-{tries}"
        child = _forked(partial(play, name))
        while not (tmp_path / name / "config.toml").exists():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.8 * took))
        os.kill(child, signal.SIGKILL)
        assert _ended(child)
        if (tmp_path / name / "summary.json").exists():
            assert tries < 3 * kills, "the runs end before they are killed"
            continue
        killed += 1
        assert _ended(_forked(partial(play, name, resume=True)))
        assert _what_is_left(tmp_path / name) == whole, name
