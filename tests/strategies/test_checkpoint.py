"""Checkpoints: whole or absent, exact to the bit, never unpickled."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgame.errors import RunFailed
from fedgame.strategies.checkpoint import (
    CHECKPOINT,
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)

VALUES = [0.1, 1 / 3, 5e-324, float("inf")]


def test_every_bit_comes_back(tmp_path: Path) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "parameters": np.array([0.1, -0.0], dtype=np.float32),
        "strengths": np.array([VALUES]),
    }
    write_checkpoint(tmp_path, Checkpoint(arrays, {"round": 3, "losses": VALUES}))
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert found.settings == {"round": 3, "losses": VALUES}
    for name, value in arrays.items():
        assert found.arrays[name].tobytes() == value.tobytes()
        assert found.arrays[name].dtype == value.dtype


def test_a_new_one_takes_the_place_of_the_last_and_leaves_nothing(tmp_path: Path) -> None:
    for round_ in (1, 2):
        write_checkpoint(tmp_path, Checkpoint({}, {"round": round_}))
    found = read_checkpoint(tmp_path)
    assert found is not None
    assert found.settings == {"round": 2}
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_none_is_none(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None


def test_a_damaged_one_is_said_to_be(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, Checkpoint({"x": np.arange(1000.0)}, {}))
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(RunFailed, match="damaged"):
        read_checkpoint(tmp_path)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(pickle.dumps({"settings": 1}))
    with pytest.raises(RunFailed, match="damaged"):
        read_checkpoint(tmp_path)


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="cannot write"):
        write_checkpoint(tmp_path / "gone", Checkpoint({}, {}))
