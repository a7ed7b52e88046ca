"""SuperLink, SuperExecs and SuperNodes as processes on this machine; one node is one client."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from fedgame.cli.flower_process import HOST, Connection, FlowerProcesses, Started
from fedgame.cli.flower_run import flwr
from fedgame.cli.interrupts import Interrupts
from fedgame.cli.own_superlink import connect, connection_toml
from fedgame.errors import ConfigError, RunFailed

if TYPE_CHECKING:
    from fedgame.cli.node_keys import KeyFolder

LOGS = "logs"
"""Folder of the logs, beside the folders of the nodes."""

# what a SuperNode logs once the SuperLink accepted it
_REGISTERED = "SuperNode ID:"
_WATCH_SECONDS = 0.5
_REGISTER_SECONDS = 60.0


class LocalDeployment:
    """A context: a SuperLink and its nodes, and at its end nothing of them runs.

    What each node keeps (its secret, its ledgers) and the logs stay in `data`. Each task runs in a
    process of its own, started by a SuperExec that knows a secret: whoever just reaches a port
    cannot take the task's place.
    """

    def __init__(
        self,
        folder: Path,
        interrupts: Interrupts,
        data: Path,
        nodes: int,
        *,
        tls: bool,
        say: Callable[[str], None],
    ) -> None:
        """Describe a deployment.

        Args:
            folder: This run's own folder for what nobody needs afterwards, with a short path.
            interrupts: Signals, which end every wait.
            data: Where the nodes' folders `node-0`, `node-1`, ... and the logs go.
            nodes: Number of nodes.
            tls: Whether connections are encrypted and nodes authenticated, with keys made now.
            say: Told when one of the processes ends before its time.

        Raises:
            ConfigError: `data` cannot be written, or Flower could not read its name.
        """
        _quoted(data)
        try:
            (data / LOGS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"must be a folder that can be written ({error.strerror})"
            raise ConfigError("--data-dir", str(data), reason) from error
        self.processes = FlowerProcesses(folder, interrupts, data / LOGS)
        self.keys: KeyFolder | None = None
        self._folder = folder
        self._interrupts = interrupts
        self._data = data
        self._nodes = nodes
        self._tls = tls
        self._say = say
        self._secret = folder / "superexec.secret"
        self._link = ""
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watch_processes, daemon=True)

    def __enter__(self) -> Connection:
        """Start everything and wait for the nodes; return at once if a signal came.

        Raises:
            RunFailed: Something does not start; the text has the last line of its log.
        """
        try:
            connection = self._start_server()
            if not self._interrupts.stop:
                self._start_nodes(connection)
        except BaseException:
            self.processes.end()
            raise
        self._watch.start()
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._watch.join()
        self.processes.end()

    def _start_server(self) -> Connection:
        _write_secret(self._secret)
        command = ["flower-superlink", *self._isolation(), *self._server_security()]
        command += ["--database", str(self._folder / "superlink.sqlite")]
        _, port = self.processes.start_listening("superlink", "SuperLink", command)
        self._link = f"{HOST}:{port}"
        trusted = self._trusted()
        self.processes.start(
            "serverapp",
            "SuperExec of the ServerApp",
            [*self._superexec(self._link), *self._client_security()],
        )
        return connect(self.processes, connection_toml(port, trusted))

    def _start_nodes(self, connection: Connection) -> None:
        if self.keys is not None:
            self._register(connection, self.keys)
        nodes = [self.start_node(node) for node in range(self._nodes)]
        for node in nodes:
            if not self.processes.wait_for(node, partial(node.says, _REGISTERED)):
                raise RunFailed(f"Flower's {node.title} does not start: {node.last_words()}")

    def start_node(self, node: int, key: Path | None = None) -> Started:
        """Start a SuperNode and the SuperExec of its ClientApp; return the SuperNode.

        Args:
            node: The number of its client.
            key: Its private key if it is not the one made for it.
        """
        data = self._data / f"node-{node}"
        config = f"partition-id={node} num-partitions={self._nodes} data={_quoted(data)}"
        command = ["flower-supernode", *self._isolation(), "--superlink", self._link]
        command += ["--node-config", config, *self._client_security()]
        if self.keys is not None:
            command += ["--auth-supernode-private-key", str(key or self.keys.node_key(node))]
        started, port = self.processes.start_listening(f"node-{node}", f"SuperNode {node}", command)
        # the two talk over the loopback interface
        superexec = [*self._superexec(f"{HOST}:{port}"), "--insecure"]
        title = f"SuperExec of node {node}"
        self.processes.start(f"node-{node}-clientapp", title, superexec)
        return started

    def _isolation(self) -> list[str]:
        return ["--isolation", "process", "--superexec-auth-secret-file", str(self._secret)]

    def _superexec(self, address: str) -> list[str]:
        secret = ["--superexec-auth-secret-file", str(self._secret)]
        return ["flower-superexec", "--runtime-api-address", address, *secret]

    def _server_security(self) -> list[str]:
        if not self._tls:
            return ["--insecure"]
        # `cryptography` takes half a second to load, and most deployments do without
        from fedgame.cli.node_keys import make_keys

        keys = self.keys = make_keys(self._folder / "keys", self._nodes, ())
        files = ["--ssl-ca-certfile", str(keys.ca_certificate)]
        files += ["--ssl-certfile", str(keys.certificate), "--ssl-keyfile", str(keys.key)]
        return [*files, "--enable-supernode-auth"]

    def _trusted(self) -> Path | None:
        return None if self.keys is None else self.keys.ca_certificate

    def _client_security(self) -> list[str]:
        trusted = self._trusted()
        return ["--insecure"] if trusted is None else ["--root-certificates", str(trusted)]

    def _register(self, connection: Connection, keys: KeyFolder) -> None:
        def register(node: int) -> None:
            key = str(keys.node_public_key(node))
            process = flwr(connection, ["supernode", "register", key, connection.name])
            output, _ = process.communicate(timeout=_REGISTER_SECONDS)
            if process.returncode:
                raise RunFailed(f"node {node} cannot be registered: {' '.join(output.split())}")

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(register, range(self._nodes)))

    def _watch_processes(self) -> None:
        told: set[str] = set()
        while not self._over.wait(_WATCH_SECONDS):
            for program in self.processes.started:
                if program.ended and program.title not in told:
                    told.add(program.title)
                    self._say(f"{program.title} ended: {program.last_words()}")


def _write_secret(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))


def _quoted(path: Path) -> str:
    """Return a path as Flower's --node-config can read it."""
    text = str(path)
    if "'" in text or "\n" in text:
        raise ConfigError("--data-dir", text, "must not contain ' or a line break")
    return f"'{text}'"
