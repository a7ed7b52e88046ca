"""The tables of a game by messages as rows: by iteration and by player."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import fields

import numpy as np

from fedgame.accountants.pml_bounds import Bound
from fedgame.accountants.pml_logs import FloatArray
from fedgame.audits.transcript import TranscriptAudit
from fedgame.reports.csv_tables import Row
from fedgame.reports.game_run import GameRun
from fedgame.reports.game_summary import PlayerLine, largest, log_gain, player_lines
from fedgame.strategies.game_result import IterationRecord

ITERATION = tuple(field.name for field in fields(IterationRecord))
PLAYER = tuple(field.name for field in fields(PlayerLine))


def iteration_row(record: IterationRecord) -> list[object]:
    """Return one iteration under the header ITERATION."""
    return [getattr(record, name) for name in ITERATION]


def player_rows(run: GameRun) -> Iterable[Row]:
    """Yield a header and one row a player."""
    yield PLAYER
    for line in player_lines(run):
        yield [getattr(line, name) for name in PLAYER]


def leakage_rows(audit: TranscriptAudit) -> Iterable[Row]:
    """Yield a header and one row an iteration; what is not known is an empty field.

    Of a bound about one player it has the largest value of any. What is infinite is inf or -inf.
    """
    outcome = audit.outcome
    attack = outcome.attack if outcome else None
    columns: dict[str, FloatArray | None] = {
        "exact": audit.leakage,
        "largest_individual": audit.individual_leakage.max(axis=1, initial=0.0),
        **{_column(bound): largest(bound) for bound in audit.bounds},
        "bayes_log_gain": audit.bayes_log_gain,
        "gradient_matching_log_gain": log_gain(attack) if attack else None,
        "error": outcome.error if outcome else None,
        "exploitability": outcome.exploitability if outcome else None,
    }
    unknown = np.full(len(audit.leakage), math.nan)
    listed = [(unknown if c is None else c).tolist() for c in columns.values()]
    yield ["round", *columns]
    for k, row in enumerate(zip(*listed, strict=True)):
        yield [k, *(None if math.isnan(value) else value for value in row)]


def _column(bound: Bound) -> str:
    return re.sub(r"\W+", "_", bound.name.lower()).strip("_")
