"""`fedgame run` from outside: real processes, and what is left of them (nothing)."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from fedgame.cli.interrupts import Interrupts
from fedgame.cli.own_superlink import OwnSuperLink
from fedgame.games.aggregative.transcript import read_recording
from tests.e2e.machine import PROGRAMS, Machine, alive, is_open, listening, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_one_model_whatever_the_number_of_nodes(machine: Machine) -> None:
    two = machine.summary("--nodes", "2")
    five = machine.summary("--nodes", "5")
    here = machine.summary("--no-flower")
    assert two["status"] == five["status"] == here["status"] == "finished"
    assert two["rounds"] == 3
    assert two["model_sha256"] == five["model_sha256"] == here["model_sha256"]
    other = machine.summary("--no-flower", "-c", "seed=43")
    assert other["model_sha256"] != here["model_sha256"]
    folder = Path(two.pop("run_dir"))
    assert folder.parent == machine.runs
    assert json.loads((folder / "summary.json").read_text()) == two
    assert (folder / "report.html").is_file()
    assert list(machine.scratch.iterdir()) == []


def test_a_person_sees_progress_and_a_summary_and_nothing_of_flower(machine: Machine) -> None:
    result = machine.run("--no-flower")
    assert result.returncode == 0
    assert "round 3/3" in result.stderr
    assert "accuracy" in result.stdout
    (folder,) = machine.runs.iterdir()
    assert result.stdout.rstrip().endswith(f"report: {folder / 'report.html'}")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("-c", "roundz=3"), "did you mean rounds?"),
        (("--nodes", "6"), "nodes = 6"),
        (("-c", "task.name=mnist", "-c", "task.data-dir=/nowhere"), "/nowhere"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(
    machine: Machine, arguments: tuple[str, ...], named: str
) -> None:
    result = machine.run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert named in line
    assert not machine.runs.exists() or list(machine.runs.iterdir()) == []


def test_a_failed_run_says_why_in_one_line(machine: Machine) -> None:
    # the prior's pull overshoots, which only the ServerApp sees, far from the command
    result = machine.run("-c", "cell=mfep", "-c", "jko.strength=1e5")
    assert result.returncode == 1
    *_, last = result.stderr.splitlines()
    assert last.startswith("error: the run failed: ")
    assert "does the training diverge?" in last
    assert "Traceback" not in result.stderr
    assert list(machine.scratch.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_leaves_nothing(machine: Machine, number: signal.Signals) -> None:
    process = machine.start("-c", "rounds=5000")
    stderr = process.stderr
    assert stderr is not None
    if number == signal.SIGINT:  # after the first round; the other one while the SuperLink starts
        until(lambda: stderr.readline().startswith("round 1/"), 120)
    else:
        until(lambda: list(machine.scratch.glob("fedgame-*/superlink.log")), 60)
    family = psutil.Process(process.pid).children(recursive=True)
    ports = listening(family)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert family
    assert [member for member in family if alive(member)] == []
    assert [port for port in ports if is_open(port)] == []
    assert list(machine.scratch.iterdir()) == []


def test_a_superlink_of_the_users_is_used_and_left_alone(machine: Machine) -> None:
    folder = machine.scratch / "link"
    folder.mkdir()
    with Interrupts() as interrupts, OwnSuperLink(folder, interrupts) as connection:
        home = connection.environment["FLWR_HOME"]
        machine.environment["FLWR_HOME"] = home
        summary = machine.summary("--superlink", connection.name, "--nodes", "2")
        assert summary["status"] == "finished"
        port = int((Path(home) / "config.toml").read_text().split("127.0.0.1:")[1].split('"')[0])
        assert is_open(port)
    assert [path.name for path in machine.scratch.iterdir()] == ["link"]


def test_a_superlink_that_is_not_there_is_told(machine: Machine) -> None:
    home = machine.scratch / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        '[superlink.gone]\naddress = "127.0.0.1:1"\ninsecure = true\n'
    )
    machine.environment["FLWR_HOME"] = str(home)
    result = machine.run("--superlink", "gone")
    assert result.returncode == 1
    assert "Connection to the SuperLink is unavailable" in result.stderr.splitlines()[-1]


def test_flowers_own_command_runs_the_app(machine: Machine) -> None:
    home = machine.scratch / "home"
    with socket.socket() as probe, socket.socket() as other:
        probe.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, spare = probe.getsockname()[1], other.getsockname()[1]
    environment = {
        **machine.environment,
        "PATH": f"{PROGRAMS}:{machine.environment['PATH']}",
        "FLWR_HOME": str(home),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(port),
        "FLWR_LOCAL_CONTROL_API_PORT": str(spare),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    }
    command = [str(PROGRAMS / "flwr"), "run", ".", "--stream", "--run-config"]
    try:
        result = subprocess.run(
            [*command, str(machine.experiment)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert "fedgame-summary" in result.stdout, result.stdout + result.stderr
        (folder,) = machine.runs.iterdir()
        assert json.loads((folder / "summary.json").read_text())["status"] == "finished"
    finally:
        _end_daemon(str(home))


def _end_daemon(home: str) -> None:
    """End the SuperLink that Flower itself leaves running, with all its children."""
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("FLWR_HOME") == home
        except psutil.Error:
            continue
        if ours:
            family = [process, *process.children(recursive=True)]
            for member in family:
                if alive(member):
                    member.kill()
            psutil.wait_procs(family, timeout=10)


def test_bought_privacy_gives_the_same_bits_on_flower_and_in_process(machine: Machine) -> None:
    bought = ("-c", "strategy=jsam", "-c", "procurement.draws=4", "-c", "rounds=3")
    flower = machine.summary("--nodes", "3", *bought)
    local = machine.summary("--no-flower", *bought)
    assert flower["model_sha256"] == local["model_sha256"]
    for key in ("procurement", "clients", "notes"):
        assert flower[key] == local[key]
    assert all(client["spent"] <= client["bought"] for client in flower["clients"])


def test_a_game_has_the_same_transcript_on_flower_and_in_process(machine: Machine) -> None:
    """Players are asked one after the other; what they know is kept by whatever worker serves."""
    game = (
        *("-c", "strategy=aggregative", "-c", "rounds=4", "-c", "prior.name=correlated-prior"),
        *("-c", "pml-filter.budget=0.7", "-c", "aggregative.noise=6"),
        *("-c", "aggregative.step=inverse:1:2:1"),
    )
    flower = machine.summary("--nodes", "3", *game)
    local = machine.summary("--no-flower", *game)
    folders = Path(flower.pop("run_dir")), Path(local.pop("run_dir"))
    first, second = (read_recording(folder / "transcript.npz").transcript for folder in folders)
    assert first.messages.tobytes() == second.messages.tobytes()
    assert first.sent.tolist() == second.sent.tolist()
    assert len(first) >= 2
    assert flower["exact_leakage"] == local["exact_leakage"]
    assert max(flower["exact_leakage"]["by_iteration"]) <= 0.7
