"""Build and run docker-compose.yml for real, plain and with TLS, and check what comes back.

    make e2e-compose

The final model must have the SHA-256 of the same run in this process, each node must have kept its
own ledger, and nothing may stay. Images carry the torch of this environment, since bits are equal
for one version only; TORCH_INDEX in the environment says where it comes from.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedgame.cli.node_keys import KeyFolder, make_keys

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = Path(sys.executable).parent
EXPERIMENT = "experiments/compose.toml"
SHORT = ("-c", "rounds=2", "-c", 'noise-secret="from-seed"')
NODES = 3
USER = 10001

_READY_SECONDS = 180.0


def say(text: str) -> None:
    """Say what is done next."""
    sys.stderr.write(f"{text}\n")


def compose_client() -> list[str]:
    """Return the compose command of this machine: the plug-in, else the older program."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is None:
            continue
        if subprocess.run([*command, "version"], capture_output=True, check=False).returncode == 0:
            return command
    sys.exit("no compose client: install docker compose or docker-compose")


@dataclass(frozen=True)
class Project:
    """One compose project with files and environment of its own."""

    command: Sequence[str]
    environment: Mapping[str, str]

    def compose(self, *arguments: str) -> str:
        """Run the compose client; end with its output if it fails."""
        return self._run(*self.command, *arguments)

    def flower(self, program: str, *arguments: str) -> str:
        """Run `fedgame` or `flwr` against this project."""
        return self._run(str(PROGRAMS / program), *arguments)

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout


@contextmanager
def project(name: str, home: Path, keys: KeyFolder | None) -> Iterator[Project]:
    """Bring the services up, and take them down with their volumes.

    Args:
        name: How the project's name ends; it begins with one of this process alone, so that what an
            earlier one may have left is not met again.
        home: FLWR_HOME, a folder of its own.
        keys: Keys for compose.tls.yml, None for connections without TLS.
    """
    port = _free_port()
    torch = " ".join(f"{name}=={version(name).split('+')[0]}" for name in ("torch", "torchvision"))
    environment = {
        **os.environ,
        "CONTROL_PORT": str(port),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "KEYS": str(keys.folder if keys else home),
        "TORCH": torch,
        "TORCH_INDEX": os.environ.get("TORCH_INDEX", ""),
        "FEDGAME_TAG": "e2e",
        # the older compose client gives up after a minute, which a busy machine needs
        "COMPOSE_HTTP_TIMEOUT": "300",
    }
    files = ["-f", "docker-compose.yml", *(["-f", "compose.tls.yml"] if keys else [])]
    own = f"fedgame-e2e-{os.getpid()}-{name}"
    running = Project([*compose_client(), "-p", own, *files], environment)
    security = f"root-certificates = '{keys.ca_certificate}'" if keys else "insecure = true"
    (home / "config.toml").write_text(
        f'[superlink.compose]\naddress = "127.0.0.1:{port}"\n{security}\n', encoding="utf-8"
    )
    try:
        running.compose("build")
        running.compose("up", "-d")
        _wait_until_healthy(running)
        yield running
    except BaseException:
        say(running.compose("logs", "--tail", "20"))
        raise
    finally:
        running.compose("down", "--volumes", "--timeout", "5")


def check(running: Project, expected: str) -> None:
    """Run the experiment on the services and compare its model.

    Args:
        running: The services.
        expected: SHA-256 of the model that must come out.
    """
    arguments = ["run", EXPERIMENT, *SHORT, "--superlink", "compose", "--json"]
    summary: dict[str, Any] = json.loads(running.flower("fedgame", *arguments))
    run = Path(str(summary["run_dir"])).name
    say(f"run {run}: {summary['status']}, model {summary['model_sha256']}")
    if summary["model_sha256"] != expected:
        sys.exit(f"the model is not that of the same run in this process, {expected}")
    for node in range(NODES):
        ledger = f"/data/{run}/ledger.sqlite"
        running.compose("exec", "-T", f"superexec-client-{node}", "test", "-s", ledger)
    say(f"each of {NODES} nodes kept its ledger")


def main() -> None:
    """Run the experiment in this process, in compose, and in compose with TLS."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="fedgame-compose-") as name:
        folder = Path(name)
        here = Project([], {**os.environ, "FLWR_HOME": name, "FEDGAME_HOME": str(folder / "runs")})
        local = ["run", EXPERIMENT, *SHORT, "--no-flower", "--nodes", str(NODES), "--json"]
        own = [*local, "-c", f'output-dir="{folder}"']
        expected = json.loads(here.flower("fedgame", *own))["model_sha256"]
        say(f"in this process: model {expected}")
        (folder / "plain").mkdir()
        with project("plain", folder / "plain", None) as running:
            check(running, expected)
        (folder / "tls").mkdir()
        keys = _keys_for_containers(folder / "keys")
        if keys is None:
            say("TLS is left out: only root can give the keys to the containers' user")
            return
        with project("tls", folder / "tls", keys) as running:
            for node in range(NODES):
                key = str(keys.node_public_key(node))
                running.flower("flwr", "supernode", "register", key, "compose")
            say(f"TLS: {NODES} nodes registered")
            check(running, expected)


def _keys_for_containers(folder: Path) -> KeyFolder | None:
    if os.getuid() != 0:
        return None
    keys = make_keys(folder, NODES, ["superlink"])
    for path in folder.iterdir():
        os.chown(path, USER, USER)
    return keys


def _wait_until_healthy(running: Project) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    command = [*running.command, "exec", "-T", "superlink", "healthcheck"]
    while subprocess.run(
        command, cwd=ROOT, env=dict(running.environment), capture_output=True, check=False
    ).returncode:
        if time.monotonic() > deadline:
            sys.exit(f"the SuperLink does not answer in {_READY_SECONDS:g} s")
        time.sleep(1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
