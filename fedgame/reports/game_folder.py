"""The folder of a game by messages: settings, tables, transcript, report and, last, summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedgame.audits.transcript import TranscriptAudit
from fedgame.games.aggregative.transcript import FILE, Recording
from fedgame.reports.csv_tables import csv_text
from fedgame.reports.files import append_row, write_whole
from fedgame.reports.game_run import GameRun
from fedgame.reports.game_section import render_game
from fedgame.reports.game_summary import summarise_game
from fedgame.reports.game_tables import ITERATION, iteration_row, leakage_rows, player_rows
from fedgame.reports.run_folder import write_settings
from fedgame.reports.summary import Config
from fedgame.strategies.game_result import GameResult, IterationRecord


def append_iteration(folder: Path, record: IterationRecord) -> None:
    """Append an iteration to metrics.csv, on disk before this returns.

    Raises:
        RunFailed: The file cannot be written.
    """
    append_row(folder / "metrics.csv", ITERATION, iteration_row(record))


def write_game_run(
    folder: Path,
    result: GameResult,
    audit: TranscriptAudit,
    config: Config,
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """Write everything about a run into its folder, the summary last, and return the summary.

    Nothing that is written says what a player's type, strategy or estimate of the mean is.

    Args:
        folder: The run's folder.
        result: What the strategy handed back.
        audit: What its transcript says.
        config: The resolved configuration.
        versions: Versions by name.

    Raises:
        RunFailed: A file cannot be written.
    """
    run = GameRun(result, audit, config)
    write_settings(folder, config, versions)
    tables = {
        "metrics.csv": [ITERATION, *map(iteration_row, result.iterations)],
        "players.csv": player_rows(run),
        "leakage.csv": leakage_rows(audit),
    }
    for name, rows in tables.items():
        write_whole(folder / name, csv_text(rows).encode())
    write_whole(folder / FILE, _recording(result).to_bytes())
    write_whole(folder / "report.html", render_game(run, versions).encode())
    summary = summarise_game(run)
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    write_whole(folder / "summary.json", text.encode() + b"\n")
    return summary


def _recording(result: GameResult) -> Recording:
    dynamics = result.dynamics
    initial = np.asarray(dynamics.initial, dtype=np.float64)
    return Recording(result.transcript, initial, dynamics.schedules)
