"""What everybody knows about the players' types: a prior on profiles, as a mixture of products.

Independent types are one product. The correlated prior of the PML paper (8), any mixture and any
explicit table are mixtures too, with positive weights only, so that the same few sums in log space
serve them all and nothing ever cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fedgame.accountants.pml_logs import BoolArray, FloatArray, IntArray, largest, log_of, log_sum

SUM_TOLERANCE = 1e-9
"""How far from 1 probabilities may sum by rounding; they are then rescaled."""


@dataclass(frozen=True, eq=False)
class Prior:
    """P(f) = sum_c weights[c] prod_i probabilities[c, i, f_i]; `pml_prior_forms` makes them.

    With L_i(t) the likelihood of player i's part of a transcript if its type is t, and m types,
    every method costs O(components N m) for each transcript, and is exact, except where it says
    otherwise. Leading axes of an argument are transcripts, or iterations of them.

    Attributes:
        weights: Shape (components,), > 0, sum 1.
        probabilities: Shape (components, N, m): each player's distribution over its types in each
            component; >= 0, each sums to 1 along the last axis.
    """

    weights: FloatArray
    probabilities: FloatArray

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        probabilities = np.asarray(self.probabilities, dtype=np.float64)
        shape = probabilities.shape
        if probabilities.ndim != 3 or 0 in shape or weights.shape != shape[:1]:
            raise ValueError(
                f"probabilities of shape {shape} for weights of shape {weights.shape}: must be "
                "(components, players, types) for (components,), none of them 0"
            )
        _check_distributions(weights, "weights", ())
        if len(weights) == 1:
            _check_distributions(probabilities[0], "prior", ("player",))
        else:
            _check_distributions(probabilities, "prior", ("component", "player"))
        kept = weights > 0
        weights, probabilities = weights[kept], probabilities[kept]
        object.__setattr__(self, "weights", weights / weights.sum())
        scaled = probabilities / probabilities.sum(axis=-1, keepdims=True)
        object.__setattr__(self, "probabilities", scaled)

    @property
    def num_players(self) -> int:
        """How many players there are, N."""
        return int(self.probabilities.shape[1])

    @property
    def num_types(self) -> int:
        """How many types a player can have, m."""
        return int(self.probabilities.shape[2])

    @property
    def is_product(self) -> bool:
        """Whether it was given as one product, so that types are independent."""
        return len(self.weights) == 1

    @property
    def floor_is_exact(self) -> bool:
        """Whether `log_floor` is the minimum itself and not only below it."""
        return self.is_product or bool(np.all(self.supports.sum(axis=-1) == 1))

    @cached_property
    def support(self) -> BoolArray:
        """Whether a player can have a type, shape (N, m)."""
        return np.asarray(np.any(self.probabilities > 0, axis=0))

    @cached_property
    def supports(self) -> BoolArray:
        """The boxes of types whose union is the support of the prior, shape (boxes, N, m).

        Boxes within another one are left out.
        """
        if self.is_product:
            return self.probabilities > 0
        boxes = np.unique(self.probabilities > 0, axis=0)
        flat = boxes.reshape(len(boxes), -1).astype(np.float64)
        within = flat @ (1 - flat).T == 0
        np.fill_diagonal(within, val=False)
        return np.asarray(boxes[~within.any(axis=1)])

    @cached_property
    def log_marginals(self) -> FloatArray:
        """Logarithms of P(F_i = t), shape (N, m); -inf outside the support."""
        return log_of(np.einsum("c,cit->it", self.weights, self.probabilities))

    @cached_property
    def log_smallest(self) -> float:
        """A number that log P(f) is never below on the support; the minimum if the floor is exact.

        It is the minimum as well for the correlated prior of the PML paper (8).
        """
        same = log_of(np.eye(self.num_types))
        return float(self.log_floor(np.broadcast_to(same, (self.num_players, *same.shape))))

    def log_evidence(self, log_likelihoods: ArrayLike) -> FloatArray:
        """Return log sum_f P(f) prod_i L_i(f_i), shape (...).

        Args:
            log_likelihoods: log L_i(t), shape (..., N, m).

        Raises:
            ValueError: The shape does not fit, or a value is not finite.
        """
        parts = self._parts(self.checked(log_likelihoods))
        return log_sum(parts.sum(axis=-1) + self._log_weights, axis=-1)

    def log_joint_by_type(self, log_likelihoods: ArrayLike) -> FloatArray:
        """Return log W_i(t), W_i(t) = sum of P(f) prod_j L_j(f_j) over the f with f_i = t.

        Args:
            log_likelihoods: log L_i(t), shape (..., N, m).

        Returns:
            Shape (..., N, m), -inf outside the support.

        Raises:
            ValueError: The shape does not fit, or a value is not finite.
        """
        logs = self.checked(log_likelihoods)
        parts = self._parts(logs)
        whole = parts.sum(axis=-1) + self._log_weights
        others = whole[..., None] - parts
        return log_sum(others[..., None] + self._log_probabilities, axis=-3) + logs

    def max_by_type(self, log_likelihoods: ArrayLike) -> FloatArray:
        """Return the maximum of sum_j log L_j(f_j) over the f of the support with f_i = t.

        Args:
            log_likelihoods: log L_i(t), shape (..., N, m).

        Returns:
            Shape (..., N, m), -inf outside the support.

        Raises:
            ValueError: The shape does not fit, or a value is not finite.
        """
        logs = self.checked(log_likelihoods)[..., None, :, :]
        inside = np.where(self.supports, logs, -np.inf)
        best = largest(inside, -1)
        others = best.sum(axis=-1, keepdims=True) - best
        return largest(inside + others[..., None], -3)

    def max_log_likelihood(self, log_likelihoods: ArrayLike) -> FloatArray:
        """Return the maximum of sum_i log L_i(f_i) over the f of the support, shape (...).

        Args:
            log_likelihoods: log L_i(t), shape (..., N, m).

        Raises:
            ValueError: The shape does not fit, or a value is not finite.
        """
        logs = self.checked(log_likelihoods)[..., None, :, :]
        best = largest(np.where(self.supports, logs, -np.inf), -1)
        return largest(best.sum(axis=-1), -1)

    def log_floor(self, log_kernel: FloatArray) -> FloatArray:
        """Return a number below log sum_f P(f) prod_i K_i(f'_i, f_i) for every f' of the support.

        For a product, and for a table, it is the minimum over f'. Otherwise the minimum does not
        separate over players, and the number is the sum over components of each component's own
        minimum, which is below it; in each box of the support by itself, so that it is exact where
        K_i(s, t) depends on s by a factor only.

        Args:
            log_kernel: log K_i(s, t) with s the type in f' and t the type in f, shape
                (..., N, m, m); -inf is allowed.

        Returns:
            Shape (...).
        """
        weighted = self._log_probabilities[..., None, :] + log_kernel[..., None, :, :, :]
        summed = log_sum(weighted, axis=-1)
        floors = []
        for box in self.supports:
            least = np.where(box, summed, np.inf).min(axis=-1)
            floors.append(log_sum(least.sum(axis=-1) + self._log_weights, axis=-1))
        return np.asarray(np.min(floors, axis=0))

    def log_probability(self, profiles: ArrayLike) -> FloatArray:
        """Return log P(f) of profiles.

        Args:
            profiles: Types, whole numbers from 0 to m - 1, shape (..., N).

        Raises:
            ValueError: A type does not exist, or the prior gives the profile no probability.
        """
        types = np.asarray(profiles)
        if types.shape[-1:] != (self.num_players,) or types.dtype.kind not in "iu":
            raise ValueError(
                f"profiles of shape {types.shape} and kind {types.dtype}: must be whole numbers of "
                f"shape (..., {self.num_players})"
            )
        outside = (types < 0) | (types >= self.num_types)
        players = np.arange(self.num_players)
        outside |= ~self.support[players, np.where(outside, 0, types)]
        if outside.any():
            where = tuple(np.argwhere(outside)[0])
            raise ValueError(
                f"type of player {where[-1]} = {types[where]}: must be one of "
                f"{np.flatnonzero(self.support[where[-1]]).tolist()}, to which the prior gives "
                "probability"
            )
        parts = self._log_probabilities[:, players, types].sum(axis=-1)
        logs = log_sum(np.moveaxis(parts, 0, -1) + self._log_weights, axis=-1)
        if np.isneginf(logs).any():
            where = tuple(np.argwhere(np.isneginf(logs))[0])
            raise ValueError(f"profile = {types[where].tolist()}: the prior gives it probability 0")
        return logs

    def draw(self, rng: np.random.Generator, count: int) -> IntArray:
        """Draw `count` profiles, shape (count, N)."""
        component = rng.choice(len(self.weights), size=count, p=self.weights)
        cumulative = np.cumsum(self.probabilities, axis=-1)
        # dividing makes it exactly 1 from the last possible type on
        cumulative = (cumulative / cumulative[..., -1:])[component, :, :-1]
        uniform = rng.random((count, self.num_players, 1))
        return np.asarray((uniform >= cumulative).sum(axis=-1), dtype=np.int64)

    def checked(self, log_likelihoods: ArrayLike) -> FloatArray:
        """Return log-likelihoods as an array of shape (..., N, m).

        Raises:
            ValueError: The shape does not fit, or a value is not finite.
        """
        logs = np.asarray(log_likelihoods, dtype=np.float64)
        expected = (self.num_players, self.num_types)
        if logs.shape[-2:] != expected:
            raise ValueError(
                f"log_likelihoods of shape {logs.shape}: the last two axes must be (players, "
                f"types) = {expected}"
            )
        if not np.isfinite(logs).all():
            where = tuple(int(index) for index in np.argwhere(~np.isfinite(logs))[0])
            raise ValueError(f"log_likelihoods at {where} = {logs[where]}: must be finite")
        return logs

    def centred(self, log_likelihoods: ArrayLike) -> FloatArray:
        """Return log-likelihoods less each player's largest over the types that it can have.

        Differences between profiles stay as they are, and none is one of large numbers any more.

        Args:
            log_likelihoods: log L_i(t), shape (..., N, m).

        Raises:
            ValueError: The shape does not fit, or a value is not finite.
        """
        logs = self.checked(log_likelihoods)
        tops = largest(np.where(self.support, logs, -np.inf), -1)
        return np.asarray(logs - tops[..., None])

    @cached_property
    def _log_weights(self) -> FloatArray:
        return np.asarray(np.log(self.weights))

    @cached_property
    def _log_probabilities(self) -> FloatArray:
        return log_of(self.probabilities)

    def _parts(self, logs: FloatArray) -> FloatArray:
        """Return log sum_t probabilities[c, i, t] L_i(t), shape (..., components, N)."""
        return log_sum(self._log_probabilities + logs[..., None, :, :], axis=-1)


def _check_distributions(values: FloatArray, what: str, axes: tuple[str, ...]) -> None:
    """Refuse rows, along the last axis, that are no distributions; name the first one."""
    sums = values.sum(axis=-1)
    bad = ~(np.abs(sums - 1) <= SUM_TOLERANCE) | ~(values >= 0).all(axis=-1)
    if bad.any():
        where = tuple(np.argwhere(bad)[0])
        place = ", ".join(f"{axis} {index}" for axis, index in zip(axes, where, strict=True))
        raise ValueError(
            f"{what}{' of ' if place else ''}{place} = {values[where].tolist()}: must be >= 0 and "
            f"sum to 1, not {sums[where]:.10g}"
        )
