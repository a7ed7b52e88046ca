"""Flower's programs as processes of our own, and at the end nothing of them is left.

Every process inherits an environment in which FLWR_HOME is a folder of this run, and Flower's
start sessions of their own. Ray's overwrite their environment with a title, but stay in the session
of the Flower process that started Ray. So all of them can be told from all others, orphans too.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from fedgame.cli.interrupts import Interrupts
from fedgame.errors import RunFailed

HOST = "127.0.0.1"

_START_SECONDS = 60.0
_START_ATTEMPTS = 3
_END_SECONDS = 5.0


@dataclass(frozen=True)
class Connection:
    """How to reach a SuperLink.

    Attributes:
        name: Name of its `[superlink.NAME]` table in Flower's config.toml.
        environment: Environment for Flower's commands.
    """

    name: str
    environment: Mapping[str, str]


def users_superlink(name: str) -> Connection:
    """Return the connection called `name` of the user's own Flower configuration."""
    return Connection(name, flower_environment())


def flower_environment() -> dict[str, str]:
    """Return this process's environment, made fit for Flower's commands.

    Flower finds its programs on PATH, installs an app's dependencies (gigabytes with torch) at
    each run unless told otherwise, and draws boxes around its errors as wide as the terminal.
    """
    programs = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": os.pathsep.join([programs, os.environ.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "1000",
        "NO_COLOR": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def find_program(name: str, environment: Mapping[str, str]) -> str:
    """Return the path of one of Flower's programs.

    Raises:
        RunFailed: It is not installed.
    """
    path = shutil.which(name, path=environment["PATH"])
    if path is None:
        raise RunFailed(f"{name} is not installed: pip install 'flwr[simulation]'")
    return path


@dataclass(frozen=True)
class Started:
    """One of Flower's programs, started.

    Attributes:
        title: What it is called in messages.
        process: The process.
        log: The file that its output is appended to.
    """

    title: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def ended(self) -> bool:
        """Whether it is no longer there."""
        return self.process.poll() is not None

    def listens(self, port: int) -> bool:
        """Return whether this very process listens: another one at the port would not do."""
        try:
            connections = psutil.Process(self.process.pid).net_connections(kind="tcp")
        except psutil.Error:
            return False
        return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)

    def text(self) -> str:
        """Return its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def says(self, words: str) -> bool:
        """Return whether these words are in its log."""
        return words in self.text()

    def last_words(self) -> str:
        """Return the last line of its log that says something."""
        lines = self.text().splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "no log")


class FlowerProcesses:
    """The Flower programs of one run; `end` leaves nothing of them.

    A second signal to this command cuts the wait for their end short.
    """

    def __init__(self, folder: Path, interrupts: Interrupts, logs: Path | None = None) -> None:
        """Keep Flower's and Ray's files in `folder`: this run's own, there, with a short path.

        Args:
            folder: Where the files go that nobody needs afterwards.
            interrupts: Signals, which end every wait.
            logs: Where the programs' logs go; by default `folder`.
        """
        self.homes = folder / "flower"
        self.logs = logs or folder
        self.started: list[Started] = []
        self._interrupts = interrupts
        self._sessions: set[int | None] = set()
        proxies = [os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "", HOST]
        self._environment = {
            **flower_environment(),
            # a proxy for the outside must not be asked for our own machine
            "NO_PROXY": ",".join(filter(None, proxies)),
            "no_proxy": ",".join(filter(None, proxies)),
            "RAY_TMPDIR": str(folder),
            # a program that is killed leaves its temporary files, which go with the folder
            "TMPDIR": str(folder),
            # more threads change sums and with them bits
            "OMP_NUM_THREADS": "1",
            # Flower's default of seconds is added to every message
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        }

    def home(self, name: str) -> Path:
        """Return the FLWR_HOME of the program called `name`, made if it is not there."""
        folder = self.homes / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of the program called `name`."""
        return {**self._environment, "FLWR_HOME": str(self.home(name))}

    def start(self, name: str, title: str, command: Sequence[str]) -> Started:
        """Start a program: its name on PATH, then its options.

        Args:
            name: Name of its FLWR_HOME and of its log.
            title: What it is called in messages.
            command: Program and options.

        Raises:
            RunFailed: It is not installed.
        """
        environment = self.environment(name)
        path = find_program(command[0], environment)
        log = self.logs / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [path, *command[1:]],
                cwd=self.home(name),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C reaches the whole group of the terminal; the order of ending is ours
                start_new_session=True,
            )
        self.started.append(Started(title, process, log))
        return self.started[-1]

    def start_listening(self, name: str, title: str, command: Sequence[str]) -> tuple[Started, int]:
        """Start a program that listens on a free loopback port; return at once if a signal came.

        Args:
            name: Name of its FLWR_HOME and of its log.
            title: What it is called in messages.
            command: Program and options without `--host` and `--port`.

        Returns:
            The program, and its port.

        Raises:
            RunFailed: It does not start; the text has the last line of its log.
        """
        for _ in range(_START_ATTEMPTS):
            port = _free_port()
            options = ["--host", HOST, "--port", str(port)]
            started = self.start(name, title, [*command, *options])
            if self.wait_for(started, partial(started.listens, port)):
                return started, port
            # another program may have taken the port before ours did: try another one
            self._terminate([started])
            self.started.remove(started)
        raise RunFailed(f"Flower's {title} does not start: {started.last_words()}")

    def wait_for(self, started: Started, ready: Callable[[], bool]) -> bool:
        """Wait until `ready()`; return False if the program ended before or takes too long."""
        self._interrupts.wait(
            lambda: started.ended or ready(),
            _START_SECONDS,
            give_up=lambda: self._interrupts.stop,
        )
        return self._interrupts.stop or ready()

    def end(self) -> None:
        """End all programs and whatever they started."""
        # Tried: a simulation that `flwr stop` or SIGTERM asks to end takes 5 to more than 10 s and
        # leaves some of Ray's processes. All its state is on disk by then, or not worth keeping.
        self._members()
        self._terminate(self.started)
        self._interrupts.wait(self._kill_members, _END_SECONDS, give_up=lambda: False)

    def _terminate(self, programs: Sequence[Started]) -> None:
        for program in programs:
            program.process.terminate()
        self._interrupts.wait(lambda: all(p.ended for p in programs), _END_SECONDS)
        for program in programs:
            program.process.kill()
            program.process.wait()

    def _members(self) -> list[psutil.Process]:
        """Return all processes of this run's programs that live, orphans included."""
        processes = list(psutil.process_iter())
        self._sessions |= {_session(p) for p in processes if self._has_home(p)} - {None}
        return [p for p in processes if _session(p) in self._sessions]

    def _kill_members(self) -> bool:
        members = self._members()
        for member in members:
            member.kill()
        return not members

    def _has_home(self, process: psutil.Process) -> bool:
        try:
            home = process.environ().get("FLWR_HOME")
        except (psutil.Error, OSError):  # gone, a zombie, or another user's
            return False
        return home is not None and Path(home).is_relative_to(self.homes)


def _session(process: psutil.Process) -> int | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    except (psutil.Error, OSError):
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
