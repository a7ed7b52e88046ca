"""What every procurement mechanism has in common: the server's terms, a choice, and its record.

The server selects client k with probability p_k and buys the privacy budget epsilon_k from it. With
virtual costs v_k, and u the uniform distribution over the N clients, it minimises

    eta (|p - u|_1 + sqrt(|p - u|_1^2 + Q sum_k p_k^2/epsilon_k^2)) + sum_k v_k epsilon_k

over the simplex and 0 <= epsilon_k <= epsilon_max (JSAM paper, Problem 3; the cap is ours).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fedgame.games.best_response import BoolArray, FloatArray, IntArray

NEGLIGIBLE_COST = 1e-100
"""A virtual cost below this counts as 0, since powers of it would underflow."""


class BudgetCurve(Protocol):
    """One client's budgets as a function of its own virtual cost, everybody else's kept."""

    def __call__(self, values: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return budgets, shape (nodes,), and labels, shape (nodes, fields), at virtual costs.

        The budget is a continuous function of the virtual cost where the label does not change.
        """

    def narrowed(self, low: float, high: float) -> BudgetCurve:
        """Return the same curve for virtual costs from `low` to `high` only, faster to evaluate."""


@dataclass(frozen=True)
class Terms:
    """The server's terms.

    Attributes:
        eta: Weight of the bound on the training loss against money, > 0.
        q: Q of the objective, how much the noise of a small budget matters, > 0.
        epsilon_max: Public cap on every budget, > 0; infinite only where no virtual cost is 0.

    Raises:
        ValueError: A term is not positive, or eta or q not finite.
    """

    eta: float
    q: float = 1.0
    epsilon_max: float = math.inf

    def __post_init__(self) -> None:
        """Check the terms."""
        require_positive("eta", self.eta)
        require_positive("q", self.q)
        if not self.epsilon_max > 0:
            raise ValueError(f"epsilon_max = {self.epsilon_max}: must be > 0")


@dataclass(frozen=True)
class Choice:
    """What a mechanism decides: whom to select, how often, and what to buy.

    Attributes:
        probabilities: p_k, shape (clients,), summing to 1.
        budgets: epsilon_k, shape (clients,); 0 for a client that is never selected.
    """

    probabilities: FloatArray
    budgets: FloatArray


class Mechanism(Protocol):
    """A rule from virtual costs and the server's terms to a choice; built from its section.

    Attributes:
        name: Its name in the configuration.
        complete_information: Whether the server knows the costs: virtual costs are then the costs
            themselves, and a client is paid its cost.
        optimises_selection: Whether the probabilities are chosen with the budgets, or beforehand.
    """

    name: ClassVar[str]
    complete_information: ClassVar[bool]
    optimises_selection: ClassVar[bool]

    def eligible(self, num_clients: int) -> BoolArray:
        """Mark the clients that can be selected at all, which are treated alike."""

    def choose(self, costs: FloatArray, terms: Terms) -> Choice:
        """Return the choice at virtual costs of shape (clients,) on the server's terms."""

    def curve(
        self, costs: FloatArray, client: int, low: float, high: float, terms: Terms
    ) -> BudgetCurve:
        """Return one client's budget as a function of its own virtual cost.

        Args:
            costs: Virtual costs, shape (clients,); the client's own entry is not used.
            client: Its index.
            low: Smallest virtual cost that will be asked for.
            high: Largest one.
            terms: The server's terms.
        """


@dataclass(frozen=True)
class Certificate:
    """How far a choice is from optimal.

    Attributes:
        kkt_residual: Largest relative violation of the first-order conditions; about 1e-12 from
            rounding. Of the budgets alone where a mechanism fixes the probabilities beforehand.
        brute_force_gap: Objective over the least objective of a brute-force search, minus 1; not
            above 0 if the search finds nothing better. None for many clients or fixed
            probabilities.
    """

    kkt_residual: float
    brute_force_gap: float | None


@dataclass(frozen=True)
class Allocation:
    """The outcome of a mechanism, with its certificate.

    Attributes:
        mechanism: Name of the mechanism.
        virtual_costs: v_k, shape (clients,); the costs c_k under complete information.
        probabilities: p_k, shape (clients,).
        budgets: epsilon_k, shape (clients,), bought for the whole training.
        payments: pi_k, shape (clients,), or None where they were not asked for.
        expected_cost: B, the sum of v_k epsilon_k, which is the payments' expected sum.
        objective: Value of the server's objective.
        threshold: Number of clients with p_k > 0.
        distance: l = |p - u|_1.
        power_sum: S, the sum of (v_k p_k)^(2/3).
        cap_binds: Whether a budget is at epsilon_max.
        ironed: Whether virtual costs were ironed, since the prior is not regular.
        certificate: How far the choice is from optimal.
    """

    mechanism: str
    virtual_costs: FloatArray
    probabilities: FloatArray
    budgets: FloatArray
    payments: FloatArray | None
    expected_cost: float
    objective: float
    threshold: int
    distance: float
    power_sum: float
    cap_binds: bool
    ironed: bool
    certificate: Certificate


def require_positive(name: str, value: float) -> None:
    """Refuse anything but a finite number > 0.

    Raises:
        ValueError: Naming the value and what is allowed.
    """
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} = {value}: must be a finite number > 0")


def require_subset_size(name: str, size: int, num_clients: int) -> None:
    """Refuse a number of clients that is not from 1 to all of them.

    Raises:
        ValueError: Naming the value and what is allowed.
    """
    if not 1 <= size <= num_clients:
        raise ValueError(f"{name} = {size}: must be from 1 to {num_clients}, the number of clients")


def check_values(values: ArrayLike, name: str) -> FloatArray:
    """Return one finite number >= 0 a client, shape (clients,), as float64.

    Args:
        values: Reports or virtual costs.
        name: What one of them is called in an error.

    Raises:
        ValueError: A value is missing, negative or not finite, or there is none.
    """
    checked = np.array(values, dtype=np.float64)
    if checked.ndim != 1 or len(checked) == 0:
        raise ValueError(f"{name}s of shape {checked.shape}: one a client is needed, at least one")
    bad = ~(np.isfinite(checked) & (checked >= 0))
    if bad.any():
        client = int(np.argmax(bad))
        allowed = "must be a finite number >= 0"
        raise ValueError(f"{name} of client {client} = {checked[client]}: {allowed}")
    return checked


def without_negligible(costs: FloatArray) -> FloatArray:
    """Return virtual costs, negligible ones as 0."""
    return np.where(costs < NEGLIGIBLE_COST, 0.0, costs)


def check_costs(costs: ArrayLike, terms: Terms) -> FloatArray:
    """Return checked virtual costs, shape (clients,), negligible ones as 0.

    Raises:
        ValueError: As for `check_values`; or a cost is 0, so that its client's budget would be
            unbounded, and epsilon_max is infinite.
    """
    checked = check_values(costs, "virtual cost")
    checked = without_negligible(checked)
    if math.isinf(terms.epsilon_max) and not checked.all():
        client = int(np.argmin(checked))
        raise ValueError(f"epsilon_max = inf: must be finite, since client {client} costs nothing")
    return checked
