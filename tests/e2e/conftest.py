"""The machine that tests of whole processes share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.machine import Machine

TINY = """\
num-clients = 5
rounds = 3

[task]
name = "logistic"
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    # Ray needs short paths
    scratch = Path(tempfile.mkdtemp(prefix="fg-", dir="/tmp"))
    experiment = tmp_path / "tiny.toml"
    experiment.write_text(TINY)
    runs = tmp_path / "runs"
    environment = {**os.environ, "TMPDIR": str(scratch), "FEDGAME_HOME": str(runs)}
    environment["PATH"] = "/usr/bin:/bin"
    yield Machine(environment, scratch, runs, experiment)
    shutil.rmtree(scratch)
