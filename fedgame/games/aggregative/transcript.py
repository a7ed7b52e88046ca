"""What was sent in a run, as everybody saw it, and the file that keeps it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgame.errors import RunFailed
from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.best_response import BoolArray, FloatArray

FILE = "transcript.npz"
"""The name of the file in a run folder."""

ARRAYS = ("o", "scales", "sent", "initial", "noise", "step", "gamma")
"""The arrays of the file: messages, their noise, what was sent; start and planned schedules."""


@dataclass(frozen=True, eq=False)
class Transcript:
    """The messages of K' iterations, K' at most what was planned, 0 if nothing was sent.

    Attributes:
        messages: o, shape (K', N, n); what a player did not send is its last message, or x_0.
        scales: M of the Laplace noise of each message, shape (K', N), > 0.
        sent: Which messages were sent, shape (K', N).
    """

    messages: FloatArray
    scales: FloatArray
    sent: BoolArray

    def __post_init__(self) -> None:
        """Check shapes and numbers."""
        shape = self.messages.shape
        if len(shape) != 3 or self.scales.shape != shape[:2] or self.sent.shape != shape[:2]:
            shapes = f"o {shape}, scales {self.scales.shape}, sent {self.sent.shape}"
            raise ValueError(f"transcript of shapes {shapes}: must be (K, N, n), (K, N), (K, N)")
        if not np.isfinite(self.messages).all():
            raise ValueError("transcript: o must be finite")
        if not (np.isfinite(self.scales) & (self.scales > 0)).all():
            raise ValueError("transcript: scales must be finite and > 0")

    def __len__(self) -> int:
        return len(self.messages)


@dataclass(frozen=True, eq=False)
class Recording:
    """A transcript with what is public about how it came about, as in the file.

    Attributes:
        transcript: What was sent.
        initial: x_0, shape (N, n).
        schedules: The planned sequences, of at least as many iterations.
    """

    transcript: Transcript
    initial: FloatArray
    schedules: Schedules

    def __post_init__(self) -> None:
        """Check that the parts are of one run."""
        iterations, *shape = self.transcript.messages.shape
        if self.initial.shape != tuple(shape):
            raise ValueError(f"initial of shape {self.initial.shape}: must be {tuple(shape)} as o")
        if iterations > len(self.schedules):
            raise ValueError(f"{iterations} iterations: the schedules have {len(self.schedules)}")

    def to_bytes(self) -> bytes:
        """Return the file's content; the same recording gives the same bytes."""
        transcript, schedules = self.transcript, self.schedules
        arrays = {
            "o": transcript.messages,
            "scales": transcript.scales,
            "sent": transcript.sent,
            "initial": self.initial,
            "noise": schedules.noise,
            "step": schedules.step,
            "gamma": schedules.gamma,
        }
        stream = io.BytesIO()
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        return stream.getvalue()


def read_recording(path: Path) -> Recording:
    """Return the recording that a file holds.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no such file.
    """
    content = path.read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return _recording({name: file[name] for name in ARRAYS})
    except Exception as error:  # a damaged archive can make its readers raise anything
        text = str(error) or type(error).__name__
        raise ValueError(f"{path}: is no transcript ({text})") from error


def _recording(found: Mapping[str, NDArray[Any]]) -> Recording:
    for name in ARRAYS:
        dtype = np.bool_ if name == "sent" else np.float64
        if found[name].dtype != dtype:
            wanted = np.dtype(dtype).name
            raise ValueError(f"{name} has dtype {found[name].dtype}, must be {wanted}")
    return Recording(
        Transcript(found["o"], found["scales"], found["sent"]),
        found["initial"],
        Schedules(found["noise"], found["step"], found["gamma"]),
    )


def write_recording(path: Path, recording: Recording) -> None:
    """Write the file, whole or not at all.

    Raises:
        RunFailed: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(recording.to_bytes())
        temporary.replace(path)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror}") from error
