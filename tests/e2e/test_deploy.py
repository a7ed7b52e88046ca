"""`fedgame deploy local` from outside: real SuperNodes, the same bits, and nothing left."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
import subprocess
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


def rows(ledger: Path) -> list[tuple[int, int, str]]:
    """Return client, round and purpose of every release, read without fedgame."""
    with sqlite3.connect(ledger) as connection:
        return connection.execute(
            "SELECT client, round, purpose FROM release ORDER BY round, purpose"
        ).fetchall()


def contents(ledger: Path) -> list[tuple[object, ...]]:
    """Return every release whole, read without fedgame."""
    with sqlite3.connect(ledger) as connection:
        return connection.execute(
            "SELECT * FROM release ORDER BY client, round, step, purpose"
        ).fetchall()


def of_the_run(machine: Machine) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FLWR_HOME", "").startswith(str(machine.scratch)):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return [process for process in found if alive(process)]


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
        assert {client for client, _, _ in rows(ledger / "ledger.sqlite")} == {node}
    assert of_the_run(nodes) == []
    assert list(nodes.scratch.iterdir()) == []


def test_a_node_that_is_killed_loses_no_charge_and_the_run_goes_on(nodes: Machine) -> None:
    data = nodes.runs.parent / "kept"
    process = nodes.start(
        "--nodes", "3", "--data-dir", str(data), "-c", "rounds=3", "-c", "mean-field.choice-every=1"
    )
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("round 1/"):
            (victim,) = [p for p in of_the_run(nodes) if "partition-id=1 " in " ".join(p.cmdline())]
            victim.kill()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert any(line.startswith("SuperNode 1 ended") for line in said)
    assert any(line.startswith("round 3/3") for line in said)
    assert "run folder" in output
    (run,) = (path for path in nodes.runs.iterdir() if path.is_dir())
    released = rows(data / "node-1" / run.name / "ledger.sqlite")
    assert (1, 1, "update") in released
    assert (1, 1, "choice") in released
    # a node keeps the secret behind its noise to itself
    secrets = [data / f"node-{node}" / "secret" for node in range(3)]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    assert len({path.read_bytes() for path in secrets}) == 3
    assert all(rows(data / f"node-{k}" / run.name / "ledger.sqlite")[-1][1] == 3 for k in (0, 2))
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
            (app,) = [p for p in of_the_run(nodes) if "flwr-serverapp" in " ".join(p.cmdline())]
            app.kill()
            # Flower notices after a minute; the command need not wait so long
            process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    folder = nodes.runs / "it"
    assert not (folder / "summary.json").exists()
    _refuses_to_simulate_the_rest(nodes, folder)
    command = [nodes.command()[0], "deploy", "local", "--resume", str(folder), "--json"]
    rest = subprocess.run(
        command, env=nodes.environment, capture_output=True, text=True, timeout=nodes.seconds
    )
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
    command = [nodes.command()[0], "run", "--resume", str(folder), "--no-flower"]
    refused = subprocess.run(command, env=nodes.environment, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "begun with other noise of 2 clients (0, 1)" in refused.stderr.splitlines()[-1]
    assert contents(folder / "ledger.sqlite") == before


def test_a_superlink_restarts_with_its_database_and_a_node_comes_back(
    nodes: Machine, tmp_path: Path
) -> None:
    whole = replace(nodes, verb=("run",)).summary(
        "--no-flower", "--nodes", "2", "-c", "num-clients=2", *FROM_SEED
    )
    folder = nodes.scratch / "link"
    folder.mkdir()
    nodes.runs.mkdir(exist_ok=True)
    ours = replace(nodes, verb=("run",))
    settings = ("-c", "num-clients=2", "-c", f'output-dir="{nodes.runs}"', *FROM_SEED)
    with Interrupts() as interrupts:
        deployment = LocalDeployment(
            folder, interrupts, tmp_path / "data", 2, tls=True, say=lambda _: None
        )
        with deployment as connection:
            ours.environment["FLWR_HOME"] = connection.environment["FLWR_HOME"]
            where = ("--superlink", connection.name, "--json", *settings)
            process = ours.start(*where, "-c", 'run-name="it"')
            assert process.stderr is not None
            link, node = (_program(deployment, title) for title in ("SuperLink", "SuperNode 1"))
            command = psutil.Process(link.pid).cmdline()
            for line in process.stderr:
                if line.startswith("round 1/"):
                    for program in (link, node):
                        program.kill()
                        program.wait()
            process.communicate(timeout=60)
            assert process.returncode == 1
            # the interpreter, the program, its options
            options = command[command.index("--isolation") :]
            deployment.processes.start("superlink", "SuperLink", ["flower-superlink", *options])
            until(lambda: _comes_back(deployment), 150)
            rest = ours.summary(*where, "--resume", "it")
    assert rest["model_sha256"] == whole["model_sha256"]
    expected = contents(Path(whole["run_dir"]) / "ledger.sqlite")
    assert contents(nodes.runs / "it" / "ledger.sqlite") == expected
    for number in range(2):
        ledger = tmp_path / "data" / f"node-{number}" / "it" / "ledger.sqlite"
        assert contents(ledger) == [row for row in expected if row[0] == number]
    assert of_the_run(nodes) == []


def _program(deployment: LocalDeployment, title: str) -> subprocess.Popen[bytes]:
    (found,) = (program for program in deployment.processes.started if program.title == title)
    return found.process


def _comes_back(deployment: LocalDeployment) -> bool:
    """Start node 1 again; it is refused until its predecessor is known to be gone."""
    node = deployment.start_node(1)
    known = node.text().count(REGISTERED)
    until(lambda: node.ended or node.text().count(REGISTERED) > known, 60)
    return not node.ended
