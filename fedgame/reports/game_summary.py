"""The summary of a game by messages: what leaked, what bounds and attacks say, how near it came.

Nothing here is a type, a strategy or an estimate: all of it follows from the transcript, except the
distance to equilibrium, the exploitability and the gain of gradient matching, which are scores.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedgame.accountants.pml_bounds import Bound
from fedgame.accountants.pml_logs import FloatArray
from fedgame.audits.transcript import GradientMatchingAttack, Outcome, TranscriptAudit
from fedgame.games.aggregative.dynamics import Dynamics
from fedgame.games.aggregative.transcript import Transcript
from fedgame.reports.game_notes import is_endless, run_notes
from fedgame.reports.game_run import GameRun, enforced_budget, game_name
from fedgame.reports.summary import Config, finite
from fedgame.strategies.game_result import PlayerRecord


@dataclass(frozen=True)
class PlayerLine(PlayerRecord):
    """One player's line, in the summary, in players.csv and in the report.

    Attributes:
        individual_leakage: l(F_i -> o) at the end, in nats.
        individual_ceiling: The most that could leak about it.
        bayes_log_gain: What the best guess of its type gained by the transcript.
        guess: The type that the transcript makes likeliest, which need not be its own.
    """

    individual_leakage: float
    individual_ceiling: float
    bayes_log_gain: float
    guess: int


def summarise_game(run: GameRun) -> dict[str, Any]:
    """Return the summary of a run, ready for `json.dumps(..., allow_nan=False)`.

    Returns:
        Plain Python values only. Numbers are finite: an infinite or undefined one becomes None.
    """
    result = run.result
    summary = {
        "status": result.status,
        "reason": result.reason,
        **public_facts(run.config, result.dynamics, result.transcript),
        **audit_mapping(run.audit),
        "worst_epsilon": run.worst_epsilon,
        "notes": run_notes(run),
        "players": [asdict(line) for line in player_lines(run)],
    }
    plain: dict[str, Any] = finite(summary)
    return plain


def public_facts(config: Config, dynamics: Dynamics, transcript: Transcript) -> dict[str, Any]:
    """Return what was played, by which rules, and how far it came.

    Args:
        config: The resolved configuration.
        dynamics: The public part of the run.
        transcript: What was sent.
    """
    sent = len(transcript)
    return {
        "strategy": "aggregative",
        "game": config.get("aggregative.name"),
        "game_name": game_name(config),
        "rule": dynamics.rule,
        "graph": config.get("aggregative.graph"),
        "gradient": dynamics.gradient,
        "prior": config.get("prior.name"),
        "seed": config.get("seed"),
        "population": dynamics.game.num_players,
        # the number of the last iteration, which is one less than there were
        "rounds": sent - 1 if sent else None,
        "planned_rounds": len(dynamics.schedules) - 1,
        "sent": int(transcript.sent.sum()),
        "budget": enforced_budget(config),
        "filter_action": config.get("pml-filter.action"),
    }


def audit_mapping(audit: TranscriptAudit) -> dict[str, Any]:
    """Return what an audit found as plain Python values, None for numbers that are not finite.

    A value with "by_iteration" stands for the whole transcript; a bound about one player has one
    value a player and, by iteration, the largest of them. An exploitability without end is None and
    marked as infinite.
    """
    outcome = audit.outcome
    mapping = {
        "exact_leakage": {
            "whole": last(audit.leakage),
            "players": last_row(audit.individual_leakage),
            "by_iteration": audit.leakage.tolist(),
        },
        "bounds": [_bound(bound) for bound in audit.bounds],
        "ceiling": float(audit.ceiling.value),
        "individual_ceiling": audit.individual_ceiling.value.tolist(),
        "attack": {
            "gradient_matching": outcome and outcome.attack and _matching(outcome.attack),
            "bayes": {
                "log_gain": _course(audit.bayes_log_gain),
                "individual_log_gain": last_row(audit.individual_bayes_log_gain),
                "guesses": audit.guesses.tolist(),
                "share_right": outcome and outcome.share_right,
            },
        },
        "error": None if outcome is None or outcome.error is None else _course(outcome.error),
        "exploitability": outcome and _exploitability(outcome),
        "smallest_eigenvalue": audit.smallest_eigenvalue,
    }
    plain: dict[str, Any] = finite(mapping)
    return plain


def log_gain(attack: GradientMatchingAttack) -> FloatArray:
    """Return log of the gain over the best gain of a blind guess, shape (K',); -inf for gain 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(attack.gain / attack.blind_gain))


def individual_log_gain(attack: GradientMatchingAttack) -> FloatArray:
    """Return the same for the guess of each player's own parameters, shape (K', N)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(attack.individual_gain / attack.individual_blind_gain))


def last(values: FloatArray) -> float:
    """Return the last of values in nats, shape (K',); before the first message it is 0."""
    return float(values[-1]) if len(values) else 0.0


def last_row(values: FloatArray) -> list[float]:
    """Return the last row of values in nats of all players, shape (K', N)."""
    row: list[float] = (values[-1] if len(values) else np.zeros(values.shape[1])).tolist()
    return row


def largest(bound: Bound) -> FloatArray:
    """Return a bound's values by iteration, the largest of any player if it is one on players."""
    value = bound.value
    if value.ndim == 1:
        return value
    return np.asarray(value.max(axis=1))


def player_lines(run: GameRun) -> list[PlayerLine]:
    """Return one line a player, in the order of the result."""
    audit = run.audit
    leakage = last_row(audit.individual_leakage)
    gains = last_row(audit.individual_bayes_log_gain)
    ceilings, guesses = audit.individual_ceiling.value.tolist(), audit.guesses.tolist()
    return [
        PlayerLine(
            **asdict(player),
            individual_leakage=leakage[player.id],
            individual_ceiling=ceilings[player.id],
            bayes_log_gain=gains[player.id],
            guess=guesses[player.id],
        )
        for player in run.result.players
    ]


def _bound(bound: Bound) -> dict[str, Any]:
    single = bound.value.ndim == 1
    return {
        "name": bound.name,
        "about": "all players" if single else "one player",
        "value": last(bound.value) if single else last_row(bound.value),
        "by_iteration": largest(bound).tolist(),
        "rigorous": bound.source.rigorous,
        "worth": bound.source.worth,
        "covers": bound.source.covers,
        "source": bound.source.text,
    }


def _exploitability(outcome: Outcome) -> dict[str, Any]:
    return {
        **_course(outcome.exploitability),
        "infinite": is_endless(outcome),
        "exact": outcome.exploitability_is_exact,
    }


def _course(values: FloatArray) -> dict[str, Any]:
    listed = values.tolist()
    return {"final": listed[-1] if listed else None, "by_iteration": listed}


def _matching(attack: GradientMatchingAttack) -> dict[str, Any]:
    return {
        "gain": _course(attack.gain),
        "blind_gain": attack.blind_gain,
        "log_gain": _course(log_gain(attack)),
        "individual_log_gain": last_row(individual_log_gain(attack)),
    }
