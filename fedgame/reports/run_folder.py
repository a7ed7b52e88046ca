"""The folder of a run: settings, versions, metrics, clients, model, summary and report.

Every file is written under a temporary name and then renamed, so that it is whole or absent. The
summary comes last: a folder with a summary.json has everything else.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from fedgame.errors import ConfigError
from fedgame.reports.csv_tables import (
    METRICS,
    client_rows,
    csv_text,
    metrics_row,
    metrics_rows,
    purchase_rows,
    strength_rows,
)
from fedgame.reports.files import append_row, write_whole
from fedgame.reports.html import render_report
from fedgame.reports.summary import Config, Setting, model_sha256, summarise
from fedgame.strategies.base import RoundRecord, RunResult

__all__ = [
    "append_metrics",
    "collect_versions",
    "create_run_folder",
    "model_sha256",
    "to_toml",
    "write_run",
    "write_settings",
]

PACKAGES = ("fedgame", "flwr", "torch", "numpy")
WRITABLE = "must be a folder that can be written"


def create_run_folder(output_dir: Path, name: str, *, create_parents: bool = False) -> Path:
    """Make a new folder for a run inside `output_dir`, and prove that it can be written.

    Args:
        output_dir: Where runs go; made if it is absent but its parent exists.
        name: The folder's name; empty for the time in UTC. If it is taken, -2, -3, ... is added.
        create_parents: Whether to make absent parents of `output_dir` too.

    Raises:
        ConfigError: The name is no plain folder name, or nothing can be written there.
    """
    if not name:
        name = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    if not re.fullmatch(r"\w[\w .,=+@()-]*", name) or len(name.encode()) > 200:
        raise ConfigError("run-name", name, "must be a plain folder name of at most 200 bytes")
    try:
        output_dir.mkdir(parents=create_parents, exist_ok=True)
        folder = _new_folder(output_dir, name)
        probe = folder / ".probe"
        probe.write_bytes(b"fedgame")
        probe.unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError("output-dir", str(output_dir), f"{WRITABLE} ({reason})") from error
    return folder


def _new_folder(parent: Path, name: str) -> Path:
    folder, count = parent / name, 1
    while True:
        try:
            folder.mkdir()
        except FileExistsError:
            count += 1
            folder = parent / f"{name}-{count}"
        else:
            return folder


def collect_versions() -> dict[str, str]:
    """Return the versions of Python, the platform and the packages that set a run's bits."""
    versions = {"python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def write_settings(folder: Path, config: Config, versions: Mapping[str, str]) -> None:
    """Write config.toml and versions.json: what is known before the first round."""
    write_whole(folder / "config.toml", to_toml(config).encode())
    write_whole(folder / "versions.json", json.dumps(dict(versions), indent=2).encode() + b"\n")


def append_metrics(folder: Path, record: RoundRecord) -> None:
    """Append a round to metrics.csv, on disk before this returns, so that a crash loses nothing."""
    append_row(folder / "metrics.csv", METRICS, metrics_row(record))


def write_run(
    folder: Path, result: RunResult, config: Config, versions: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Write everything about a run into its folder, the summary last, and return the summary.

    Args:
        folder: The run's folder.
        result: What the strategy handed back.
        config: The resolved configuration.
        versions: Versions by name; by default those installed here.

    Raises:
        RunFailed: A file cannot be written.
        ValueError: The tensors' sizes do not add up to the parameters' number.
    """
    versions = collect_versions() if versions is None else versions
    write_settings(folder, config, versions)
    tables = {
        "metrics.csv": metrics_rows(result),
        "clients.csv": client_rows(result.clients),
        "strengths.csv": strength_rows(result),
    }
    if result.procurement is not None:
        tables["purchases.csv"] = purchase_rows(result)
    for name, rows in tables.items():
        write_whole(folder / name, csv_text(rows).encode())
    write_whole(folder / "model.safetensors", _model(result))
    write_whole(folder / "report.html", render_report(result, config, versions).encode())
    summary = summarise(result, config)
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    write_whole(folder / "summary.json", text.encode() + b"\n")
    return summary


def to_toml(config: Config) -> str:
    """Return a flat configuration as TOML: the part of a key before its last dot names the table.

    >>> print(to_toml({"jko.tau": 0.1, "rounds": 20, "cell": "mfpg"}), end="")
    cell = "mfpg"
    rounds = 20
    <BLANKLINE>
    [jko]
    tau = 0.1
    """
    tables: dict[str, list[str]] = {"": []}
    for key in sorted(config):
        table, _, name = key.rpartition(".")
        tables.setdefault(table, []).append(f"{_toml_key(name)} = {toml_value(config[key])}")
    blocks = []
    for table, lines in sorted(tables.items()):
        header = ".".join(map(_toml_key, table.split(".")))
        blocks.append("\n".join([f"[{header}]", *lines] if table else lines))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Setting) -> str:
    """Return a scalar as TOML."""
    if isinstance(value, str):
        # JSON's escapes are all TOML's too; TOML wants DEL escaped as well.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def _model(result: RunResult) -> bytes:
    from safetensors.numpy import save

    size = sum(prod(shape) for _, shape in result.tensors)
    if size != result.parameters.size:
        raise ValueError(f"tensors of {size} entries, model of {result.parameters.size}")
    tensors, start = {}, 0
    for name, shape in result.tensors:
        end = start + prod(shape)
        tensors[name] = result.parameters[start:end].astype(np.float32).reshape(shape)
        start = end
    # The file sorts its tensors; the hash is over the flat model in this order.
    order = json.dumps([name for name, _ in result.tensors])
    metadata = {"sha256": model_sha256(result.parameters), "order": order}
    return bytes(save(tensors, metadata=metadata))
