"""The budget filter: whether a message may be sent, decided before its noise is drawn.

Once the transcript so far is fixed, what each type would send next is known, and so is the largest
leakage that any message could bring. A message is sent only where that stays within the budget R,
so that l(F -> o) <= R holds for every transcript, however the messages adapt, if the prior is
right. Every decision is a function of the transcript so far and of public data and so leaks nothing
itself; one that looked at a strategy or at the distance to equilibrium would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass as plain_dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedgame.accountants.pml_distances import check_scales, type_distances
from fedgame.accountants.pml_logs import BoolArray, FloatArray, log_sum
from fedgame.accountants.pml_prior import Prior

ROUNDING = 1e-9
"""What is kept back from the budget, in nats, since likelihoods are summed with rounding."""

DOUBLINGS = 20
"""How often a scale is doubled before the message is given up: a million times the planned noise.

Above that, what later messages add to such numbers is rounded by more than `ROUNDING`.
"""

RELATIVE_GAP = 1e-6
"""How closely, relatively, the smallest scale is found; the one returned fits."""

Worst = Callable[[FloatArray], FloatArray]
"""The largest leakage after the next message, as a function of its noise scale, both (...)."""


def simultaneous_worst(prior: Prior, log_likelihoods: ArrayLike, messages: ArrayLike) -> Worst:
    """Return the largest leakage after a round in which all players send at once.

    It is max_f -log sum_f' P(f') (L_f'/L_f) exp(-|v_f - v_f'|_1/M), reached at o = v_f. For
    products (sum_i of each player's own maximum) and tables it is that; for other priors the
    maximum does not separate over players, and it is a bound from above.

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t) of the transcript so far, shape (..., N, m).
        messages: v, what each type would send next without noise, shape (..., N, m, n).

    Raises:
        ValueError: The shapes do not fit.
    """
    logs = prior.checked(log_likelihoods)
    gaps = _distances(messages, logs)
    ratios = logs[..., None, :] - logs[..., :, None]

    def worst(scales: FloatArray) -> FloatArray:
        return -prior.log_floor(ratios - gaps / scales[..., None, None, None])

    return worst


def sequential_worst(
    prior: Prior, log_likelihoods: ArrayLike, player: int, messages: ArrayLike
) -> Worst:
    """Return the largest leakage after the message of one player alone, exactly for every prior.

    It is max_t { M_t - log sum_s W(s) exp(-|v_i(t) - v_i(s)|_1/M) } with M_t the largest log L_f
    over f_i = t, and W(s) the sum of P(f) L_f over f_i = s.

    Args:
        prior: What everybody knows about the types.
        log_likelihoods: log L_i(t) of the transcript so far, the messages of this round that were
            sent before included, shape (..., N, m).
        player: i.
        messages: v_i, what each of its types would send, shape (..., m, n).

    Raises:
        ValueError: The shapes do not fit, or there is no such player.
    """
    logs = prior.centred(log_likelihoods)
    if not 0 <= player < prior.num_players:
        raise ValueError(f"player = {player}: must be from 0 to {prior.num_players - 1}")
    possible = prior.support[player]
    gaps = _distances(messages, logs[..., player, :])[..., possible, :][..., possible]
    joint = prior.log_joint_by_type(logs)[..., player, possible]
    top = prior.max_by_type(logs)[..., player, possible]

    def worst(scales: FloatArray) -> FloatArray:
        mixed = log_sum(joint[..., None, :] - gaps / scales[..., None, None], axis=-1)
        return np.asarray((top - mixed).max(axis=-1))

    return worst


@plain_dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What may be sent.

    Attributes:
        send: Whether, shape (...).
        scales: M of the noise that a message needs, shape (...); the planned one where it must not
            be sent.
        worst: The largest leakage that it can bring with that noise, in nats, shape (...).
    """

    send: BoolArray
    scales: FloatArray
    worst: FloatArray


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class PmlFilter:
    """The section [pml-filter]: never leak more than a budget.

    Attributes:
        budget: R > 0, in nats.
        action: What to do where the planned noise could leak more than the budget: "stop" sends
            nothing, "raise-noise" sends with the smallest larger scale that fits, which there is as
            long as the leakage so far is below the budget (and at most a million times the plan);
            it is greedy: one message may use up nearly all that is left; "measure" enforces nothing
            and sends everything.
        order: Whether players send all at once ("simultaneous"), or one after the other, each
            decision knowing the messages before it ("sequential"); "auto" is simultaneous for
            independent types and sequential for all others, for which only that is exact.
    """

    name: ClassVar[str] = "pml-filter"

    budget: float = Field(default=2.0, gt=0)
    action: Literal["stop", "raise-noise", "measure"] = "stop"
    order: Literal["auto", "simultaneous", "sequential"] = "auto"

    def is_sequential(self, prior: Prior) -> bool:
        """Return whether players send one after the other."""
        if self.action == "measure":
            return False
        return self.order == "sequential" or (self.order == "auto" and not prior.is_product)

    def decide_round(
        self, prior: Prior, log_likelihoods: ArrayLike, messages: ArrayLike, planned: ArrayLike
    ) -> Decision:
        """Decide about the next messages of all players, which are sent at once or not at all.

        Args:
            prior: What everybody knows about the types.
            log_likelihoods: log L_i(t) of the transcript so far, shape (..., N, m); leading axes
                are transcripts, decided about one by one.
            messages: v, what each type would send next without noise, shape (..., N, m, n).
            planned: M > 0, broadcast to (...).

        Raises:
            ValueError: The shapes do not fit, or a scale is not finite and > 0.
        """
        worst = simultaneous_worst(prior, log_likelihoods, messages)
        return self._decide(worst, planned, np.shape(log_likelihoods)[:-2])

    def decide_player(
        self,
        prior: Prior,
        log_likelihoods: ArrayLike,
        player: int,
        messages: ArrayLike,
        planned: ArrayLike,
    ) -> Decision:
        """Decide about the next message of one player.

        Args:
            prior: What everybody knows about the types.
            log_likelihoods: log L_i(t) of all messages sent so far, shape (..., N, m).
            player: i.
            messages: v_i, what each of its types would send, shape (..., m, n).
            planned: M > 0, broadcast to (...).

        Raises:
            ValueError: The shapes do not fit, a scale is not finite and > 0, or there is no such
                player.
        """
        worst = sequential_worst(prior, log_likelihoods, player, messages)
        return self._decide(worst, planned, np.shape(log_likelihoods)[:-2])

    def _decide(self, worst: Worst, planned: ArrayLike, shape: tuple[int, ...]) -> Decision:
        limit = self.budget - ROUNDING
        scales = np.broadcast_to(check_scales(planned), shape)
        if self.action == "raise-noise":
            scales = smallest_scales(worst, scales, limit)
        leakage = np.asarray(worst(scales))
        send = (leakage <= limit) | (self.action == "measure")
        return Decision(np.asarray(send), scales, leakage)


