"""The file of a transcript: what was written is what is read, and nothing else is read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame.games.aggregative.schedules import Schedules
from fedgame.games.aggregative.transcript import ARRAYS, Recording, Transcript, read_recording


def recording(iterations: int = 3) -> Recording:
    rng = np.random.default_rng(0)
    transcript = Transcript(
        rng.normal(size=(iterations, 2, 3)),
        rng.uniform(0.5, 2, (iterations, 2)),
        rng.random((iterations, 2)) < 0.7,
    )
    schedules = Schedules.of(4, noise="power:1:.5:1", step="inverse:1:2:1", gamma=".9")
    return Recording(transcript, rng.normal(size=(2, 3)), schedules)


def arrays_of(made: Recording) -> dict[str, Any]:
    transcript, schedules = made.transcript, made.schedules
    return {
        "o": transcript.messages,
        "scales": transcript.scales,
        "sent": transcript.sent,
        "initial": made.initial,
        "noise": schedules.noise,
        "step": schedules.step,
        "gamma": schedules.gamma,
    }


def written(path: Path, **change: Any) -> Path:
    """Write the file with some arrays changed; None leaves one out."""
    arrays = {**arrays_of(recording()), **change}
    kept = {name: array for name, array in arrays.items() if array is not None}
    with path.open("wb") as stream:
        np.savez_compressed(stream, **kept)
    return path


@pytest.mark.parametrize("iterations", [0, 1, 3, 4])
def test_what_is_read_is_what_was_written_to_the_bit(tmp_path: Path, iterations: int) -> None:
    path, made = tmp_path / "t.npz", recording(iterations)
    path.write_bytes(made.to_bytes())
    found = read_recording(path)
    assert len(found.transcript) == iterations
    for name, array in arrays_of(made).items():
        other = arrays_of(found)[name]
        assert (array.shape, array.dtype) == (other.shape, other.dtype)
        assert array.tobytes() == other.tobytes()


def test_the_same_recording_gives_the_same_bytes_whatever_the_time(tmp_path: Path) -> None:
    assert recording().to_bytes() == recording().to_bytes()
    path = tmp_path / "t.npz"
    path.write_bytes(recording().to_bytes())
    with zipfile.ZipFile(path) as file:
        assert {info.date_time[0] for info in file.infolist()} == {1980}
        assert {info.filename for info in file.infolist()} == {f"{name}.npy" for name in ARRAYS}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        *(({name: None}, f"is no transcript .*{name}") for name in ARRAYS),
        ({"o": np.zeros((3, 2), dtype=float)}, r"o \(3, 2\), scales \(3, 2\), sent \(3, 2\)"),
        ({"o": np.zeros((2, 2, 3))}, r"must be \(K, N, n\), \(K, N\), \(K, N\)"),
        ({"scales": np.ones((3, 1))}, r"scales \(3, 1\)"),
        ({"sent": np.ones((3, 3), dtype=bool)}, r"sent \(3, 3\)"),
        ({"o": np.full((3, 2, 3), np.nan)}, "transcript: o must be finite"),
        ({"scales": np.zeros((3, 2))}, "transcript: scales must be finite and > 0"),
        ({"scales": np.full((3, 2), np.inf)}, "transcript: scales must be finite and > 0"),
        ({"sent": np.ones((3, 2))}, "sent has dtype float64, must be bool"),
        ({"o": np.zeros((3, 2, 3), dtype=np.float32)}, "o has dtype float32, must be float64"),
        ({"gamma": np.ones(3, dtype=int)}, "gamma has dtype int64, must be float64"),
        ({"step": np.ones(4)}, r"schedules of shapes .* must be \(K,\), \(K - 1,\)"),
        ({"o": np.array([{}], dtype=object)}, "is no transcript .*allow_pickle"),
    ],
)
def test_what_is_no_transcript_is_refused_in_one_line_that_names_the_file(
    tmp_path: Path, change: dict[str, Any], error: str
) -> None:
    path = written(tmp_path / "t.npz", **change)
    with pytest.raises(ValueError, match=error) as found:
        read_recording(path)
    assert str(found.value).startswith(f"{path}: ")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"o = 1", b"\x00" * 100])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"t\.npz: is no transcript"):
        read_recording(path)


def test_a_single_array_is_no_transcript(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    with path.open("wb") as stream:
        np.save(stream, np.zeros((3, 2, 3)))
    with pytest.raises(ValueError, match=r"t\.npz: is no transcript"):
        read_recording(path)


def test_a_file_cut_short_or_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    whole = recording().to_bytes()
    broken = [whole[:length] for length in (10, len(whole) // 2, len(whole) - 1)]
    cuts = range(40, 240, 20)
    broken += [whole[:start] + bytes(20) + whole[start + 20 :] for start in cuts]
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"t\.npz: is no transcript") as found:
            read_recording(path)
        assert "\n" not in str(found.value)


def refusal(path: Path) -> str:
    """Return why a file is refused; nothing where the damage does not show."""
    try:
        read_recording(path)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_damage_the_answer_is_one_line(tmp_path: Path, seed: int) -> None:
    """Archives can be broken in ways that make their readers raise almost anything."""
    path, whole = tmp_path / "t.npz", bytearray(recording().to_bytes())
    rng = np.random.default_rng(seed)
    for _ in range(150):
        content = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 6)).tolist():
            content[place] = int(rng.integers(256))
        path.write_bytes(bytes(content))
        assert "\n" not in refusal(path)


def test_a_schedule_without_an_axis_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is no transcript .*schedules of shapes"):
        read_recording(written(tmp_path / "t.npz", noise=np.array(1.0)))


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_recording(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"initial": np.zeros((3, 3))}, r"initial of shape \(3, 3\): must be \(2, 3\) as o"),
        (
            {"noise": np.ones(2), "step": np.ones(1), "gamma": np.ones(1)},
            "3 iterations: the schedules have 2",
        ),
    ],
)
def test_parts_of_different_runs_are_refused(
    tmp_path: Path, change: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        read_recording(written(tmp_path / "t.npz", **change))
