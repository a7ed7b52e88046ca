"""The stationary point and the descent, against the cost as printed, differentiated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from fedgame.games.privacy.output_perturbation import output_perturbation_collapse

CLIENTS, BETA = 3, 0.4


def test_the_stationary_point_has_no_perturbation_and_is_no_minimum() -> None:
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(20, 4)), rng.normal(size=20)
    others = rng.normal(size=4)
    distances = np.array([0.0, 1e-2, 1.0, 10.0, 1e3, 1e6])

    found = output_perturbation_collapse(features, targets, others, CLIENTS, BETA, distances)

    def cost(point: np.ndarray) -> float:
        """The cost as the paper prints it, of (w_k, delta_k) in one vector."""
        total = sum(
            (float(x @ (point[:4] + point[4:] + others)) / CLIENTS - y) ** 2
            for x, y in zip(features, targets, strict=True)
        )
        return float(total) / (2 * len(targets)) - BETA * float(np.sum(point[4:] ** 2))

    stationary = np.concatenate([found.weights, np.zeros(4)])
    assert found.gradient_norm < 1e-14
    np.testing.assert_allclose(approx_fprime(stationary, cost, 1e-6), 0.0, atol=1e-6)
    best = cost(stationary)
    np.testing.assert_allclose(found.costs, best - BETA * distances**2, rtol=1e-12)
    # Up in one direction, down in another: a saddle.
    assert cost(stationary + np.eye(8)[0]) > best > cost(stationary + np.eye(8)[4] - np.eye(8)[0])
    # No point with a perturbation is stationary: along it the cost always has a slope.
    perturbed = stationary + np.eye(8)[5] - np.eye(8)[1]
    assert np.abs(approx_fprime(perturbed, cost, 1e-6)).max() > BETA


@pytest.mark.parametrize(("clients", "beta"), [(3, 0.0), (3, np.nan), (0, 1.0)])
def test_no_reward_or_no_client_is_refused(clients: int, beta: float) -> None:
    data = np.eye(2), np.ones(2), np.zeros(2)
    with pytest.raises(ValueError, match=r"beta = |num_clients = 0"):
        output_perturbation_collapse(*data, clients, beta, np.ones(1))
