"""A node's secret: its own when deployed, the seed's in a simulation, never in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedgame import config
from fedgame.errors import ConfigError
from fedgame.randomness import secret_from_seed
from fedgame.strategies.node import Node


def test_a_simulated_node_hosts_clients_by_remainder() -> None:
    node = Node({"partition-id": 1, "num-partitions": 3})
    assert node.clients(1, 3, 8) == [1, 4, 7]
    assert node.data is None


def test_a_deployed_node_hosts_the_client_of_its_partition(tmp_path: Path) -> None:
    node = Node({"partition-id": 5, "num-partitions": 8, "data": str(tmp_path)})
    assert node.clients(0, 3, 8) == [5]
    assert node.ledger("run", "/from/the/server") == tmp_path / "run" / "ledger.sqlite"


def test_simulation_uses_the_seed_and_deployment_its_own_secret(tmp_path: Path) -> None:
    experiment = config.load({})
    assert Node({}).secret(experiment, "run") == secret_from_seed(experiment.run.seed)
    deployed = Node({"data": str(tmp_path / "a"), "partition-id": 0})
    own = deployed.secret(experiment, "run")
    assert own == deployed.secret(experiment, "run")
    assert own != secret_from_seed(experiment.run.seed)
    assert own != deployed.secret(experiment, "another run")
    assert own != Node({"data": str(tmp_path / "b"), "partition-id": 0}).secret(experiment, "run")
    assert (tmp_path / "a" / "secret").stat().st_mode & 0o077 == 0


def test_parity_runs_may_ask_for_the_seed_by_name(tmp_path: Path) -> None:
    experiment = config.load({"noise-secret": "from-seed"})
    deployed = Node({"data": str(tmp_path), "partition-id": 0})
    assert deployed.secret(experiment, "run") == secret_from_seed(experiment.run.seed)


def test_an_own_secret_needs_a_folder() -> None:
    experiment = config.load({})
    experiment = replace(experiment, run=replace(experiment.run, noise_secret="own"))
    with pytest.raises(ConfigError, match="noise-secret"):
        Node({}).secret(experiment, "run")


def test_a_damaged_secret_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(ConfigError, match="32 bytes"):
        Node({"data": str(tmp_path), "partition-id": 0}).secret(config.load({}), "run")


def test_noise_is_known_by_its_secret_its_run_and_the_kind_of_node(tmp_path: Path) -> None:
    own, seeded = config.load({}), config.load({"noise-secret": "from-seed"})
    nodes = [Node({"data": str(tmp_path / name), "partition-id": 0}) for name in "ab"]
    known = [
        *(node.noise(own, run) for node in nodes for run in ("first", "second")),
        nodes[0].noise(seeded, "first"),
        Node({}).noise(own, "first"),
        Node({}).noise(config.load({"seed": 7}), "first"),
    ]
    assert len(set(known)) == len(known)
    assert Node(nodes[0].config).noise(own, "first") == known[0]
    secret = (tmp_path / "a" / "secret").read_bytes()
    assert all(number.to_bytes(8, "little", signed=True) not in secret for number in known)
