"""Independent judges of the PML modules: enumeration of profiles, and two games as plain loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Profile = tuple[int, ...]
Table = dict[Profile, float]
"""P(f) of every profile."""


def profiles(num_players: int, num_types: int) -> Iterator[Profile]:
    return itertools.product(range(num_types), repeat=num_players)


def product_table(rows: Sequence[Sequence[float]]) -> Table:
    """P(f) = prod_i rows[i][f_i]."""
    return {
        f: math.prod(row[t] for row, t in zip(rows, f, strict=True))
        for f in profiles(len(rows), len(rows[0]))
    }


def mixture_table(weights: Sequence[float], parts: Sequence[Sequence[Sequence[float]]]) -> Table:
    tables = [product_table(rows) for rows in parts]
    return {
        f: math.fsum(w * table[f] for w, table in zip(weights, tables, strict=True))
        for f in tables[0]
    }


def correlated_table(num_players: int, alpha: float, beta: float) -> Table:
    """Eq. (8) of the paper, word by word."""
    table = {}
    for f in profiles(num_players, 2):
        first = alpha if f[0] == 0 else 1 - alpha
        same = all(t == f[0] for t in f[1:])
        table[f] = first * (beta if same else (1 - beta) / (2 ** (num_players - 1) - 1))
    return table


def as_array(table: Table) -> Array:
    num_players = len(next(iter(table)))
    num_types = 1 + max(t for f in table for t in f)
    result = np.zeros((num_types,) * num_players)
    for f, p in table.items():
        result[f] = p
    return result


def log_likelihood(logs: Array, f: Profile) -> float:
    return math.fsum(float(logs[i, t]) for i, t in enumerate(f))


def log_sum_exp(values: Sequence[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def log_evidence(table: Table, logs: Array) -> float:
    """log P(o) for logs of shape (N, m)."""
    return log_sum_exp([math.log(p) + log_likelihood(logs, f) for f, p in table.items() if p > 0])


def leakage(table: Table, logs: Array) -> float:
    best = max(log_likelihood(logs, f) for f, p in table.items() if p > 0)
    return best - log_evidence(table, logs)


def marginal(table: Table, player: int, kind: int) -> float:
    return math.fsum(p for f, p in table.items() if f[player] == kind)


def individual(table: Table, logs: Array, player: int) -> float:
    """max over types of log P(o|F_i = t) - log P(o)."""
    found = []
    for kind in range(logs.shape[1]):
        conditional = {f: p for f, p in table.items() if f[player] == kind and p > 0}
        if conditional:
            mass = math.log(math.fsum(conditional.values()))
            found.append(log_evidence(conditional, logs) - mass)
    return max(found) - log_evidence(table, logs)


def theorem_1(table: Table, distances: Array) -> float:
    """max_f' -log E_f exp(-D(f, f')) for cumulated distances of shape (N, m, m)."""
    possible = [f for f, p in table.items() if p > 0]
    return max(
        -log_sum_exp(
            [
                math.log(table[f])
                - math.fsum(float(distances[i, f[i], g[i]]) for i in range(len(f)))
                for f in possible
            ]
        )
        for g in possible
    )


def worst_after(table: Table, logs: Array, messages: Array, scale: float) -> float:
    """The largest leakage of a round with these messages: its supremum is at o = v_f."""
    num_players = len(logs)
    found = []
    for f, p in table.items():
        if p > 0:
            after = logs.copy()
            for i in range(num_players):
                for t in range(logs.shape[1]):
                    gap = np.abs(messages[i, f[i]] - messages[i, t]).sum()
                    after[i, t] -= gap / scale
            found.append(leakage(table, after))
    return max(found)


@dataclass(frozen=True)
class PlainRun:
    """One transcript, what each type would have sent, and the densities."""

    table: Table
    messages: Array
    """(K, N, m, 1)."""
    logs: Array
    """Cumulated log-likelihoods, (K, N, m)."""
    scales: Array
    """(K,)."""
    values: dict[str, float]
    """What the run must come out as."""
    individual: tuple[float, ...]
    worst: tuple[float, ...]


def _densities(
    messages: list[list[list[float]]], o: list[list[float]], scales: list[float]
) -> Array:
    logs = np.zeros((len(o), len(o[0]), 2))
    for k, row in enumerate(o):
        for i, sent in enumerate(row):
            for t in range(2):
                density = -abs(sent - messages[k][i][t]) / scales[k] - math.log(2 * scales[k])
                logs[k, i, t] = density + (logs[k - 1, i, t] if k else 0.0)
    return logs


def _run(
    table: Table,
    messages: list[list[list[float]]],
    o: list[list[float]],
    scales: list[float],
    *,
    values: dict[str, float],
    individual: tuple[float, ...],
    worst: tuple[float, ...],
) -> PlainRun:
    logs = _densities(messages, o, scales)
    known = np.array(messages)[..., None]
    return PlainRun(table, known, logs, np.array(scales), values, individual, worst)


def run_p1() -> PlainRun:
    """Two independent players, rule `ye`, no projection."""
    types, lr, scales = [(1.0, 2.0), (2.0, 0.5)], [0.5, 0.4], [1.0, 1.5, 2.0]
    o = [[0.7, -0.4], [-0.6, 0.9], [1.1, -1.3]]
    x = [[0.5, 0.5], [0.25, 0.25]]
    v = [row[:] for row in x]
    messages = [[row[:] for row in v]]
    for k in range(2):
        mean = (o[k][0] + o[k][1]) / 2
        for i in range(2):
            for t, (a, b) in enumerate(types):
                step = -lr[k] * (a - b * v[i][t])
                x[i][t] += step
                v[i][t] = mean + step
        messages.append([row[:] for row in v])
    return _run(
        product_table([[0.3, 0.7], [0.6, 0.4]]),
        messages,
        o,
        scales,
        values={
            "leakage": 0.1066564682015426,
            "evidence": -9.495264128897434,
            "theorem 1": 0.9028663060063089,
        },
        individual=(0.02451463410558621, 0.08214183409595643),
        worst=(0.0, 0.6193871939627303, 0.3963055723822174),
    )


def run_p2() -> PlainRun:
    """Three players of the correlated prior, rule `wang`, strategies kept in [0, 1]."""
    types, lr, gamma = [(0.8, -1.0), (-0.6, 0.5)], [0.6, 0.5], [0.9, 0.7]
    scales = [0.8, 0.6, 0.5]
    weights = {(0, 1): 0.4, (1, 0): 0.4, (1, 2): 0.3, (2, 1): 0.3}
    o = [[0.3, 0.6, 1.2], [0.9, -0.2, 0.4], [0.1, 0.8, 0.7]]
    x = [[start, start] for start in (0.5, 0.2, 0.9)]
    v = [row[:] for row in x]
    messages = [[row[:] for row in v]]
    for k in range(2):
        for i in range(3):
            pull = sum(w * (o[k][b] - o[k][a]) for (a, b), w in weights.items() if a == i)
            for t, (a_i, b_i) in enumerate(types):
                gradient = a_i - b_i * v[i][t] + 0.3 * (i + 1) * x[i][t]
                moved = min(1.0, max(0.0, x[i][t] - lr[k] * gradient))
                v[i][t] += gamma[k] * pull + moved - x[i][t]
                x[i][t] = moved
        messages.append([row[:] for row in v])
    return _run(
        correlated_table(3, 0.4, 0.7),
        messages,
        o,
        scales,
        values={
            "leakage": 1.421601171019146,
            "evidence": -7.918243395804884,
            "theorem 1": 2.937658962387078,
        },
        individual=(0.214531510430509, 0.1236432818873581, 0.4306356833972542),
        worst=(0.0, 1.803607396024794, 2.377338126110261),
    )
