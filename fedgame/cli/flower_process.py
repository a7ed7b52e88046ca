"""A SuperLink of our own: started on a free loopback port, ended with all that it started.

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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

import psutil

from fedgame.cli.interrupts import Interrupts
from fedgame.errors import RunFailed

_NAME = "fedgame"
_HOST = "127.0.0.1"
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


class OwnSuperLink:
    """A context: a SuperLink in simulation mode, and at its end nothing of it is left.

    A second signal to this command cuts the wait for the SuperLink short.
    """

    def __init__(self, folder: Path, interrupts: Interrupts) -> None:
        """Keep Flower's and Ray's files in `folder`: this run's own, there, with a short path."""
        self._interrupts = interrupts
        self._home = folder / "flower"
        self._log = folder / "superlink.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: set[int | None] = set()
        proxies = [os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "", _HOST]
        self._environment = {
            **flower_environment(),
            "FLWR_HOME": str(self._home),
            # a proxy for the outside must not be asked for our own machine
            "NO_PROXY": ",".join(filter(None, proxies)),
            "no_proxy": ",".join(filter(None, proxies)),
            "RAY_TMPDIR": str(folder),
            # more threads change sums and with them bits
            "OMP_NUM_THREADS": "1",
        }

    def __enter__(self) -> Connection:
        """Start the SuperLink; return at once if a signal came.

        Raises:
            RunFailed: It does not start; the text has the last line of its log.
        """
        self._home.mkdir()
        try:
            port = self._start()
        except BaseException:
            self._end()
            raise
        (self._home / "config.toml").write_text(
            f'[superlink]\ndefault = "{_NAME}"\n\n'
            f'[superlink.{_NAME}]\naddress = "{_HOST}:{port}"\ninsecure = true\n',
            encoding="utf-8",
        )
        return Connection(_NAME, self._environment)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _start(self) -> int:
        for _ in range(_START_ATTEMPTS):
            port = _free_port()
            process = self._process = self._spawn(port)
            self._interrupts.wait(
                partial(_settled, process, port),
                _START_SECONDS,
                give_up=lambda: self._interrupts.stop,
            )
            if self._interrupts.stop or _listens(process, port):
                return port
            # another program may have taken the port before the SuperLink did: try another one
            self._terminate()
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() or ["no log"]
        raise RunFailed(f"Flower's SuperLink does not start: {lines[-1].strip()}")

    def _spawn(self, port: int) -> subprocess.Popen[bytes]:
        program = find_program("flower-superlink", self._environment)
        options = ["--insecure", "--simulation", "--isolation", "subprocess"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [program, *options, "--host", _HOST, "--port", str(port)],
                cwd=self._home,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C reaches the whole group of the terminal; the order of ending is ours
                start_new_session=True,
            )

    def _end(self) -> None:
        # Tried: a simulation that `flwr stop` or SIGTERM asks to end takes 5 to more than 10 s and
        # leaves some of Ray's processes. All its state is on disk by then, or not worth keeping.
        self._members()
        self._terminate()
        self._interrupts.wait(self._kill_members, _END_SECONDS, give_up=lambda: False)

    def _terminate(self) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        if not self._interrupts.wait(lambda: _ended(process), _END_SECONDS):
            process.kill()
            process.wait()

    def _members(self) -> list[psutil.Process]:
        """Return all processes of this SuperLink that live, orphans included."""
        processes = list(psutil.process_iter())
        home = str(self._home)
        self._sessions |= {_session(p) for p in processes if _flwr_home(p) == home} - {None}
        return [p for p in processes if _session(p) in self._sessions]

    def _kill_members(self) -> bool:
        members = self._members()
        for member in members:
            member.kill()
        return not members


def _flwr_home(process: psutil.Process) -> str | None:
    try:
        home: str | None = process.environ().get("FLWR_HOME")
    except (psutil.Error, OSError):  # gone, a zombie, or another user's
        return None
    return home


def _session(process: psutil.Process) -> int | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    except (psutil.Error, OSError):
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def _settled(process: subprocess.Popen[bytes], port: int) -> bool:
    return _ended(process) or _listens(process, port)


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    """Return whether this very process listens: another one at the port would not do."""
    try:
        connections = psutil.Process(process.pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)
