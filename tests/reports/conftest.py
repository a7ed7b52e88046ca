from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.offline
import pytest

from fedgame.strategies.base import (
    ClientRecord,
    ProcurementRecord,
    PurchaseRecord,
    RoundRecord,
    RunResult,
)
from tests.reports.game_runs import Built, build_game

MakeResult = Callable[..., RunResult]


def build_result(
    clients: int = 4, rounds: int = 3, *, game: bool = True, **changes: Any
) -> RunResult:
    """Return a plausible result without randomness; `changes` replace fields of the result."""
    grid = np.array([0.1, 0.3, 1.0])
    strengths = grid[np.add.outer(np.arange(rounds), np.arange(clients)) % len(grid)]
    records = tuple(
        RoundRecord(
            round=t + 1,
            loss=2.0 / (t + 1),
            accuracy=0.5 + 0.1 * t / rounds,
            mean_strength=float(strengths[t].sum() / max(clients, 1)),
            worst_epsilon=4.96801,
            exploitability=0.5 ** (t + 1) if game else None,
            clients=clients,
            seconds=0.25,
        )
        for t in range(rounds)
    )
    table = tuple(
        ClientRecord(
            id=k,
            num_examples=100 + k,
            beta=0.5 + k if game else None,
            strength=0.1 * (k + 1),
            noise_multiplier=2.0 + k,
            epsilon={"pld": 3.0 - k / clients, "order2": 11.0 - k / clients},
            guarantee=4.96801 - k / clients,
            realised=3.0 - k / clients,
            claimed_delta=0.0909090909 if game else None,
            sound_delta_at_epsilon_1=0.5891 / (k + 1) ** 2,
        )
        for k in range(clients)
    )
    values: dict[str, Any] = {
        "status": "finished",
        "reason": "",
        "rounds": records,
        "clients": table,
        "parameters": np.linspace(-1, 1, 8, dtype=np.float32),
        "tensors": (("layer.weight", (2, 3)), ("layer.bias", (2,))),
        "strengths": strengths,
        "notes": ("The realised values are ex post.",),
    }
    return RunResult(**(values | changes))


def build_purchase(client: int, clients: int) -> PurchaseRecord:
    """Return the purchase from one client; the dearest quarter sells nothing.

    Client 0 releases two updates fewer than scheduled, client 1 is never drawn.
    """
    report = (client + 1) / (clients + 1)
    sells = client < 0.75 * clients
    scheduled = 0 if client == 1 or not sells else 7 + client % 3
    return PurchaseRecord(
        report=report,
        virtual_cost=2 * report,
        probability=1 / (client + 2) if sells else 0.0,
        budget=1.234567 / (client + 1) if sells else 0.0,
        payment=0.7654321 / (client + 1) if sells else 0.0,
        scheduled=scheduled,
        released=scheduled - 2 if client == 0 else scheduled,
    )


def build_jsam(clients: int = 4, rounds: int = 3, every: int = 5, **changes: Any) -> RunResult:
    """Return a run that bought privacy and recorded a round in `every`.

    A client spends what it released of its budget; `changes` replace fields of the procurement.
    """
    result = build_result(clients, rounds, game=False)
    purchases = tuple(build_purchase(client, clients) for client in range(clients))
    spent = [p.budget * p.released / max(p.scheduled, 1) * 0.99 for p in purchases]
    values: dict[str, Any] = {
        "mechanism": "jsam",
        "eta": 5.0,
        "q": 1.5,
        "epsilon_max": 10.0,
        "expected_cost": 1.3141592,
        "objective": 8.765432,
        "threshold": sum(p.probability > 0 for p in purchases),
        "cap_binds": False,
        "ironed": False,
        "kkt_residual": 3.21e-13,
        "brute_force_gap": None,
        "implied_q": (10.034, 12.456, 18.207),
        "purchases": purchases,
        "used": tuple(0.25 * (t + 1) for t in range(rounds)),
    }
    return replace(
        result,
        rounds=tuple(replace(r, round=every * r.round) for r in result.rounds),
        clients=tuple(
            replace(c, epsilon={"pld": e, "rdp": 1.1 * e}, guarantee=p.budget, realised=1.1 * e)
            for c, p, e in zip(result.clients, purchases, spent, strict=True)
        ),
        procurement=ProcurementRecord(**(values | changes)),
    )


@pytest.fixture(autouse=True)
def _small_plotly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the tests that do not ask for `real_plotly` five megabytes a page."""
    if "real_plotly" not in request.fixturenames:
        monkeypatch.setattr(plotly.offline, "get_plotlyjs", lambda: "const Plotly = null;")


@pytest.fixture
def real_plotly() -> None:
    """Ask for pages that hold the true plotly.js."""


@pytest.fixture
def make_result() -> MakeResult:
    return build_result


@pytest.fixture
def make_jsam() -> MakeResult:
    return build_jsam


@pytest.fixture
def jsam_config(config: dict[str, str | int | float | bool]) -> dict[str, Any]:
    return config | {"strategy": "jsam", "rounds": 15, "game.name": "none"}


@pytest.fixture
def config() -> dict[str, str | int | float | bool]:
    return {
        "accountant.delta": 1e-5,
        "accountant.name": "pld",
        "cell": "mfpg",
        "jko.sinkhorn": True,
        "jko.tau": 0.1,
        "mode": "sound",
        "noise-secret": "os",
        "num-clients": 4,
        "output-dir": "/home/ada/runs",
        "rounds": 3,
        "run-name": "",
        "seed": 42,
        "strategy": "mfpg",
        "task.name": "digits",
        "training.neighbours": "example",
    }


@pytest.fixture
def versions() -> dict[str, str]:
    return {"fedgame": "0.1.0", "python": "3.11.7"}


@pytest.fixture(scope="session")
def built() -> Built:
    """A run of 4 players that stopped after 4 of 6 iterations; not to be changed."""
    return build_game(sent=4, cournot__feasible="none")
