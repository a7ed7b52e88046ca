"""The compose files: who may do and reach what, and what a compose client says of them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from flwr.supercore.superexec.executor.factory import (
    _KUBERNETES_CONFIG_FIELD_MAP,
    _kubernetes_executor_config_from_mapping,
)

from fedgame import config

ROOT = Path(__file__).resolve().parents[1]
PLAIN: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
TLS: dict[str, Any] = yaml.safe_load((ROOT / "compose.tls.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = PLAIN["services"]
NODES = sorted(name for name in SERVICES if name.startswith("supernode-"))


def volumes(name: str) -> dict[str, str]:
    """Return what is mounted in a service: target -> volume."""
    pairs = (text.split(":") for text in SERVICES[name].get("volumes", []))
    return {target: volume for volume, target in pairs}


def test_the_experiment_has_a_client_for_each_node() -> None:
    run = config.load(config.read_toml(ROOT / "experiments" / "compose.toml")).run
    assert run.num_clients == run.nodes == len(NODES) == 3
    assert run.output_dir == "/out"
    assert volumes("superexec-server")["/out"] == "runs"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_service_can_do_more_than_it_must(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["tmpfs"] == ["/tmp"]
    assert service["init"] is True
    assert service["mem_limit"]
    assert "privileged" not in service
    assert set(SERVICES["superlink"]["ports"]) == {"127.0.0.1:${CONTROL_PORT:-8000}:8000"}
    assert name == "superlink" or "ports" not in service


@pytest.mark.parametrize("node", range(3))
def test_a_clients_data_are_seen_by_its_clientapp_alone(node: int) -> None:
    client = f"superexec-client-{node}"
    holders = [name for name in SERVICES if f"data-{node}" in volumes(name).values()]
    assert holders == [client]
    assert volumes(client)["/data"] == f"data-{node}"
    (network,) = SERVICES[client]["networks"]
    assert PLAIN["networks"][network] == {"internal": True}
    neighbours = [name for name in SERVICES if network in SERVICES[name]["networks"]]
    assert neighbours == [f"supernode-{node}", client]
    (knows,) = (
        name for name in SERVICES if f"auth-{node}" in volumes(name).values() and name != client
    )
    assert knows == f"supernode-{node}"


def options(command: str) -> list[str]:
    return shlex.split(command)


def test_every_program_isolates_and_every_superexec_knows_a_secret() -> None:
    for name, service in SERVICES.items():
        role, program, *rest = options(service["command"])
        if program == "flower-superexec":
            assert role == "wait"
        else:
            assert role == "make"
            assert rest[rest.index("--isolation") + 1] == "process"
        assert "/auth" in volumes(name)


@pytest.mark.parametrize("node", range(3))
def test_nodes_are_told_who_they_are(node: int) -> None:
    for services in (SERVICES, TLS["services"]):
        command = options(services[f"supernode-{node}"]["command"])
        told = command[command.index("--node-config") + 1]
        assert told == f"partition-id={node} num-partitions=3 data='/data'"


def test_with_tls_no_connection_to_the_superlink_is_insecure() -> None:
    assert set(TLS["services"]) == {"superlink", "superexec-server", *NODES}
    for name, service in TLS["services"].items():
        assert "--insecure" not in options(service["command"])
        mounted = [text.split(":") for text in service["volumes"]]
        assert all(mode == "ro" for *_, mode in mounted)
        private = [target for *_, target, _ in mounted if not target.endswith(".crt")]
        expected = {"superlink": ["/keys/server.key"], "superexec-server": []}
        assert private == expected.get(name, ["/keys/node"])
    assert "--enable-supernode-auth" in options(TLS["services"]["superlink"]["command"])


def test_the_example_of_settings_names_every_one_with_its_default() -> None:
    text = "".join((ROOT / name).read_text() for name in ("docker-compose.yml", "compose.tls.yml"))
    used = dict(re.findall(r"\$\{([A-Z_]+):?-([^}]*)\}", text))
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    named = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert named == used


def test_flower_accepts_the_executor_file_of_the_docs() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    content = yaml.safe_load(block)
    settings = _kubernetes_executor_config_from_mapping(content)
    assert settings.namespace == "fedgame"
    assert settings.volume_mounts == content["volume-mounts"]
    # what Flower does not know it ignores
    assert set(content) - {"namespace", "image"} <= set(_KUBERNETES_CONFIG_FIELD_MAP)


def test_a_compose_client_accepts_the_files() -> None:
    clients = [["docker", "compose"], ["docker-compose"]]
    for client in clients:
        if (
            shutil.which(client[0])
            and not subprocess.run(
                [*client, "version"], capture_output=True, check=False
            ).returncode
        ):
            break
    else:
        pytest.skip("no compose client on this machine")
    environment = {**os.environ, "DOCKER_HOST": "unix:///nowhere"}
    for files in (["docker-compose.yml"], ["docker-compose.yml", "compose.tls.yml"]):
        chosen = [word for name in files for word in ("-f", name)]
        done = subprocess.run(
            [*client, *chosen, "config"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert set(yaml.safe_load(done.stdout)["services"]) == set(SERVICES)
