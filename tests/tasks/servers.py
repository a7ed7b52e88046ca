"""A web server of a test's own."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a log line a request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Mirror:
    """A folder and where it is served."""

    folder: Path
    url: str


@contextmanager
def serving(folder: Path) -> Iterator[Mirror]:
    """Serve a folder on loopback."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield Mirror(folder, f"http://127.0.0.1:{server.server_port}/")
        finally:
            server.shutdown()
            thread.join()
