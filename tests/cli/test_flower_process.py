"""A SuperLink of our own: it comes up, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fedgame.cli import flower_process
from fedgame.cli.flower_process import FlowerProcesses, find_program, flower_environment
from fedgame.cli.interrupts import Interrupts
from fedgame.cli.own_superlink import OwnSuperLink
from fedgame.errors import RunFailed


def port_of(home: Path) -> int:
    text = (home / "config.toml").read_text()
    return int(text.split("127.0.0.1:")[1].split('"')[0])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def living(home: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FLWR_HOME") == str(home):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    with Interrupts() as noted:
        yield noted


@pytest.mark.e2e
def test_it_listens_while_it_is_used_and_is_gone_afterwards(
    tmp_path: Path, interrupts: Interrupts
) -> None:
    with OwnSuperLink(tmp_path, interrupts) as connection:
        home = Path(connection.environment["FLWR_HOME"])
        port = port_of(home)
        assert is_open(port)
        assert living(home)
    assert not is_open(port)
    assert not living(home)


@pytest.mark.e2e
def test_an_orphan_that_hides_its_environment_is_ended_too(
    tmp_path: Path, interrupts: Interrupts
) -> None:
    # Ray's agents do so: they overwrite their environment with a title
    with OwnSuperLink(tmp_path, interrupts) as connection:
        environment = dict(connection.environment)
        sleeper = "import os; os.environ.clear(); os.execvpe('sleep', ['sleep', '60'], {})"
        script = (
            "import subprocess, sys, time;"
            f"p = subprocess.Popen([sys.executable, '-c', {sleeper!r}]); print(p.pid, flush=True);"
            "time.sleep(60)"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", script],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert parent.stdout is not None
        orphan = psutil.Process(int(parent.stdout.readline()))
        assert interrupts.wait(lambda: orphan.name() == "sleep", 10)
    parent.communicate(timeout=10)
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE


@pytest.mark.e2e
def test_it_takes_another_port_when_one_is_lost(
    tmp_path: Path, interrupts: Interrupts, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = flower_process._free_port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        lost = taken.getsockname()[1]
        ports = iter([lost])
        monkeypatch.setattr(flower_process, "_free_port", lambda: next(ports, None) or free())
        with OwnSuperLink(tmp_path, interrupts) as connection:
            port = port_of(Path(connection.environment["FLWR_HOME"]))
            assert port != lost
            assert is_open(port)


@pytest.mark.e2e
def test_a_superlink_that_cannot_start_says_why(
    tmp_path: Path, interrupts: Interrupts, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "flower-superlink").write_text("#!/bin/sh\necho no database here >&2\nexit 3\n")
    (programs / "flower-superlink").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    with (
        pytest.raises(RunFailed, match="SuperLink does not start: no database here"),
        OwnSuperLink(tmp_path, interrupts),
    ):
        pytest.fail("it cannot have started")


@pytest.mark.e2e
def test_a_signal_during_the_start_ends_it(tmp_path: Path, interrupts: Interrupts) -> None:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with OwnSuperLink(tmp_path, interrupts) as connection:
        assert interrupts.stop
    assert not living(Path(connection.environment["FLWR_HOME"]))


def test_flower_finds_its_programs_and_keeps_still() -> None:
    environment = flower_environment()
    programs = str(Path(sys.executable).parent)
    assert find_program("flwr", environment) == str(Path(programs) / "flwr")
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"


def test_a_missing_program_is_named() -> None:
    with pytest.raises(RunFailed, match="flower-nothing is not installed"):
        find_program("flower-nothing", {"PATH": "/nowhere"})


def test_a_proxy_is_not_asked_for_our_own_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "example.org")
    environment = FlowerProcesses(tmp_path, Interrupts()).environment("one")
    assert environment["no_proxy"] == environment["NO_PROXY"] == "example.org,127.0.0.1"
