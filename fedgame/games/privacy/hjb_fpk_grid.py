"""The grid of states and the controlled Markov chain on it that approximates the state.

Cells of width h have centres x_i; m_i is the probability of cell i over h. The chain jumps from
cell i to the right at rate s_i B(z)/h^2 - c/(2 h) + k/h^2 and to the left at
s_i B(-z)/h^2 + c/(2 h) + k/h^2, where the jump crosses the interface x_(i+1/2) or x_(i-1/2) with
z = h x/sigma0^2 (Scharfetter-Gummel, B the Bernoulli function), c = loss' + lambda (x - xbar)
(central), and k the least diffusion that keeps both rates >= 0 at the smallest strength: 0 as soon
as h |c| <= 2 s_min B. The rates are affine in the cell's own strength, so the closed-form control
is the exact minimiser of the discrete Hamiltonian; second order in h where k = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_banded

from fedgame.games.best_response import FloatArray
from fedgame.games.privacy.hjb_fpk_settings import HjbFpk


def bernoulli(z: FloatArray) -> FloatArray:
    """Return B(z) = z/(exp(z) - 1) with B(0) = 1; positive and decreasing.

    >>> bernoulli(np.array([0.0, 1e-300, 2.0])).round(12).tolist()
    [1.0, 1.0, 0.313035285499]
    """
    # Below 1e-300 exp(z) - 1 may be 0; above 700 exp overflows and B is less than 1e-301 anyway.
    safe = np.clip(np.where(np.abs(z) < 1e-200, 1e-200, z), None, 700.0)
    return np.asarray(safe / np.expm1(safe))


@dataclass(frozen=True)
class Rates:
    """Rates of the jumps to the neighbouring cells, in 1/time.

    Attributes:
        right: From each cell to the next, shape (..., points); 0 for the last cell.
        left: From each cell to the one before, same shape; 0 for the first cell.
    """

    right: FloatArray
    left: FloatArray

    def times(self, strength: FloatArray, fixed: Rates) -> Rates:
        """Return strength times these rates plus `fixed`; rounding does not make it negative."""
        return Rates(
            np.maximum(strength * self.right + fixed.right, 0.0),
            np.maximum(strength * self.left + fixed.left, 0.0),
        )

    def generator(self, values: FloatArray) -> FloatArray:
        """Apply the chain's generator to a function of the state, shape (..., points)."""
        steps = np.diff(values)
        result = np.zeros(np.broadcast_shapes(values.shape, self.right.shape))
        result[..., :-1] += self.right[..., :-1] * steps
        result[..., 1:] -= self.left[..., 1:] * steps
        return result

    def implicit_step(self, known: FloatArray, dt: float, *, forward: bool) -> FloatArray:
        """Solve one implicit Euler step, (I - dt A) y = known, for all types at once.

        Args:
            known: The right-hand side, shape (types, points).
            dt: Length of the step.
            forward: Take the transpose of A, which moves densities and keeps their sum; otherwise
                A, which moves values backward in time.
        """
        up, down = (self.left, self.right) if forward else (self.right, self.left)
        # The last entry of one type's row and the first of the next are coupled by a rate of 0, so
        # that the types are blocks of one tridiagonal system.
        bands = np.zeros((3, known.size))
        bands[1] = (1 + dt * (self.right + self.left)).ravel()
        above, below = np.zeros(known.shape), np.zeros(known.shape)
        above[:, 1:] = up[:, 1:] if forward else up[:, :-1]
        below[:, :-1] = down[:, :-1] if forward else down[:, 1:]
        bands[0], bands[2] = -dt * above.ravel(), -dt * below.ravel()
        solved = solve_banded((1, 1), bands, known.ravel(), check_finite=False, overwrite_ab=True)
        return np.asarray(solved).reshape(known.shape)


@dataclass(frozen=True)
class Grid:
    """The cells, and all that does not change from step to step.

    Attributes:
        x: Centres of the cells, shape (points,).
        t: Times 0 to T, shape (steps + 1,).
        width: Width of a cell.
        dt: Length of a time step.
        loss: Loss at the centres, shape (points,).
        per_strength: Rates at strength 1 of diffusion and prior, shape (points,).
        slope: Slope of the loss across each interface, shape (points - 1,).
    """

    x: FloatArray
    t: FloatArray
    width: float
    dt: float
    loss: FloatArray
    per_strength: Rates
    slope: FloatArray

    @property
    def interfaces(self) -> FloatArray:
        """Return the states between neighbouring cells, shape (points - 1,)."""
        return np.asarray((self.x[1:] + self.x[:-1]) / 2)

    def fixed_rates(self, settings: HjbFpk, mean_state: float) -> tuple[Rates, FloatArray]:
        """Return the rates that no strength changes, and the added diffusion k.

        Args:
            settings: The settings.
            mean_state: xbar.

        Returns:
            Rates of shape (points,), and k at the interfaces, shape (points - 1,).
        """
        pull = self.slope + settings.variance_penalty * (self.interfaces - mean_state)
        half = pull * self.width / 2
        least_right = settings.s_min * self.width**2 * self.per_strength.right[:-1]
        least_left = settings.s_min * self.width**2 * self.per_strength.left[1:]
        added = np.maximum(np.maximum(half - least_right, -half - least_left), 0.0)
        right, left = np.zeros_like(self.x), np.zeros_like(self.x)
        right[:-1] = (added - half) / self.width**2
        left[1:] = (added + half) / self.width**2
        return Rates(right, left), added


def make_grid(settings: HjbFpk) -> Grid:
    """Return the grid of the settings.

    Raises:
        ValueError: The loss is not finite somewhere on it.
    """
    edges = np.linspace(settings.x_min, settings.x_max, settings.points + 1)
    x = (edges[1:] + edges[:-1]) / 2
    width = (settings.x_max - settings.x_min) / settings.points
    loss = settings.loss_at(x)
    z = width * edges[1:-1] / settings.prior_std**2
    right, left = np.zeros_like(x), np.zeros_like(x)
    right[:-1] = bernoulli(z) / width**2
    left[1:] = bernoulli(-z) / width**2
    return Grid(
        x=x,
        t=np.linspace(0.0, settings.horizon, settings.time_steps + 1),
        width=width,
        dt=settings.horizon / settings.time_steps,
        loss=loss,
        per_strength=Rates(right, left),
        slope=np.diff(loss) / width,
    )
