"""Where a run stands after a round: written whole or not at all, read by the run that goes on."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import RunFailed

CHECKPOINT = "checkpoint.npz"
"""Name in a run folder of where the run stands."""

HOSTS = "hosts.npz"
"""Name in a run folder of who the run was begun with."""

_SETTINGS = "settings"


@dataclass(frozen=True)
class Checkpoint:
    """What a server half has to know to go on; all of it is public.

    Attributes:
        arrays: Arrays by name.
        settings: Everything else, as JSON has it; floats keep all their bits.
    """

    arrays: Mapping[str, NDArray[Any]]
    settings: Mapping[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint, name: str = CHECKPOINT) -> None:
    """Put a checkpoint on disk in place of the last one.

    Raises:
        RunFailed: It cannot be written.
    """
    content = io.BytesIO()
    text = json.dumps(dict(checkpoint.settings)).encode()
    named: dict[str, Any] = {**checkpoint.arrays, _SETTINGS: np.frombuffer(text, dtype=np.uint8)}
    np.savez(content, **named)
    path = folder / name
    partial = path.with_name(f".{name}.part")
    try:
        with partial.open("wb") as stream:
            stream.write(content.getbuffer())
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror}") from error


def read_checkpoint(folder: Path, name: str = CHECKPOINT) -> Checkpoint | None:
    """Return the last checkpoint of a run, None where there is none.

    Raises:
        RunFailed: The file is damaged.
    """
    path = folder / name
    if not path.is_file():
        return None
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        settings = json.loads(arrays.pop(_SETTINGS).tobytes())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise RunFailed(f"{path}: it is damaged ({error})") from error
    return Checkpoint(arrays, settings)
