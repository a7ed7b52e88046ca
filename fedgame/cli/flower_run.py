"""One run on a SuperLink: its log line by line, and its stop."""

from __future__ import annotations

import re
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedgame.cli.flower_process import Connection, find_program
from fedgame.cli.interrupts import Interrupts

_STARTED = re.compile(r"Successfully started run (\d+)")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LOG_LINES = 1000
_STOP_SECONDS = 20.0


class FlowerRun:
    """One `flwr run`.

    Attributes:
        run_id: Flower's number of the run, None until the SuperLink accepted it.
        log: The last lines of its log, without colours.
        exit_code: What `flwr run` ended with; None while it runs.
    """

    def __init__(self, connection: Connection, interrupts: Interrupts) -> None:
        """Prepare a run on the SuperLink of `connection`."""
        self.run_id: str | None = None
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        self.exit_code: int | None = None
        self._connection = connection
        self._interrupts = interrupts
        self._stream: subprocess.Popen[str] | None = None

    @contextmanager
    def lines(self, app: Path, run_config: Path, federation: str = "") -> Iterator[Iterator[str]]:
        """Start the run and give its log's lines as they come, until it ends or a signal comes.

        Leaving the context ends the stream, not the run.

        Args:
            app: The app's folder.
            run_config: A flat TOML file of keys that the app knows.
            federation: Flower's `--federation-config`, empty for the SuperLink's own.
        """
        command = ["run", str(app), self._connection.name, "--stream"]
        command += ["--run-config", str(run_config)]
        if federation:
            command += ["--federation-config", federation]
        self._interrupts.on_signal = self._end_stream
        try:
            self._stream = flwr(self._connection, command)
            yield self._read(self._stream)
        finally:
            self._interrupts.on_signal = lambda: None
            if self._stream is not None:
                self._stream.kill()
                self._stream.communicate()

    def stop(self) -> bool:
        """Ask the SuperLink to stop the run; return whether it did, or there was none."""
        if self.run_id is None:
            return True
        process = flwr(self._connection, ["stop", self.run_id, self._connection.name])
        self._interrupts.wait(lambda: process.poll() is not None, _STOP_SECONDS)
        process.kill()
        process.communicate()
        return process.returncode == 0

    def _read(self, stream: subprocess.Popen[str]) -> Iterator[str]:
        assert stream.stdout is not None
        for raw in stream.stdout:
            line = _ESCAPES.sub("", raw).rstrip()
            started = _STARTED.search(line)
            if started and self.run_id is None:
                self.run_id = started[1]
            if self._interrupts.stop and self.run_id:
                return
            self.log.append(line)
            yield line
        self.exit_code = stream.wait()

    def _end_stream(self) -> None:
        # before the SuperLink told us the run's number we could not stop the run
        if self._stream is not None and (self.run_id or self._interrupts.hurry):
            self._stream.terminate()


def flwr(connection: Connection, arguments: Sequence[str]) -> subprocess.Popen[str]:
    """Start Flower's command; its output, errors too, comes from stdout.

    Args:
        connection: Where it finds its configuration.
        arguments: What follows `flwr`.
    """
    environment = connection.environment
    return subprocess.Popen(
        [find_program("flwr", environment), *arguments],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
