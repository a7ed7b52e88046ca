"""Why a game over perturbations of the output has no equilibrium (MFPG paper, 4.3 and C.3).

Client k picks its weights w_k and a perturbation delta_k, the server averages W = mean_j(w_j +
delta_j), and the client's cost is its squared loss at W minus beta_k |delta_k|^2. The paper shows
that a stationary point has delta_k = 0, and calls it the Nash point. It is a saddle: the loss sees
the sum w_k + delta_k alone, so that what the perturbation adds the weights can take away, while the
reward for perturbing grows without end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgame.games.best_response import FloatArray


@dataclass(frozen=True)
class Collapse:
    """The stationary point of one client's problem, and the way down from it.

    Attributes:
        weights: w_k of the stationary point, shape (features,); its delta_k is 0.
        gradient_norm: Norm of the cost's gradient in w_k there, which at delta_k = 0 is that in
            delta_k too: 0 up to rounding.
        costs: Cost at (w_k - t e, t e), e the first coordinate's unit vector, for each distance t,
            shape (distances,): the cost at the stationary point minus beta t^2.
    """

    weights: FloatArray
    gradient_norm: float
    costs: FloatArray


def output_perturbation_collapse(
    features: FloatArray,
    targets: FloatArray,
    others: FloatArray,
    num_clients: int,
    beta: float,
    distances: FloatArray,
) -> Collapse:
    """Exhibit the collapse for one client while all others keep what they play.

    Args:
        features: The client's examples, shape (examples, features).
        targets: Their targets, shape (examples,).
        others: Sum of w_j + delta_j over the other clients, shape (features,).
        num_clients: K >= 1, clients that the server averages.
        beta: Reward for one unit of |delta_k|^2, > 0.
        distances: How far to walk, shape (distances,).

    Returns:
        The stationary point, and costs that are unbounded below as the distance grows.

    Raises:
        ValueError: beta is not positive, or there is no client.

    >>> data = np.array([[1.0], [2.0]]), np.array([1.0, 2.0])
    >>> found = output_perturbation_collapse(*data, np.zeros(1), 1, 0.5, np.array([0.0, 10.0]))
    >>> (found.costs + 0.0).round(9).tolist()
    [0.0, -50.0]
    """
    if not (beta > 0 and np.isfinite(beta)):
        raise ValueError(f"beta = {beta}: must be finite and > 0")
    if num_clients < 1:
        raise ValueError(f"num_clients = {num_clients}: must be at least 1")

    def residuals(weights: FloatArray, perturbation: FloatArray) -> FloatArray:
        averaged = (weights + perturbation + others) / num_clients
        return np.asarray(features @ averaged - targets)

    def cost(weights: FloatArray, perturbation: FloatArray) -> float:
        loss = np.mean(residuals(weights, perturbation) ** 2) / 2
        return float(loss - beta * (perturbation @ perturbation))

    optimum = np.linalg.lstsq(features, targets, rcond=None)[0]
    weights = num_clients * optimum - others
    nothing = np.zeros_like(weights)
    slope = features.T @ residuals(weights, nothing) / (len(targets) * num_clients)
    away = np.eye(1, len(weights))[0]
    return Collapse(
        weights=weights,
        gradient_norm=float(np.linalg.norm(slope)),
        costs=np.array([cost(weights - t * away, t * away) for t in distances]),
    )
