"""What a node knows of itself: whether it is deployed, its clients, its secret, its files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedgame.errors import ConfigError, InvalidOrder
from fedgame.randomness import secret_from_seed
from fedgame.strategies.settings import Experiment, Scalar

_SECRET = "secret"
_SECRET_BYTES = 32
_KNOWN_BYTES = 8

NEEDS_A_FOLDER = (
    "needs deployed nodes, each with a data folder (node configuration key `data`); a simulation "
    "derives its noise from the seed"
)


@dataclass(frozen=True)
class Node:
    """One node, described by its own configuration.

    A node with a data folder (key `data` of its node configuration) is deployed: it hosts the one
    client that `partition-id` names and keeps secret and ledger in that folder. A node without is
    part of a simulation, hosts many clients, and keeps its ledger where the server says.
    """

    config: Mapping[str, Scalar]

    @property
    def data(self) -> Path | None:
        """The deployed node's folder, None in a simulation."""
        folder = str(self.config.get("data", ""))
        return Path(folder).expanduser().absolute() if folder else None

    @property
    def sensitivity(self) -> float | None:
        """The privacy sensitivity that a deployed client reports (key `sensitivity`)."""
        return float(self.config["sensitivity"]) if "sensitivity" in self.config else None

    @property
    def player_type(self) -> int | None:
        """Which of its candidate cost functions a deployed player has (key `type`).

        Raises:
            ConfigError: It is no whole number.
        """
        own = self.config.get("type")
        if own is not None and (isinstance(own, bool) or not isinstance(own, int)):
            raise ConfigError("type", own, "must be a whole number, the index of a type")
        return own

    def clients(self, place: int, nodes: int, num_clients: int) -> list[int]:
        """Return the numbers of the clients hosted here: in a simulation, place mod nodes."""
        if self.data is None:
            return list(range(place, num_clients, nodes))
        return [int(self.config["partition-id"])]

    def ledger(self, run_name: str, simulated: str) -> Path:
        """Return the path of this node's ledger of one run.

        Raises:
            InvalidOrder: The run's name would lead out of the node's folder.
        """
        if self.data is None:
            return Path(simulated)
        if run_name in ("", ".", "..", _SECRET) or Path(run_name).name != run_name:
            raise InvalidOrder(f"run name {run_name!r}: must be a plain folder name")
        return self.data / run_name / "ledger.sqlite"

    def may_host(self, client: int) -> bool:
        """Return whether a client can be here: a deployed node has its own client only."""
        return self.data is None or client == int(self.config["partition-id"])

    def keeps_a_secret(self, experiment: Experiment) -> bool:
        """Return whether noise comes from this node's own secret and not from the public seed."""
        wanted = experiment.run.noise_secret
        return wanted == "own" or (wanted == "auto" and self.data is not None)

    def secret(self, experiment: Experiment, run_name: str) -> bytes:
        """Return the secret of this node for one run.

        A node's own secret is made once from the operating system's entropy and never leaves its
        folder. The run's name enters, so that two runs share no stream; two runs of one name do
        not happen, because the ledger already holds the first one's rows.

        Raises:
            ConfigError: An own secret is asked for, and the node has no folder to keep it in.
        """
        if not self.keeps_a_secret(experiment):
            return secret_from_seed(experiment.run.seed)
        if self.data is None:
            raise ConfigError("noise-secret", experiment.run.noise_secret, NEEDS_A_FOLDER)
        own = _read_or_make(self.data / _SECRET)
        return hashlib.blake2b(run_name.encode(), key=own, digest_size=_SECRET_BYTES).digest()

    def noise(self, experiment: Experiment, run_name: str) -> int:
        """Return what this node's noise of one run is known by, a public 64-bit number.

        A run that goes on must meet the same noise at the same kind of node: a node with another
        secret, or with no record of what it released, would release a round a second time.

        Raises:
            ConfigError: As for `secret`.
        """
        kind = b"simulated" if self.data is None else b"deployed"
        secret = self.secret(experiment, run_name)
        known = hashlib.blake2b(b"known by " + kind, key=secret, digest_size=_KNOWN_BYTES)
        return int.from_bytes(known.digest(), "little", signed=True)


def _read_or_make(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        secret = path.read_bytes()
        if len(secret) != _SECRET_BYTES:
            raise ConfigError("data", str(path), "is not a secret of 32 bytes") from None
        return secret
    with os.fdopen(descriptor, "wb") as file:
        secret = os.urandom(_SECRET_BYTES)
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    return secret
