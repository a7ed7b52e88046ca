"""A machine of a test's own, as far as the command can tell, and what runs on it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

PROGRAMS = Path(sys.executable).parent


@dataclass(frozen=True)
class Machine:
    """A machine of the test's own as far as the command can tell."""

    environment: dict[str, str]
    scratch: Path
    runs: Path
    experiment: Path
    verb: tuple[str, ...] = ("run",)
    seconds: float = 200

    def command(self, *arguments: str) -> list[str]:
        return [str(PROGRAMS / "fedgame"), *self.verb, str(self.experiment), *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.seconds,
        )

    def go_on(
        self, folder: Path, *arguments: str, verb: tuple[str, ...] = ("run",)
    ) -> subprocess.CompletedProcess[str]:
        """Resume the run of a folder."""
        return subprocess.run(
            [str(PROGRAMS / "fedgame"), *verb, "--resume", str(folder), *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self.seconds,
        )

    def summary(self, *arguments: str) -> dict[str, Any]:
        result = self.run("--json", *arguments)
        assert result.returncode == 0, result.stderr
        content: dict[str, Any] = json.loads(result.stdout)
        return content

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def until(done: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def listening(processes: list[psutil.Process]) -> list[int]:
    connections = [c for process in processes for c in process.net_connections(kind="tcp")]
    return [c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
