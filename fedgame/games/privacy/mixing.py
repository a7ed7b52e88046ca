"""Mixed answers of a population on a grid: which means they can have, and how to reach one."""

from __future__ import annotations

import numpy as np

from fedgame.games.best_response import BoolArray, FloatArray, IntArray


def population_mean(played: IntArray, grid: FloatArray, weights: FloatArray) -> float:
    """Return the mean action when each type plays one action, exact if all play the same.

    Args:
        played: Index of each type's action, shape (types,).
        grid: Shape (m,).
        weights: Share of each type, shape (types,); only their ratios matter.
    """
    shares = np.bincount(played, weights=weights, minlength=len(grid))
    return float(shares / shares.sum() @ grid)


def extreme_answers(answers: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the lowest and the highest marked action of each row, both of shape (types,)."""
    lowest = answers.argmax(axis=1)
    highest = answers.shape[1] - 1 - answers[:, ::-1].argmax(axis=1)
    return np.asarray(lowest, dtype=np.int64), np.asarray(highest, dtype=np.int64)


def mean_range(answers: BoolArray, grid: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Return the least and the greatest mean action that mixing over the answers can give.

    Mixing reaches every mean between the two: this interval is the set-valued best-response map of
    the population (MFPG paper, appendix C.4).

    Args:
        answers: The actions that each type may play, shape (types, m), at least one a row.
        grid: Shape (m,).
        weights: Share of each type, shape (types,); only their ratios matter.
    """
    lowest, highest = extreme_answers(answers)
    return population_mean(lowest, grid, weights), population_mean(highest, grid, weights)


def mix(answers: BoolArray, grid: FloatArray, weights: FloatArray, target: float) -> FloatArray:
    """Return mixed strategies over the answers whose population mean is the target.

    All types go the same fraction of the way from their lowest to their highest answer, and each
    mixes only the two of its answers that are nearest to where it gets.

    Args:
        answers: The actions that each type may play, shape (types, m), at least one a row.
        grid: Shape (m,).
        weights: Share of each type, shape (types,); only their ratios matter.
        target: The mean; one outside `mean_range` is moved to its nearer end.

    Returns:
        Probabilities, shape (types, m); rows sum to 1.
    """
    lowest, highest = extreme_answers(answers)
    least, greatest = mean_range(answers, grid, weights)
    way = min(max((target - least) / (greatest - least), 0.0), 1.0) if greatest > least else 0.0
    wanted = np.clip((1 - way) * grid[lowest] + way * grid[highest], grid[lowest], grid[highest])
    _, below = extreme_answers(answers & (grid <= wanted[:, None]))
    above, _ = extreme_answers(answers & (grid >= wanted[:, None]))
    gap = grid[above] - grid[below]
    share = np.where(gap > 0, (wanted - grid[below]) / np.where(gap > 0, gap, 1.0), 0.0)
    strategies = np.zeros(answers.shape)
    rows = np.arange(len(answers))
    strategies[rows, above] = share
    strategies[rows, below] += 1 - share
    return strategies
