"""An honest update is always accepted; one that honest clients cannot reach never is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgame import config
from fedgame.errors import InvalidReply
from fedgame.messages.training import TrainOrder, TrainReply
from fedgame.randomness import secret_from_seed
from fedgame.strategies.aggregation import weighted_sum
from fedgame.strategies.bounds import check_update, update_bound
from fedgame.strategies.cohort import Cohort
from fedgame.strategies.data import federated_data
from fedgame.strategies.settings import Experiment

SIZES = [640, 10]


def _experiment(**overrides: Any) -> Experiment:
    flat = {key.replace("__", ".").replace("_", "-"): value for key, value in overrides.items()}
    return config.load({"task.name": "digits", "num-clients": 4, **flat})


def _order(parameters: np.ndarray[Any, Any]) -> TrainOrder:
    return TrainOrder(
        round=1,
        parameters=parameters.astype(np.float32),
        clients=np.arange(4),
        weights=np.full(4, 0.25),
        turns=np.zeros(4, dtype=np.int64),
        strengths=np.full(4, 0.02),
        run_name="run",
        ledger="",
    )


def _reply(update: np.ndarray[Any, Any], used: list[bool]) -> TrainReply:
    order = _order(np.zeros(650))
    return TrainReply(order.clients, np.full(4, 9), order.strengths, np.array(used), update)


@pytest.mark.parametrize("cell", ["dp-sgd", "mfep"])
@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1000), st.floats(0, 3), st.integers(1, 3), st.floats(0, 0.2))
def test_honest_updates_pass(
    cell: str, seed: int, scale: float, steps: int, penalty: float
) -> None:
    experiment = _experiment(cell=cell, training__local_steps=steps, jko__lambda=penalty)
    start = (scale * np.random.default_rng(seed).standard_normal(650)).astype(np.float32)
    order = _order(start)
    cohort = Cohort(experiment, federated_data(experiment), range(4), secret_from_seed(seed))
    updates = cohort.train(1, order.parameters, order.strengths).updates
    bound = update_bound(experiment, order.parameters, SIZES, 0.02)
    reply = _reply(weighted_sum(updates, order.weights), [True] * 4)
    check_update(reply, order, bound)
    assert (np.abs(updates) <= bound.entries).all()
    assert np.linalg.norm(updates, axis=1).max() <= bound.norm


def test_an_update_of_the_size_of_the_model_is_not_honest() -> None:
    """The bound is on the change: a large model is no licence for a large change."""
    experiment = _experiment(cell="dp-sgd")
    start = np.full(650, 1000.0)
    bound = update_bound(experiment, start.astype(np.float32), SIZES, 0.02)
    doubled = weighted_sum(np.tile(start, (4, 1)), np.full(4, 0.25))
    with pytest.raises(InvalidReply, match="larger than any honest"):
        check_update(_reply(doubled, [True] * 4), _order(start), bound)


def test_every_entry_at_its_limit_is_not_honest_either() -> None:
    experiment = _experiment(cell="dp-sgd")
    bound = update_bound(experiment, np.zeros(650, dtype=np.float32), SIZES, 0.02)
    assert np.linalg.norm(bound.entries) > 2 * bound.norm
    all_of_them = weighted_sum(np.tile(bound.entries * 0.99, (4, 1)), np.full(4, 0.25))
    with pytest.raises(InvalidReply, match="larger than any honest"):
        check_update(_reply(all_of_them, [True] * 4), _order(np.zeros(650)), bound)


def test_clients_that_are_left_out_have_no_share() -> None:
    experiment = _experiment(cell="dp-sgd")
    bound = update_bound(experiment, np.zeros(650, dtype=np.float32), SIZES, 0.02)
    one = np.zeros((4, 650))
    one[:, 0] = 0.9 * bound.entries[0]
    total = weighted_sum(one, np.full(4, 0.25))
    check_update(_reply(total, [True] * 4), _order(np.zeros(650)), bound)
    with pytest.raises(InvalidReply, match="larger than any honest"):
        check_update(_reply(total, [True, False, False, False]), _order(np.zeros(650)), bound)


@pytest.mark.parametrize("entry", [np.iinfo(np.int64).min, np.iinfo(np.int64).max, 2**62 + 1])
def test_no_bound_lets_an_overflowing_sum_through(entry: int) -> None:
    experiment = _experiment(cell="mfep", jko__lambda=1e6, training__local_steps=100)
    bound = update_bound(experiment, np.ones(650, dtype=np.float32), SIZES, 1e9)
    update = np.zeros(650, dtype=np.int64)
    update[0] = entry
    with pytest.raises(InvalidReply, match="larger than any honest"):
        check_update(_reply(update, [True] * 4), _order(np.ones(650)), bound)
