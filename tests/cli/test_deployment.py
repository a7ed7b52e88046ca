"""A deployment of stand-ins for Flower's programs: what they are told, and how they end."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedgame.cli.deployment import LocalDeployment
from fedgame.cli.interrupts import Interrupts
from fedgame.errors import ConfigError, RunFailed

# notes what it was told, then listens as its original does; FAKE_FAILS names who ends at once
PROGRAM = """\
import json, os, pathlib, signal, socket, sys
home = pathlib.Path(os.environ["FLWR_HOME"])
told = {"argv": sys.argv[1:], "pid": os.getpid(), "omp": os.environ["OMP_NUM_THREADS"]}
note = pathlib.Path(os.environ["FAKE_NOTES"]) / (home.name + "-" + str(os.getpid()))
note.write_text(json.dumps(told))
note.rename(str(note) + ".json")
if home.name == os.environ.get("FAKE_FAILS"):
    sys.exit("no reason to live")
if "register" in sys.argv:
    sys.exit(0)
if "--port" in sys.argv:
    listener = socket.socket()
    listener.bind(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
    listener.listen()
print("SuperNode ID: 7", flush=True)
signal.pause()
"""
NAMES = ("flower-superlink", "flower-supernode", "flower-superexec", "flwr")


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs, folder = tmp_path / "bin", tmp_path / "notes"
    programs.mkdir()
    folder.mkdir()
    for name in NAMES:
        (programs / name).write_text(f"#!{sys.executable} -SE\n{PROGRAM}")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("FAKE_NOTES", str(folder))
    return folder


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    with Interrupts() as noted:
        yield noted


def told(notes: Path, name: str) -> dict[str, Any]:
    """Return what the one program of this name was told; nobody waits for a SuperExec."""
    end = time.monotonic() + 10
    while not (found := [p for p in notes.glob("*.json") if p.name.rpartition("-")[0] == name]):
        assert time.monotonic() < end, f"{name} did not start"
        time.sleep(0.02)
    (path,) = found
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def option(content: dict[str, Any], name: str) -> str:
    arguments: list[str] = content["argv"]
    return arguments[arguments.index(name) + 1]


def deploy(
    tmp_path: Path, interrupts: Interrupts, *, tls: bool = False, nodes: int = 2
) -> LocalDeployment:
    folder = tmp_path / "scratch"
    folder.mkdir()
    data = tmp_path / "data"
    return LocalDeployment(folder, interrupts, data, nodes, tls=tls, say=print)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_every_process_gets_what_it_needs_and_none_outlives_the_run(
    tmp_path: Path, notes: Path, interrupts: Interrupts
) -> None:
    with deploy(tmp_path, interrupts) as connection:
        link, server = told(notes, "superlink"), told(notes, "serverapp")
        secret = Path(option(link, "--superexec-auth-secret-file"))
        assert len(secret.read_bytes()) == 64
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        port = option(link, "--port")
        assert option(server, "--runtime-api-address") == f"127.0.0.1:{port}"
        config = (Path(connection.environment["FLWR_HOME"]) / "config.toml").read_text()
        assert f'address = "127.0.0.1:{port}"\ninsecure = true' in config
        everybody = [link, server]
        for k in range(2):
            node, client = told(notes, f"node-{k}"), told(notes, f"node-{k}-clientapp")
            data = tmp_path / "data" / f"node-{k}"
            assert (
                option(node, "--node-config") == f"partition-id={k} num-partitions=2 data='{data}'"
            )
            assert option(node, "--superlink") == f"127.0.0.1:{port}"
            own = option(node, "--port")
            assert option(client, "--runtime-api-address") == f"127.0.0.1:{own}"
            everybody += [node, client]
        for one in everybody:
            assert option(one, "--superexec-auth-secret-file") == str(secret)
            assert one["omp"] == "1"
        isolated = [one for one in everybody if "--runtime-api-address" not in one["argv"]]
        assert [option(one, "--isolation") for one in isolated] == ["process"] * 3
    assert all(gone(one["pid"]) for one in everybody)
    assert (tmp_path / "data" / "logs" / "node-1.log").read_text() == "SuperNode ID: 7\n"


def test_with_tls_nodes_are_registered_and_nobody_is_insecure_but_on_loopback(
    tmp_path: Path, notes: Path, interrupts: Interrupts
) -> None:
    with deploy(tmp_path, interrupts, tls=True, nodes=1) as connection:
        keys = tmp_path / "scratch" / "keys"
        (link,) = (
            content
            for path in notes.glob("*.json")
            if "--database" in (content := json.loads(path.read_text()))["argv"]
        )
        assert "--enable-supernode-auth" in link["argv"]
        assert "--insecure" not in link["argv"]
        assert option(link, "--ssl-keyfile") == str(keys / "server.key")
        node = told(notes, "node-0")
        assert "--insecure" not in node["argv"]
        assert option(node, "--root-certificates") == str(keys / "ca.crt")
        assert option(node, "--auth-supernode-private-key") == str(keys / "node-0")
        assert option(told(notes, "serverapp"), "--root-certificates") == str(keys / "ca.crt")
        assert any(
            json.loads(path.read_text())["argv"]
            == ["supernode", "register", str(keys / "node-0.pub"), connection.name]
            for path in notes.glob("*.json")
        )
        config = (Path(connection.environment["FLWR_HOME"]) / "config.toml").read_text()
        assert f"root-certificates = '{keys / 'ca.crt'}'" in config


def test_a_node_that_does_not_start_says_why_and_takes_the_others_along(
    tmp_path: Path, notes: Path, interrupts: Interrupts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAILS", "node-1")
    with (
        pytest.raises(RunFailed, match="SuperNode 1 does not start: no reason to live"),
        deploy(tmp_path, interrupts),
    ):
        pytest.fail("it cannot have started")
    pids = [json.loads(path.read_text())["pid"] for path in notes.glob("*.json")]
    assert len(pids) >= 4
    assert all(gone(pid) for pid in pids)


def test_a_process_that_ends_before_its_time_is_told_once(
    tmp_path: Path, notes: Path, interrupts: Interrupts, capsys: pytest.CaptureFixture[str]
) -> None:
    with deploy(tmp_path, interrupts):
        os.kill(told(notes, "node-0")["pid"], signal.SIGKILL)
        said = ""

        def heard() -> bool:
            nonlocal said
            said += capsys.readouterr().out
            return "ended" in said

        assert interrupts.wait(heard, 10)
        interrupts.wait(lambda: False, 1.2)
        said += capsys.readouterr().out
    assert said == "SuperNode 0 ended: SuperNode ID: 7\n"


def test_a_signal_during_the_start_starts_no_nodes(
    tmp_path: Path, notes: Path, interrupts: Interrupts
) -> None:
    deployment = deploy(tmp_path, interrupts)
    os.kill(os.getpid(), signal.SIGTERM)
    with deployment:
        assert interrupts.stop
    names = {path.name.rpartition("-")[0] for path in notes.glob("*.json")}
    assert names <= {"superlink", "serverapp"}


@pytest.mark.parametrize(("name", "reason"), [("it's", "must not contain '"), ("file/x", "folder")])
def test_a_data_folder_that_cannot_be_used_is_refused(
    tmp_path: Path, interrupts: Interrupts, name: str, reason: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=f"--data-dir.*{reason}"):
        LocalDeployment(tmp_path, interrupts, tmp_path / name, 1, tls=False, say=print)
