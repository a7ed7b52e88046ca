"""The summary of a run: one flat JSON object, whose `status` says whether the run succeeded."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedgame.reports.deals import Deal, deals, draws, participants
from fedgame.strategies.base import ClientRecord, ProcurementRecord, RoundRecord, RunResult

MAX_ROWS = 2_000
"""Of more clients than this, tables on the page and the summary have those at most risk."""

Setting: TypeAlias = str | int | float | bool
R = TypeVar("R")
Config: TypeAlias = Mapping[str, Setting]
"""The resolved configuration: dotted keys ("jko.tau") to scalars."""


def model_sha256(parameters: NDArray[np.float32]) -> str:
    """Return the SHA-256 of the parameters' little-endian float32 bytes, in hexadecimal.

    Args:
        parameters: The flat model.

    >>> model_sha256(np.zeros(0, dtype=np.float32))[:16]
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(np.ascontiguousarray(parameters, dtype="<f4").tobytes()).hexdigest()


def worst_epsilon(result: RunResult) -> float | None:
    """Return the largest guarantee of any client, None if no guarantee was recorded.

    A run that failed before its clients were recorded still has the value of its last round. A NaN
    anywhere makes the answer NaN: an unknown guarantee is not a small one.
    """
    guarantees = [client.guarantee for client in result.clients]
    if not guarantees:
        return result.rounds[-1].worst_epsilon if result.rounds else None
    return math.nan if any(map(math.isnan, guarantees)) else max(guarantees)


def last_exploitability(result: RunResult) -> float | None:
    """Return the exploitability recorded last, None without a game."""
    recorded = [r.exploitability for r in result.rounds if r.exploitability is not None]
    return recorded[-1] if recorded else None


def population(result: RunResult, config: Config) -> int:
    """Return the number of clients that took part, before any did the number configured."""
    return len(result.clients) or int(config.get("num-clients", 0))


def rounds_run(result: RunResult) -> int:
    """Return the number of the last round that was recorded; rounds in between may not be."""
    return result.rounds[-1].round if result.rounds else 0


def strength_rounds(result: RunResult) -> list[int]:
    """Return the number of the round of each row of `result.strengths`.

    There is a row for each recorded round, or, where recording skipped rounds, for every round.
    """
    rows = len(result.strengths)
    if rows == len(result.rounds):
        return [record.round for record in result.rounds]
    return list(range(1, rows + 1))


def summarise(result: RunResult, config: Config) -> dict[str, Any]:
    """Return the summary of a run, ready for `json.dumps(..., allow_nan=False)`.

    Args:
        result: What the strategy handed back.
        config: The resolved configuration; a key that it lacks becomes None.

    Returns:
        Plain Python values only. Numbers are finite: an infinite or undefined one becomes None.
        "procurement" is None, and a client has no report, payment and so on, where nothing was
        bought; where something was, "cell" is None. Of more than MAX_ROWS clients it lists those
        with the largest guarantees; "population" says how many there are, clients.csv has all.
    """
    last: RoundRecord | None = result.rounds[-1] if result.rounds else None
    summary = {
        "status": result.status,
        "reason": result.reason,
        "strategy": config.get("strategy.name", config.get("strategy")),
        "cell": config.get("cell") if result.procurement is None else None,
        "task": config.get("task.name"),
        "mode": config.get("mode"),
        "neighbours": config.get("training.neighbours"),
        "delta": config.get("accountant.delta"),
        "accountant": config.get("accountant.name"),
        "population": population(result, config),
        "seed": config.get("seed"),
        "rounds": rounds_run(result),
        "planned_rounds": config.get("rounds"),
        "accuracy": last.accuracy if last else None,
        "loss": last.loss if last else None,
        "model_sha256": model_sha256(result.parameters),
        "s_bar": last.mean_strength if last else None,
        "exploitability": last_exploitability(result),
        "worst_epsilon": worst_epsilon(result),
        "notes": result.notes,
        "unaccounted": result.unaccounted,
        "procurement": _procurement(result.procurement, config) if result.procurement else None,
        "clients": _clients(result),
    }
    plain: dict[str, Any] = finite(summary)
    return plain


def _procurement(record: ProcurementRecord, config: Config) -> dict[str, Any]:
    implied = record.implied_q
    return {
        "mechanism": record.mechanism,
        "eta": record.eta,
        "q": record.q,
        "epsilon_max": record.epsilon_max,
        "budget": config.get("procurement.budget") or None,
        "expected_cost": record.expected_cost,
        "total_payment": record.total_payment,
        "objective": record.objective,
        "threshold": record.threshold,
        "cap_binds": record.cap_binds,
        "ironed": record.ironed,
        "kkt_residual": record.kkt_residual,
        "brute_force_gap": record.brute_force_gap,
        "implied_q": implied and dict(zip(("min", "median", "max"), implied, strict=True)),
        "participants": participants(record),
        "draws": draws(record),
    }


def _clients(result: RunResult) -> list[dict[str, Any]]:
    if result.procurement is None:
        return [_client(client) for client in _at_most_risk(result.clients, lambda each: each)]
    shown = _at_most_risk(deals(result), lambda deal: deal.client)
    return [_client(deal.client) | _deal(deal) for deal in shown]


def _at_most_risk(rows: Sequence[R], client: Callable[[R], ClientRecord]) -> Sequence[R]:
    """Return the rows of the clients with the largest guarantees, if there are too many."""
    if len(rows) <= MAX_ROWS:
        return rows

    def risk(row: R) -> float:
        guarantee = client(row).guarantee
        return math.inf if math.isnan(guarantee) else guarantee

    return sorted(rows, key=risk, reverse=True)[:MAX_ROWS]


def _deal(deal: Deal) -> dict[str, Any]:
    purchase = deal.purchase
    return {
        "report": purchase.report,
        "virtual_cost": purchase.virtual_cost,
        "probability": purchase.probability,
        "bought": purchase.budget,
        "spent": deal.spent,
        "payment": purchase.payment,
        "scheduled": purchase.scheduled,
        "released": purchase.released,
    }


def _client(client: ClientRecord) -> dict[str, Any]:
    return {
        "id": client.id,
        "num_examples": client.num_examples,
        "beta": client.beta,
        "strength": client.strength,
        "noise_multiplier": client.noise_multiplier,
        "epsilon": client.epsilon,
        "guarantee": client.guarantee,
        "realised": client.realised,
        "claimed_delta": client.claimed_delta,
        "sound_delta_at_epsilon_1": client.sound_delta_at_epsilon_1,
    }


def finite(value: Any) -> Any:
    """Return plain Python values, None for numbers that are infinite or undefined."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        # float() also strips subclasses, which JSON encoders may print in their own way.
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [finite(item) for item in value]
    return value
