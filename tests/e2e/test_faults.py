"""What a run does when the disk is full or cannot be written, and when it is not alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fedgame.ledger.store import Ledger
from tests.e2e.machine import Machine

pytestmark = pytest.mark.e2e

MANY = """\
num-clients = 200
rounds = 8

[task]
name = "logistic"
"""
HERE = ("--no-flower", "--json")


class Disk:
    """A small file system of its own; its size may change."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder

    def mount(self, size: str) -> None:
        self._mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.folder))

    def remount(self, option: str) -> None:
        self._mount("-o", f"remount,{option}", str(self.folder))

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    try:
        made.mount("100m")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    yield made
    made.unmount()


@pytest.fixture
def many(machine: Machine) -> Machine:
    machine.experiment.write_text(MANY)
    return machine


def one_error(result: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    return line


@pytest.mark.parametrize("size", ["150k", "300k"])
def test_a_full_disk_ends_the_run_and_with_room_it_goes_on(
    many: Machine, disk: Disk, size: str
) -> None:
    whole = many.summary(*HERE[:1])
    disk.remount(f"size={size}")
    full = many.run(*HERE, "-c", f'output-dir="{disk.folder}"', "-c", 'run-name="it"')
    assert full.returncode == 1
    error, folder = one_error(full), disk.folder / "it"
    assert "No space left on device" in error or "disk is full" in error
    assert error.endswith(f"it goes on with --resume {folder}")
    for path in folder.glob("*.sqlite"):
        if not path.stat().st_size:
            continue  # there was no room for its first page
        with Ledger(path, read_only=True) as ledger:
            rows = ledger.rows()
        # a client's round is charged whole or not at all
        assert {row.round for row in rows} == set(range(1, rows[-1].round + 1 if rows else 1))
    disk.remount("size=100m")
    rest = many.go_on(folder, *HERE)
    assert rest.returncode == 0, rest.stderr
    assert json.loads(rest.stdout)["model_sha256"] == whole["model_sha256"]
    with (
        Ledger(folder / "ledger.sqlite", read_only=True) as found,
        Ledger(Path(whole["run_dir"]) / "ledger.sqlite", read_only=True) as expected,
    ):
        assert found.rows() == expected.rows()


@pytest.mark.parametrize(
    "verb",
    [("run", "--no-flower"), ("run",), ("deploy", "local", "--nodes", "2")],
    ids=" ".join,
)
def test_a_folder_that_cannot_be_written_is_told_before_anything_starts(
    many: Machine, disk: Disk, verb: tuple[str, ...]
) -> None:
    runs = disk.folder / "runs"
    runs.mkdir()
    disk.remount("ro")
    result = replace(many, verb=verb).run("-c", f'output-dir="{runs}"')
    assert result.returncode == 2
    expected = f"error: output-dir = '{runs}': must be a folder that can be written (Read-only"
    assert one_error(result).startswith(expected)
    assert list(many.scratch.iterdir()) == []
    assert not many.runs.exists()


def _both(machine: Machine, *arguments: str) -> list[dict[str, str]]:
    running = [machine.start("--json", *arguments) for _ in range(2)]
    outputs = [process.communicate(timeout=machine.seconds) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    return [json.loads(output) for output, _ in outputs]


def test_two_runs_at_once_have_folders_of_their_own(machine: Machine) -> None:
    one, other = _both(machine)
    assert one["run_dir"] != other["run_dir"]
    assert one["model_sha256"] == other["model_sha256"]
    assert list(machine.scratch.iterdir()) == []
