"""What a solution of the coupled equations says, in numbers and in sentences."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk import HjbFpkSolution

MIDDLE: Final = (0.05, 0.95)
"""Between these quantiles of their strengths are the middle nine tenths of the clients."""
NOTABLE: Final = 1e-3
"""Smaller differences of strengths are not worth a sentence."""
ROUNDING: Final = 1e-9
INHABITED: Final = 0.01
"""States where a type's density, over its highest value at that time, is at least this."""


@dataclass(frozen=True)
class TypeSummary:
    """One type of clients.

    Attributes:
        beta: Its privacy preference.
        share: Of the population.
        strength_start: Its mean strength at time 0.
        strength_low: At time 0, the strength below which a twentieth of its clients are.
        strength_high: At time 0, the strength above which a twentieth of its clients are.
        strength_end: Its mean strength at time T.
        state_mean: Mean of its clients' states at time T.
        state_std: Their standard deviation.
    """

    beta: float
    share: float
    strength_start: float
    strength_low: float
    strength_high: float
    strength_end: float
    state_mean: float
    state_std: float


def masses(solution: HjbFpkSolution) -> FloatArray:
    """Return the probability of each cell, shape (types, steps + 1, points)."""
    return np.asarray(solution.mu * (solution.x[1] - solution.x[0]))


def type_strengths(solution: HjbFpkSolution) -> FloatArray:
    """Return each type's mean strength over time, shape (types, steps + 1)."""
    return np.asarray((masses(solution) * solution.s_star).sum(axis=-1))


def type_summaries(solution: HjbFpkSolution) -> list[TypeSummary]:
    """Return a summary of each type."""
    mass, strengths = masses(solution), type_strengths(solution)
    last = mass[:, -1]
    mean = last @ solution.x
    std = np.sqrt(np.maximum(last @ solution.x**2 - mean**2, 0.0))
    found = []
    for j, (beta, share) in enumerate(
        zip(solution.settings.betas, solution.settings.shares(), strict=True)
    ):
        low, high = _quantiles(solution.s_star[j, 0], mass[j, 0])
        found.append(
            TypeSummary(
                beta=beta,
                share=float(share),
                strength_start=float(strengths[j, 0]),
                strength_low=low,
                strength_high=high,
                strength_end=float(strengths[j, -1]),
                # what rounding leaves of 0 is 0
                state_mean=float(mean[j]) if abs(mean[j]) > ROUNDING * std[j] else 0.0,
                state_std=float(std[j]),
            )
        )
    return found


def _quantiles(values: FloatArray, mass: FloatArray) -> tuple[float, float]:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(mass[order])
    at = np.searchsorted(total, np.array(MIDDLE) * total[-1]).clip(max=len(values) - 1)
    return float(values[order[at[0]]]), float(values[order[at[1]]])


@dataclass(frozen=True)
class Fall:
    """A time and state at which the strength falls from one preference to a larger one."""

    t: float
    x: float
    beta: float
    strength: float
    larger_beta: float
    smaller_strength: float


def largest_fall(solution: HjbFpkSolution) -> Fall | None:
    """Return where the strength falls most from one preference to the next, None if nowhere.

    Only states where both types have clients count.
    """
    betas = np.array(solution.settings.betas)
    order = np.argsort(betas, kind="stable")
    inhabited = _inhabited(solution)[order]
    strength = solution.s_star[order]
    change = np.where(inhabited[1:] & inhabited[:-1], np.diff(strength, axis=0), 0.0)
    if not change.size or not change.min() < -NOTABLE:
        return None
    j, n, i = np.unravel_index(int(change.argmin()), change.shape)
    return Fall(
        t=float(solution.t[n]),
        x=float(solution.x[i]),
        beta=float(betas[order[j]]),
        strength=float(strength[j, n, i]),
        larger_beta=float(betas[order[j + 1]]),
        smaller_strength=float(strength[j + 1, n, i]),
    )


def _inhabited(solution: HjbFpkSolution) -> NDArray[np.bool_]:
    return np.asarray(solution.mu >= INHABITED * solution.mu.max(axis=-1, keepdims=True))


def notes(solution: HjbFpkSolution) -> list[str]:
    """Return what a reader of the numbers and figures must know, as sentences."""
    return [
        _no_single_strength(solution),
        _peaks(solution),
        _not_monotone(solution),
        "Near t = T everybody takes the largest strength: what noise does to the state no longer "
        "has time to cost anything, since V(T) = 0.",
        "Privacy costs β times the δ that the paper claims for a strength. It is no guarantee: its "
        "proof rests on an inequality that does not hold.",
    ]


def _no_single_strength(solution: HjbFpkSolution) -> str:
    claim = (
        "The MFPG paper (section 5.3) claims that clients of one preference β all have one "
        "constant strength. "
    )
    types = type_summaries(solution)
    widest = max(types, key=lambda kind: kind.strength_high - kind.strength_low)
    if widest.strength_high - widest.strength_low <= NOTABLE:
        return claim + (
            "In general it is not so here, since s* depends on the state and on the time left. In "
            "this solution it nearly is at t = 0, because the bounds on the strength bind."
        )
    return claim + (
        "It is not so here: s* depends on the state and on the time left, whatever β is. At t = 0 "
        f"the middle nine tenths of the clients with β = {widest.beta:.4g} have strengths from "
        f"{widest.strength_low:.4g} to {widest.strength_high:.4g}."
    )


def _peaks(solution: HjbFpkSolution) -> str:
    low = solution.settings.s_min
    rule = (
        f"Densities have sharp peaks where s* leaves its lower bound, s-min = {low:.4g}. They are "
        "no error of the grid: it is the product s* μ that is smooth, so that μ falls where s* "
        "rises."
    )
    if (_inhabited(solution) & (solution.s_star <= low)).any():
        return rule
    return f"{rule} In this solution s* does not reach that bound where clients are."


def _not_monotone(solution: HjbFpkSolution) -> str:
    rule = (
        "s* need not rise with β at every time and state: types differ in what they do later, and "
        "so in what noise costs them now. "
    )
    if len(solution.settings.betas) == 1:
        return rule.strip()
    fall = largest_fall(solution)
    if fall is None:
        return rule + f"Where clients are in this solution it falls by no more than {NOTABLE:g}."
    return rule + (
        f"At t = {fall.t:.4g}, x = {fall.x:.4g} it is {fall.strength:.4g} for β = {fall.beta:.4g} "
        f"and {fall.smaller_strength:.4g} for β = {fall.larger_beta:.4g}."
    )


def settings_table(solution: HjbFpkSolution) -> dict[str, Any]:
    """Return the settings by their TOML keys, without what only Python can give."""
    found: dict[str, Any] = {}
    for field in fields(solution.settings):
        value = getattr(solution.settings, field.name)
        if not callable(value) and value is not None:
            key = field.name.replace("_", "-")
            found[key] = list(value) if isinstance(value, tuple) else value
    return found
