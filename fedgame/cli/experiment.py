"""From an experiment file and the command's options to one validated experiment."""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fedgame.config import load, parse_override, read_toml
from fedgame.errors import ConfigError
from fedgame.runner import output_dir, refuse_own_secret
from fedgame.strategies.settings import Experiment, Scalar

_DEFAULT_NODES = 2


def prepare(
    path: Path | None,
    overrides: Sequence[str],
    *,
    nodes: int | None,
    superlink: str | None,
    deployed: bool = False,
) -> Experiment:
    """Merge and validate everything that a run needs, before anything starts.

    Args:
        path: Experiment file, None for the demo (every key at its default).
        overrides: `key=value` texts, later ones win over earlier ones and over the file.
        nodes: Number of nodes, None for the key `nodes`, else at most two.
        superlink: The user's SuperLink, None for one of our own.
        deployed: Whether each node is a process of its own that hosts one client. Then the number
            of nodes is the number of clients, whatever the experiment file says of either.

    Raises:
        ConfigError: A key or value that is not allowed, or an output folder that cannot be used.
    """
    flat: dict[str, Scalar] = read_toml(path) if path else {}
    changed = dict(parse_override(text) for text in overrides)
    flat.update(changed)
    if nodes is not None:
        flat["nodes"] = nodes
    if deployed:
        flat.update(_one_client_a_node(nodes, flat, changed))
    experiment = load(flat)
    run = experiment.run
    if not run.run_name:
        flat["run-name"] = _run_name(path.stem if path else "demo")
    if superlink is None:
        if not deployed:
            refuse_own_secret(experiment)
        flat["nodes"] = run.nodes or min(_DEFAULT_NODES, run.num_clients)
        folder, is_default = output_dir(experiment)
        flat["output-dir"] = str(_usable(folder, create_parents=is_default))
    elif run.output_dir and not Path(run.output_dir).is_absolute():
        raise ConfigError(
            "output-dir",
            run.output_dir,
            "must be absolute with --superlink: the run writes where that SuperLink's ServerApp is",
        )
    return load(flat)


def _one_client_a_node(
    nodes: int | None, flat: Mapping[str, Scalar], changed: Mapping[str, Scalar]
) -> dict[str, Scalar]:
    """Return `nodes` and `num-clients` of a deployment.

    Raises:
        ConfigError: `--nodes` and `-c num-clients=...` contradict each other.
    """
    clients = changed.get("num-clients", nodes)
    if nodes is not None and clients != nodes:
        allowed = f"--nodes {nodes}: a node is one client, so both must be equal"
        raise ConfigError("num-clients", clients, allowed)
    if clients is None:
        clients = load(flat).run.num_clients
    return {"num-clients": clients, "nodes": clients}


def _usable(folder: Path, *, create_parents: bool) -> Path:
    try:
        folder.mkdir(parents=create_parents, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        reason = f"must be a folder that can be written ({error.strerror})"
        raise ConfigError("output-dir", str(folder), reason) from error


def _run_name(stem: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-") or "run"
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{plain}-{secrets.token_hex(2)}"
