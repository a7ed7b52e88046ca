"""A SuperLink of our own in simulation mode: what `fedgame run` runs on."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from fedgame.cli.flower_process import HOST, Connection, FlowerProcesses
from fedgame.cli.interrupts import Interrupts

_NAME = "fedgame"


def connection_toml(port: int, root_certificates: Path | None = None) -> str:
    """Return Flower's config.toml for a SuperLink on this machine.

    Args:
        port: Its port.
        root_certificates: The certificate that its TLS certificate was signed with; None: no TLS.
    """
    security = (
        f"root-certificates = '{root_certificates}'" if root_certificates else "insecure = true"
    )
    return (
        f'[superlink]\ndefault = "{_NAME}"\n\n'
        f'[superlink.{_NAME}]\naddress = "{HOST}:{port}"\n{security}\n'
    )


class OwnSuperLink:
    """A context: a SuperLink in simulation mode, and at its end nothing of it is left."""

    def __init__(self, folder: Path, interrupts: Interrupts) -> None:
        """Keep Flower's and Ray's files in `folder`: this run's own, there, with a short path."""
        self._processes = FlowerProcesses(folder, interrupts)

    def __enter__(self) -> Connection:
        """Start the SuperLink; return at once if a signal came.

        Raises:
            RunFailed: It does not start; the text has the last line of its log.
        """
        command = ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess"]
        try:
            _, port = self._processes.start_listening("superlink", "SuperLink", command)
            return connect(self._processes, connection_toml(port))
        except BaseException:
            self._processes.end()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._processes.end()


def connect(processes: FlowerProcesses, config: str) -> Connection:
    """Return the connection to a SuperLink that was started as "superlink".

    Args:
        processes: The programs of this run.
        config: Flower's config.toml.
    """
    (processes.home("superlink") / "config.toml").write_text(config, encoding="utf-8")
    return Connection(_NAME, processes.environment("superlink"))
