"""How far apart the messages of a player's types are, over the noise (PML paper, Lemma 3).

Along a given transcript they are simply computed. Over all transcripts they are bounded where the
gradients or the sets are, or else estimated on a sample; `Source` says which, and every bound that
is built on them carries it on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml_logs import FloatArray


@dataclass(frozen=True, slots=True)
class Source:
    """Where distances come from, and so what a bound built on them is worth.

    Attributes:
        rigorous: False for an estimate.
        covers: Whether they are those of one transcript, or meant for every transcript.
        text: One clause for reports.
    """

    rigorous: bool
    covers: Literal["this transcript", "every transcript"]
    text: str

    @property
    def worth(self) -> Literal["rigorous", "estimate", "no bound"]:
        """What a bound built on them is: along one transcript nothing has to be estimated."""
        if self.rigorous:
            return "rigorous"
        return "estimate" if self.covers == "every transcript" else "no bound"


REALISED = Source(
    rigorous=True,
    covers="this transcript",
    text="what each type would have sent along this transcript",
)


def sampled(count: int) -> Source:
    """Return the source of the largest distances found on `count` >= 1 sampled transcripts."""
    if count < 1:
        raise ValueError(f"count = {count}: must be at least 1")
    text = f"the largest found on {count} sampled transcripts"
    return Source(rigorous=False, covers="every transcript", text=text)


def closed_form(text: str) -> Source:
    """Return the source of distances that hold for every transcript, by the argument `text`."""
    return Source(rigorous=True, covers="every transcript", text=text)


def message_distances(
    messages: ArrayLike, scales: ArrayLike, sent: ArrayLike | None = None
) -> FloatArray:
    """Return |v_i(s) - v_i(t)|_1 / M for all pairs of types.

    Args:
        messages: v, what each type would send without noise, shape (..., K, N, m, n).
        scales: M > 0, of the Laplace noise of each coordinate: a number, shape (K,), or
            (..., K, N).
        sent: Which messages were sent, shape (..., K, N); by default all. The others tell nothing.

    Returns:
        Shape (..., K, N, m, m), symmetric, 0 on the diagonal.

    Raises:
        ValueError: A scale is not finite and > 0, or the shapes do not fit.

    >>> message_distances([[[[0.0], [3.0]]]], 1.5).tolist()
    [[[[0.0, 2.0], [2.0, 0.0]]]]
    """
    v = np.asarray(messages, dtype=np.float64)
    if v.ndim < 4:
        raise ValueError(
            f"messages of shape {v.shape}: must be (.., iterations, players, types, dimensions)"
        )
    m = check_scales(scales)
    m = m[:, None] if m.ndim == 1 else m
    try:
        ratios = type_distances(v) / np.broadcast_to(m, v.shape[:-2])[..., None, None]
    except ValueError:
        raise ValueError(
            f"noise scales of shape {np.shape(scales)}: must be a number, (iterations,) or "
            f"(.., iterations, players) for messages of shape {v.shape}"
        ) from None
    if sent is None:
        return ratios
    return np.where(np.asarray(sent)[..., None, None], ratios, 0.0)


def type_distances(messages: FloatArray) -> FloatArray:
    """Return L1 distances |v(s) - v(t)|_1 between types, (..., m, m) for v of (..., m, n)."""
    return np.asarray(np.abs(messages[..., :, None, :] - messages[..., None, :, :]).sum(axis=-1))


def check_scales(scales: ArrayLike) -> FloatArray:
    """Return noise scales as an array.

    Raises:
        ValueError: One is not finite and > 0.
    """
    m = np.asarray(scales, dtype=np.float64)
    bad = ~(np.isfinite(m) & (m > 0))
    if bad.any():
        raise ValueError(f"noise scale = {m[bad].flat[0]}: must be finite and > 0")
    return m


def gradient_sensitivities(
    step_sizes: ArrayLike,
    gradient_bound: float,
    rule: Literal["ye", "wang"],
    *,
    projection_factor: float = 1.0,
    diameter: float = math.inf,
) -> FloatArray:
    """Return how far apart two types' messages of one player can be, for every transcript.

    A step is lr F, projected: |x_k+1 - x_k|_1 <= factor lr_k C, since x_k lies in the set. Under
    `ye` two types' messages differ by their last steps, at most 2 factor lr_k-1 C (PML paper,
    Example 1, for one player); under `wang` by their strategies, so by all steps so far. Message 0
    is the same for all types.

    Args:
        step_sizes: lr_0, .., lr_K-1, >= 0; the last one plays no role, message K being the first
            that it moves.
        gradient_bound: C >= 0 with |F_i|_1 <= C for every type, strategy and estimate; infinite if
            there is none, which leaves the diameter.
        rule: How the estimate is updated.
        projection_factor: By how much the projection multiplies L1 distances at most: 1 without
            one or on a box, `simplex_factor(n)` on the probability simplex.
        diameter: Largest L1 distance of two strategies, where the set is bounded: two types'
            strategies are no farther apart than that, and their steps no more than twice that.

    Returns:
        Shape (K,), of the messages 0 to K-1.

    Raises:
        ValueError: An argument is out of range, or nothing bounds the messages.
    """
    steps = np.asarray(step_sizes, dtype=np.float64)
    if steps.ndim != 1 or not (np.isfinite(steps) & (steps >= 0)).all():
        raise ValueError("step sizes: must be a list of finite numbers >= 0")
    limits = {"projection_factor": projection_factor, "diameter": diameter}
    for name, value in {"gradient_bound": gradient_bound, **limits}.items():
        if not value >= 0:
            raise ValueError(f"{name} = {value}: must be >= 0")
    if math.isinf(gradient_bound) and math.isinf(diameter):
        raise ValueError("gradient_bound and diameter: one of them must be finite")
    before = np.append(0.0, steps)[: len(steps)]
    reach = 2 * projection_factor * gradient_bound if projection_factor else 0.0
    moves = np.where(before > 0, reach, 0.0) * before
    if rule == "ye":
        return np.asarray(np.where(before > 0, np.minimum(moves, 2 * diameter), 0.0))
    return np.asarray(np.minimum(np.cumsum(moves), diameter))


def simplex_factor(dimension: int) -> float:
    """Return 2 (1 - 1/n), by which projecting on the simplex stretches L1 distances at most.

    Its derivative is, on a face of s vertices, the identity minus 1/s everywhere, whose columns
    have the absolute sum 2 (1 - 1/s).

    Raises:
        ValueError: n < 1.
    """
    if dimension < 1:
        raise ValueError(f"dimension = {dimension}: must be at least 1")
    return 2 * (1 - 1 / dimension)


def bounded_distances(
    sensitivities: ArrayLike, scales: ArrayLike, num_players: int, num_types: int
) -> FloatArray:
    """Return distances over the noise where any two types of a player are that far apart.

    Args:
        sensitivities: One player's, as from `gradient_sensitivities`, shape (K,).
        scales: M > 0, shape (K,) or a number.
        num_players: N.
        num_types: m.

    Returns:
        Shape (K, N, m, m), read-only.

    Raises:
        ValueError: A scale is not finite and > 0, or the shapes do not fit.
    """
    sizes = np.asarray(sensitivities, dtype=np.float64)
    ratios = sizes / check_scales(scales)
    pairs = ratios[:, None, None, None] * (1 - np.eye(num_types))
    return np.broadcast_to(pairs, (len(sizes), num_players, num_types, num_types))
