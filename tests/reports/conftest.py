from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.offline
import pytest

from fedgame.strategies.base import ClientRecord, RoundRecord, RunResult

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