def smallest_scales(worst: Worst, planned: FloatArray, limit: float) -> FloatArray:
    """Return the smallest scale from the planned one on whose worst leakage is within the limit.

    The worst leakage falls as the scale grows, towards the leakage so far.

    Args:
        worst: Falls in the scale, which has the shape (...).
        planned: Shape (...).
        limit: In nats.

    Returns:
        Shape (...); it fits and is within 1e-6 of the smallest one, relatively; the planned scale
        where even a million times as much noise does not fit.
    """
    low = high = planned
    for _ in range(DOUBLINGS):
        fits = worst(high) <= limit
        if fits.all():
            break
        low, high = np.where(fits, low, high), np.where(fits, high, 2 * high)
    reached = worst(high) <= limit
    high = np.where(reached, high, planned)
    low = np.where(reached, low, planned)
    while np.any(high - low > RELATIVE_GAP * low):
        middle = (low + high) / 2
        fits = worst(middle) <= limit
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return np.asarray(high)


def _distances(messages: ArrayLike, logs: FloatArray) -> FloatArray:
    """Return L1 distances between types' messages, shape (..., m, m), checked against `logs`."""
    v = np.asarray(messages, dtype=np.float64)
    if v.shape[:-1] != logs.shape:
        raise ValueError(
            f"messages of shape {v.shape}: must be {(*logs.shape, 'dimensions')} for these "
            "likelihoods"
        )
    return type_distances(v)
