"""Random priors with their tables, and many transcripts of small games at once, for the PML tests.

The games are written here as plain loops over iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import (
    correlated_prior,
    product_prior,
    table_prior,
    tabulated,
)
from tests.accountants.pml_plain_loops import (
    Array,
    Table,
    as_array,
    correlated_table,
    mixture_table,
    product_table,
    run_p1,
    run_p2,
)

KINDS = ("product", "sparse product", "correlated", "anti-correlated", "mixture", "table")

the_oracles = pytest.mark.parametrize(
    ("run", "prior"),
    [
        (run_p1(), product_prior([[0.3, 0.7], [0.6, 0.4]])),
        (run_p2(), tabulated(correlated_prior(3, 0.4, 0.7))),
    ],
    ids=["P1", "P2"],
)
"""Two runs, with priors for which every minimum over profiles is exact."""


def random_prior(kind: str, num_players: int, rng: np.random.Generator) -> tuple[Prior, Table]:
    """A prior of a kind, and the same as a dictionary that was made without it."""
    if kind in ("correlated", "anti-correlated"):
        players = max(num_players, 2)
        alpha, beta = float(rng.uniform(0.05, 0.95)), float(rng.uniform(0.05, 0.95))
        if kind == "anti-correlated":
            beta /= 2.0**players
        return correlated_prior(players, alpha, beta), correlated_table(players, alpha, beta)
    num_types = int(rng.integers(2, 4)) if num_players < 6 else 2
    rows = rng.dirichlet(np.ones(num_types), (3, num_players))
    if kind == "product":
        return product_prior(rows[0]), product_table(rows[0].tolist())
    holes = rng.random(rows.shape) < 0.3
    holes[..., 0] = False
    sparse = np.where(holes, 0.0, rows)
    sparse /= sparse.sum(axis=-1, keepdims=True)
    if kind == "sparse product":
        return product_prior(sparse[0]), product_table(sparse[0].tolist())
    weights = rng.dirichlet(np.ones(3))
    table = mixture_table(weights.tolist(), sparse.tolist())
    if kind == "mixture":
        return Prior(weights, sparse), table
    return table_prior(as_array(table)), table


@dataclass(frozen=True)
class Runs:
    """Transcripts of S runs of K iterations."""

    messages: Array
    """What each type would have sent, (S, K, N, m, 1)."""
    logs: Array
    """Cumulated log-likelihoods, (S, K, N, m)."""
    scales: Array
    """(K,)."""

    @property
    def before(self) -> Array:
        """Log-likelihoods before each iteration, (S, K, N, m)."""
        return np.concatenate([np.zeros_like(self.logs[:, :1]), self.logs[:, :-1]], axis=1)


def simulate(
    prior: Prior, count: int, iterations: int, rng: np.random.Generator, step: float = 0.25
) -> Runs:
    """Rule `ye` on a complete graph, gradients a + b v of random types, falling steps."""
    slopes = rng.uniform(-1, 1, (2, prior.num_types))
    start = rng.uniform(0, 1, (prior.num_players, 1))
    types = prior.draw(rng, count)[..., None]
    scales = np.linspace(0.8, 0.7 + 0.1 * iterations, iterations)
    x = np.broadcast_to(start, (count, prior.num_players, prior.num_types))
    v, total = x, np.zeros(x.shape)
    messages, logs = [], []
    for k in range(iterations):
        sent = np.take_along_axis(v, types, -1) + rng.laplace(0, scales[k], types.shape)
        total = total - np.abs(sent - v) / scales[k] - np.log(2 * scales[k])
        messages.append(v[..., None])
        logs.append(total)
        moved = x - step * 0.9**k * (slopes[0] + slopes[1] * v)
        v, x = sent.mean(axis=1, keepdims=True) + moved - x, moved
    return Runs(np.stack(messages, axis=1), np.stack(logs, axis=1), scales)
