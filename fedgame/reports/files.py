"""How every file of a run folder is written: whole or absent, and on disk at once."""

from __future__ import annotations

import os
from pathlib import Path

from fedgame.errors import RunFailed
from fedgame.reports.csv_tables import Row, csv_text


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that it is whole or absent.

    Raises:
        RunFailed: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def append_row(path: Path, header: Row, row: Row) -> None:
    """Append a row to a CSV file, on disk before this returns, so that a crash loses nothing.

    Args:
        path: The file; a new one begins with the header.
        header: Names of the columns.
        row: Their values.

    Raises:
        RunFailed: It cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8", newline="") as stream:
            stream.write(csv_text([row] if stream.tell() else [header, row]))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror}") from error
