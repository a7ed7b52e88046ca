"""Integrals of functions with jumps and with growth towards 0, against antiderivatives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame.games.best_response import FloatArray, IntArray
from fedgame.games.procurement.quadrature import integrals


class Pieces:
    """c_i z^power between jumps, c_i falling; counts its evaluations."""

    def __init__(self, power: float, jumps: list[float], factors: list[float]) -> None:
        self.power, self.jumps, self.factors = power, np.array(jumps), np.array(factors)
        self.nodes = 0

    def __call__(self, z: FloatArray) -> tuple[FloatArray, IntArray]:
        self.nodes += len(z)
        piece = np.searchsorted(self.jumps, z, side="right")
        values = self.factors[piece] * np.maximum(z, 1e-300) ** self.power
        return values, piece[:, None]

    def narrowed(self, low: float, high: float) -> Pieces:
        assert 0 <= low < high
        return self

    def integral(self, low: float, high: float) -> float:
        ends = np.clip([low, *self.jumps, high], low, high)
        primitive = ends ** (self.power + 1) / (self.power + 1)
        return float(np.diff(primitive) @ self.factors)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([0.0, -1 / 3, -0.5]),
    st.lists(st.floats(1e-6, 3), max_size=4, unique=True),
    st.lists(st.floats(0, 3), min_size=1, max_size=4),
)
def test_jumps_are_located(power: float, jumps: list[float], edges: list[float]) -> None:
    jumps.sort()
    function = Pieces(power, jumps, [2.0**-i for i in range(len(jumps) + 1)])
    limits = np.unique([*edges, 3.0])
    exact = [function.integral(*pair) for pair in pairwise(limits)]
    found = integrals(function, limits)
    assert found == pytest.approx(exact, rel=1e-11, abs=1e-12 * sum(exact))


def test_growth_towards_zero_takes_few_nodes() -> None:
    for power in (-0.5, -1 / 3):
        function = Pieces(power, [], [1.0])
        assert integrals(function, np.array([0.0, 1.0])) == pytest.approx(
            [1 / (power + 1)], rel=1e-12
        )
        assert function.nodes < 100


def test_one_jump_takes_a_few_thousand_nodes() -> None:
    function = Pieces(-1 / 3, [0.37], [1.0, 0.1])
    assert integrals(function, np.array([0.0, 1.0])) == pytest.approx(
        [function.integral(0, 1)], rel=1e-13
    )
    assert function.nodes < 2000


def test_close_jumps_are_told_apart() -> None:
    function = Pieces(0.0, [0.5, 0.5 + 1e-9, 0.7], [3.0, 2.0, 1.0, 0.0])
    assert integrals(function, np.array([0.0, 1.0]))[0] == pytest.approx(
        3 * 0.5 + 2 * 1e-9 + (0.2 - 1e-9), rel=1e-13
    )


class Kink:
    """A function that jumps although its label does not change."""

    def __call__(self, z: FloatArray) -> tuple[FloatArray, IntArray]:
        return np.where(z < 0.3, 2.0, 2.0 - z), np.zeros((len(z), 1), dtype=np.int64)

    def narrowed(self, low: float, high: float) -> Kink:
        assert low < high
        return self


def test_a_jump_without_a_label_is_approached_by_halving() -> None:
    exact = 0.6 + 2 * 0.7 - (1 - 0.09) / 2
    assert integrals(Kink(), np.array([0.0, 1.0])) == pytest.approx([exact], rel=1e-10)


def test_no_interval_no_integral() -> None:
    assert len(integrals(Pieces(0.0, [], [1.0]), np.array([0.4]))) == 0
