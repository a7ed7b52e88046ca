"""`fedgame deploy local` from outside: real SuperNodes, the same bits, and nothing left."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from fedgame.cli.deployment import LocalDeployment
from fedgame.cli.interrupts import Interrupts
from fedgame.cli.node_keys import make_keys
from tests.e2e.machine import Machine, alive, is_open, listening, until

pytestmark = [pytest.mark.e2e, pytest.mark.deploy, pytest.mark.timeout(560)]

DIGITS = """\
num-clients = 10
rounds = 2

[task]
name = "digits"
"""
REGISTERED = "SuperNode ID:"
FROM_SEED = ("-c", 'noise-secret="from-seed"')


@pytest.fixture
def nodes(machine: Machine) -> Machine:
    """The same machine; its command starts real nodes."""
    machine.experiment.write_text(DIGITS)
    return replace(machine, verb=("deploy", "local"), seconds=500)


def contents(ledger: Path) -> list[tuple[object, ...]]:
    """Return every release whole, read without fedgame."""
    with sqlite3.connect(ledger) as connection:
        return connection.execute(
            "SELECT * FROM release ORDER BY client, round, step, purpose"
        ).fetchall()


@contextmanager
def deployed(
    machine: Machine, data: Path, number: int, said: list[str]
) -> Iterator[tuple[LocalDeployment, Machine, tuple[str, ...]]]:
    """Start nodes with keys; give them, a machine that knows them, and options of its `run`."""
    folder = machine.scratch / "link"
    folder.mkdir()
    machine.runs.mkdir(exist_ok=True)
    with Interrupts() as interrupts:
        deployment = LocalDeployment(folder, interrupts, data, number, tls=True, say=said.append)
        with deployment as connection:
            environment = {**machine.environment, "FLWR_HOME": connection.environment["FLWR_HOME"]}
            there = replace(machine, verb=("run",), environment=environment)
            where = ("--superlink", connection.name, "--json")
            yield deployment, there, (*where, "-c", f'output-dir="{machine.runs}"')


def program(deployment: LocalDeployment, title: str) -> subprocess.Popen[bytes]:
    (found,) = (started for started in deployment.processes.started if started.title == title)
    return found.process


def comes_back(deployment: LocalDeployment, number: int) -> bool:
    """Start a node again; it is refused until its predecessor is known to be gone."""
    node = deployment.start_node(number)
    known = node.text().count(REGISTERED)
    until(lambda: node.ended or node.text().count(REGISTERED) > known, 60)
    return not node.ended


def of_the_run(machine: Machine) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FLWR_HOME", "").startswith(str(machine.scratch)):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return [process for process in found if alive(process)]


def server_apps(machine: Machine) -> list[psutil.Process]:
    found = []
    for process in of_the_run(machine):
        with suppress(psutil.Error):
            if "flwr-serverapp" in " ".join(process.cmdline()):
                found.append(process)
    return found


def test_three_nodes_make_the_model_of_one_process(nodes: Machine) -> None:
    deployed = nodes.summary("--nodes", "3", *FROM_SEED)
    here = replace(nodes, verb=("run",)).summary(
        "--no-flower", "--nodes", "3", "-c", "num-clients=3", *FROM_SEED
    )
    assert deployed["status"] == "finished"
    assert deployed["rounds"] == 2
    assert deployed["model_sha256"] == here["model_sha256"]
    folder = Path(deployed["run_dir"])
    assert folder.parent == nodes.runs
    for node in range(3):
        ledger = nodes.runs / f"{folder.name}-nodes" / f"node-{node}" / folder.name
        assert {row[0] for row in contents(ledger / "ledger.sqlite")} == {node}
    assert of_the_run(nodes) == []
    assert list(nodes.scratch.iterdir()) == []


def test_a_node_that_is_killed_loses_no_charge_and_comes_back_into_the_run(
    nodes: Machine, tmp_path: Path
) -> None:
    data, said = tmp_path / "data", list[str]()
    with deployed(nodes, data, 2, said) as (deployment, machine, where):
        every = ("-c", "rounds=4", "-c", "num-clients=2", "-c", "mean-field.choice-every=1")
        process = machine.start(*where, *every, "-c", 'run-name="it"')
        assert process.stderr is not None
        seen: list[str] = []
        for line in process.stderr:
            seen.append(line)
            if line.startswith("round 1/"):
                program(deployment, "SuperNode 1").kill()
                ledger = data / "node-1" / "it" / "ledger.sqlite"
                spent = contents(ledger)
                # the others' round goes on when the SuperLink knows that this node is gone
                until(lambda: comes_back(deployment, 1), 150)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, seen
    assert any(line.startswith("SuperNode 1 ended") for line in said)
    assert any(line.startswith("round 4/4") for line in seen)
    assert json.loads(output)["status"] == "finished"
    assert {(client, round_) for client, round_, *_ in spent} >= {(1, 1)}
    assert set(spent) < set(contents(ledger))
    first, other = (
        {row[1] for row in contents(data / f"node-{node}" / "it" / "ledger.sqlite")}
        for node in range(2)
    )
    assert first == {1, 2, 3, 4}
    assert {1, 4} <= other < first
    # a node keeps the secret behind its noise to itself
    secrets = [data / f"node-{node}" / "secret" for node in range(2)]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    assert len({path.read_bytes() for path in secrets}) == 2
    assert of_the_run(nodes) == []


def test_a_node_with_a_wrong_key_is_refused(machine: Machine, tmp_path: Path) -> None:
    folder = machine.scratch / "link"
    folder.mkdir()
    foreign = make_keys(tmp_path / "foreign", 1, ())
    said: list[str] = []
    with Interrupts() as interrupts:
        deployment = LocalDeployment(
            folder, interrupts, tmp_path / "data", 1, tls=True, say=said.append
        )
        with deployment:
            (known,) = [p for p in deployment.processes.started if p.title == "SuperNode 0"]
            assert known.says(REGISTERED)
            stranger = deployment.start_node(1, foreign.node_key(0))
            until(lambda: stranger.ended, 60)
            assert stranger.process.returncode != 0
            assert not stranger.says(REGISTERED)
            assert "2004" in stranger.text() or "authentication" in stranger.text().lower()
            assert not known.ended
    assert of_the_run(machine) == []


def test_ctrl_c_leaves_nothing_but_what_nodes_keep(nodes: Machine) -> None:
    data = nodes.runs.parent / "kept"
    process = nodes.start("--nodes", "3", "--data-dir", str(data))
    logs = data / "logs"

    def working() -> bool:
        texts = [path.read_text() for path in logs.glob("node-*-clientapp.log")]
        return len(texts) == 3 and all("flwr-clientapp" in text for text in texts)

    until(working, 300)
    family = psutil.Process(process.pid).children(recursive=True)
    ports = listening([member for member in family if alive(member)])
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in errors
    assert len(ports) >= 4
    assert [member for member in family if alive(member)] == []
    assert of_the_run(nodes) == []
    assert [port for port in ports if is_open(port)] == []
    assert list(nodes.scratch.iterdir()) == []


def test_a_deployment_whose_server_app_is_killed_goes_on(nodes: Machine) -> None:
    whole = replace(nodes, verb=("run",)).summary(
        "--no-flower", "--nodes", "2", "-c", "num-clients=2", *FROM_SEED
    )
    process = nodes.start("--nodes", "2", "-c", 'run-name="it"', *FROM_SEED)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("round 1/"):
            (app,) = server_apps(nodes)
            app.kill()
            # Flower notices after a minute; the command need not wait so long
            process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    folder = nodes.runs / "it"
    assert not (folder / "summary.json").exists()
    _refuses_to_simulate_the_rest(nodes, folder)
    rest = nodes.go_on(folder, "--json", verb=nodes.verb)
    assert rest.returncode == 0, rest.stderr
    assert "round 1/" not in rest.stderr
    assert json.loads(rest.stdout)["model_sha256"] == whole["model_sha256"]
    expected = contents(Path(whole["run_dir"]) / "ledger.sqlite")
    assert contents(folder / "ledger.sqlite") == expected
    for node in range(2):
        ledger = nodes.runs / "it-nodes" / f"node-{node}" / "it" / "ledger.sqlite"
        assert contents(ledger) == [row for row in expected if row[0] == node]
    assert of_the_run(nodes) == []
    assert list(nodes.scratch.iterdir()) == []


def _refuses_to_simulate_the_rest(nodes: Machine, folder: Path) -> None:
    """Simulated nodes would release the same round once more."""
    before = contents(folder / "ledger.sqlite")
    refused = nodes.go_on(folder, "--no-flower")
    assert refused.returncode == 1
    assert "begun with other noise of 2 clients (0, 1)" in refused.stderr.splitlines()[-1]
    assert contents(folder / "ledger.sqlite") == before


def test_a_superlink_is_restarted_with_its_database_and_the_run_goes_on(
    nodes: Machine, tmp_path: Path
) -> None:
    whole = replace(nodes, verb=("run",)).summary(
        "--no-flower", "--nodes", "2", "-c", "num-clients=2", "-c", "rounds=3", *FROM_SEED
    )
    settings = ("-c", "num-clients=2", "-c", "rounds=3", *FROM_SEED)
    with deployed(nodes, tmp_path / "data", 2, []) as (deployment, machine, where):
        process = machine.start(*where, *settings, "-c", 'run-name="it"')
        assert process.stderr is not None
        link = program(deployment, "SuperLink")
        command = psutil.Process(link.pid).cmdline()
        for line in process.stderr:
            if line.startswith("round 1/"):
                link.kill()
                link.wait()
        process.communicate(timeout=60)
        assert process.returncode == 1
        # the interpreter, the program, its options
        options = command[command.index("--isolation") :]
        deployment.processes.start("superlink", "SuperLink", ["flower-superlink", *options])
        # the ServerApp finds the SuperLink again, or ends
        until(lambda: not server_apps(nodes), 100)
        if not (nodes.runs / "it" / "summary.json").exists():
            machine.summary(*where, *settings, "--resume", "it")
    summary = json.loads((nodes.runs / "it" / "summary.json").read_text())
    assert summary["model_sha256"] == whole["model_sha256"]
    expected = contents(Path(whole["run_dir"]) / "ledger.sqlite")
    assert contents(nodes.runs / "it" / "ledger.sqlite") == expected
    for node in range(2):
        ledger = tmp_path / "data" / f"node-{node}" / "it" / "ledger.sqlite"
        assert contents(ledger) == [row for row in expected if row[0] == node]
    assert of_the_run(nodes) == []
