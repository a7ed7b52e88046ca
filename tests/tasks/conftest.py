"""Data sets that several tests of tasks share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tasks.cifar_files import write_cifar10
from tests.tasks.servers import Mirror, serving


@pytest.fixture
def cifar_like(tmp_path: Path) -> Path:
    """Write a tiny data set in CIFAR-10's files: 60 training and 20 test images of noise."""
    write_cifar10(tmp_path / "photographs")
    return tmp_path / "photographs"


@pytest.fixture
def data_dir() -> Path:
    """Return the folder of real data sets, which may be absent."""
    named = os.environ.get("FEDGAME_DATA_DIR")
    return Path(named) if named else Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    """Serve an empty folder on loopback."""
    with serving(tmp_path_factory.mktemp("mirror")) as mirror:
        yield mirror
