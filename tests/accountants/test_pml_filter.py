"""The budget filter: its values by enumeration, and what 2,000 runs leak under it."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedgame.accountants.pml import exact_leakage
from fedgame.accountants.pml_bounds import (
    ceiling,
    composition,
    corollary_1,
    corollary_2,
    group_dp,
    theorem_1,
)
from fedgame.accountants.pml_distances import message_distances
from fedgame.accountants.pml_filter import (
    PmlFilter,
    sequential_worst,
    simultaneous_worst,
    smallest_scales,
)
from fedgame.accountants.pml_prior import Prior
from fedgame.accountants.pml_prior_forms import (
    correlated_prior,
    product_prior,
    table_prior,
    tabulated,
)
from tests.accountants import pml_plain_loops as plain
from tests.accountants.pml_settings import KINDS, random_prior, simulate, the_oracles

Action = Literal["stop", "raise-noise"]
Order = Literal["auto", "simultaneous", "sequential"]
BUDGETS = (0.5, 1.0, 2.0, 4.0)


@the_oracles
def test_the_oracles(run: plain.PlainRun, prior: Prior) -> None:
    before = np.concatenate([np.zeros_like(run.logs[:1]), run.logs[:-1]])
    worst = simultaneous_worst(prior, before, run.messages)(run.scales)
    assert worst == pytest.approx(run.worst, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_the_worst_of_a_round_is_the_enumeration(kind: str, num_players: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior, table = random_prior(kind, num_players, rng)
    logs = 2 * rng.standard_normal((prior.num_players, prior.num_types))
    messages = rng.standard_normal((*logs.shape, 2))
    expected = plain.worst_after(table, logs, messages, 1.3)
    scale = np.asarray(1.3)
    exact = float(simultaneous_worst(tabulated(prior), logs, messages)(scale))
    assert exact == pytest.approx(expected, rel=1e-9, abs=1e-11)
    safe = float(simultaneous_worst(prior, logs, messages)(scale))
    assert safe >= expected - 1e-11
    assert safe <= float(ceiling(prior).value) + 1e-11
    if prior.floor_is_exact:
        assert safe == pytest.approx(expected, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_the_worst_of_one_message_is_the_enumeration(
    kind: str, num_players: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    prior, table = random_prior(kind, num_players, rng)
    logs = 2 * rng.standard_normal((prior.num_players, prior.num_types))
    player = int(rng.integers(prior.num_players))
    mine = rng.standard_normal((prior.num_types, 2))
    messages = np.zeros((*logs.shape, 2))
    messages[player] = mine
    worst = sequential_worst(prior, logs, player, mine)
    expected = plain.worst_after(table, logs, messages, 0.7)
    assert float(worst(np.asarray(0.7))) == pytest.approx(expected, rel=1e-9, abs=1e-11)
    # no message leaks more, and very much noise leaves what has leaked
    sent = mine[rng.integers(prior.num_types, size=200)] + rng.laplace(0, 0.7, (200, 2))
    after = np.broadcast_to(logs, (200, *logs.shape)).copy()
    after[:, player] -= np.abs(sent[:, None] - mine).sum(axis=-1) / 0.7
    assert exact_leakage(prior, after).max() <= expected + 1e-10
    leaked = plain.leakage(table, logs)
    assert float(worst(np.asarray(1e15))) == pytest.approx(leaked, rel=1e-9, abs=1e-11)


ROWS = np.random.default_rng(11).dirichlet(np.full(3, 2.0), (2, 4))
FIXED = {
    "product": product_prior(ROWS[0]),
    "correlated": correlated_prior(4, 0.2, 0.6),
    "anti-correlated": correlated_prior(4, 0.3, 0.02),
    "mixture": Prior(np.array([0.3, 0.7]), ROWS),
}


@pytest.mark.parametrize("kind", FIXED)
@pytest.mark.parametrize("budget", BUDGETS)
def test_2000_runs_that_stop_leak_no_more_than_the_budget_and_run_longer_than_any_bound_allows(
    kind: str, budget: float
) -> None:
    """The noise of a run does not depend on where it stops, so all rules judge the same runs."""
    prior = FIXED[kind]
    # steps grow with the budget, so that runs pass each budget if nobody stops them
    runs = simulate(prior, 2000, 8, np.random.default_rng(0), step=0.2 * budget)
    leaked = exact_leakage(prior, runs.logs)
    decision = PmlFilter(budget=budget, order="simultaneous").decide_round(
        prior, runs.before, runs.messages, runs.scales
    )
    allowed = np.cumprod(decision.send, axis=1).astype(bool)
    assert (leaked[allowed] <= budget).all()
    assert (leaked[allowed] <= decision.worst[allowed] + 1e-12).all()
    assert leaked.max() > budget
    assert leaked[allowed].max() > 0.8 * budget
    gaps = message_distances(runs.messages, runs.scales)
    bounds = [rule(prior, gaps) for rule in (theorem_1, corollary_1, corollary_2, group_dp)]
    for bound in [*bounds, composition(prior, runs.logs, gaps)]:
        by_bound = np.cumprod(bound.value <= budget - 1e-8, axis=1).sum(axis=1)
        assert (allowed.sum(axis=1) >= by_bound).all()
        assert allowed.sum() > 1.1 * by_bound.sum()


def _run(
    prior: Prior, budget: float, action: Action, order: Order, count: int, seed: int
) -> tuple[plain.Array, plain.Array, plain.Array]:
    """Filtered runs: messages sent, largest leakage after any of them, and scales over plan."""
    rng = np.random.default_rng(seed)
    rule = PmlFilter(budget=budget, action=action, order=order)
    types = prior.draw(rng, count)
    players = prior.num_players
    x = np.broadcast_to(rng.uniform(0, 1, (players, 1)), (count, players, prior.num_types))
    v, last, logs = x, x[..., 0].copy(), np.zeros(x.shape)
    going = np.ones(count, dtype=bool)
    sent, leaked, raised = np.zeros((count, players)), np.zeros(count), [np.ones(count)]
    slopes = np.linspace([-0.5, 0.8], [0.7, -0.4], prior.num_types).T
    for k in range(8):
        groups = [[i] for i in range(players)] if rule.is_sequential(prior) else [range(players)]
        for group in groups:
            if rule.is_sequential(prior):
                i = group[0]
                decision = rule.decide_player(prior, logs, i, v[:, i, :, None], 1.0)
            else:
                decision = rule.decide_round(prior, logs, v[..., None], 1.0)
            going &= decision.send
            raised.append(np.where(going, decision.scales, 1.0))
            for i in group:
                own = np.take_along_axis(v[:, i], types[:, i, None], -1)[:, 0]
                o = own + rng.laplace(0, 1, count) * decision.scales
                density = -np.abs(o[:, None] - v[:, i]) / decision.scales[:, None]
                logs[:, i] += np.where(going[:, None], density, 0.0)
                last[:, i] = np.where(going, o, last[:, i])
                sent[:, i] += going
            leaked = np.maximum(leaked, exact_leakage(prior, logs))
        moved = x - 0.2 * 0.8**k * (slopes[0] + slopes[1] * v)
        v, x = last.mean(axis=1)[:, None, None] + moved - x, moved
    return sent, leaked, np.array(raised)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("action", ["stop", "raise-noise"])
def test_2000_filtered_runs_of_independent_players(action: Action, budget: float) -> None:
    prior = product_prior([[0.3, 0.7], [0.5, 0.5], [0.1, 0.9]])
    sent, leaked, raised = _run(prior, budget, action, "auto", 2000, 1)
    assert (leaked <= budget).all()
    assert leaked.max() > min(0.9 * budget, 2.0)
    if action == "stop":
        assert (raised == 1).all()
    if budget == 0.5:
        assert (raised.max() > 1) == (action == "raise-noise")
        stopped, _, _ = _run(prior, budget, "stop", "auto", 2000, 1)
        assert (sent.sum() > stopped.sum()) == (action == "raise-noise")
        # simultaneous: all players or none
        assert (sent == sent[:, :1]).all()


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("kind", ["correlated", "mixture"])
def test_2000_sequential_runs_of_dependent_players(kind: str, budget: float) -> None:
    prior = FIXED[kind]
    sent, leaked, _ = _run(prior, budget, "stop", "auto", 2000, 3)
    assert (leaked <= budget).all()
    assert leaked.max() > min(0.9 * budget, 1.5)
    if budget == 0.5:
        # somebody was stopped, in the middle of a round
        assert (sent != sent[:, :1]).any()


@pytest.mark.parametrize("kind", ["correlated", "table"])
def test_sequential_runs_with_raised_noise(kind: str) -> None:
    table = table_prior([[0.1, 0.4], [0.4, 0.1]])
    prior, budget = {"correlated": correlated_prior(3, 0.2, 0.6), "table": table}[kind], 0.5
    sent, leaked, raised = _run(prior, budget, "raise-noise", "sequential", 300, 4)
    assert (leaked <= budget).all()
    assert raised.max() > 1
    assert sent.mean() > _run(prior, budget, "stop", "sequential", 300, 4)[0].mean()


def test_sequential_messages_allow_more_than_simultaneous_ones_under_correlation() -> None:
    """N = 5, the paper's prior, R = .8; even where the worst round is found by enumeration."""
    prior = correlated_prior(5, 0.4, 0.7)
    one_by_one = _run(prior, 0.8, "stop", "sequential", 200, 5)[0].mean()
    at_once = _run(prior, 0.8, "stop", "simultaneous", 200, 5)[0].mean()
    exactly = _run(tabulated(prior), 0.8, "stop", "simultaneous", 200, 5)[0].mean()
    assert one_by_one > 1.2 * exactly
    assert exactly >= at_once


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_that_fits_at_once_fits_one_by_one(kind: str) -> None:
    rng = np.random.default_rng(6)
    prior, _ = random_prior(kind, 3, rng)
    logs = rng.standard_normal((200, prior.num_players, prior.num_types))
    messages = rng.standard_normal((*logs.shape, 1))
    scale = np.full(200, 1.5)
    whole = simultaneous_worst(prior, logs, messages)(scale)
    types = prior.draw(rng, 200)
    for i in range(prior.num_players):
        assert (sequential_worst(prior, logs, i, messages[:, i])(scale) <= whole + 1e-10).all()
        own = np.take_along_axis(messages[:, i, :, 0], types[:, i, None], -1)
        o = own + rng.laplace(0, 1.5, (200, 1))
        logs[:, i] -= np.abs(o - messages[:, i, :, 0]) / 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_the_raised_noise_is_the_smallest_that_fits(kind: str) -> None:
    rng = np.random.default_rng(7)
    prior, _ = random_prior(kind, 3, rng)
    logs = 0.3 * rng.standard_normal((100, prior.num_players, prior.num_types))
    messages = 3 * rng.standard_normal((*logs.shape, 1))
    budget = float(exact_leakage(prior, logs).max()) + 0.05
    rule = PmlFilter(budget=budget, action="raise-noise", order="simultaneous")
    planned = rng.uniform(0.1, 1, 100)
    found = rule.decide_round(prior, logs, messages, planned)
    worst = simultaneous_worst(prior, logs, messages)
    # possible for all of them, whatever the prior, since each leaks less than the budget so far
    assert found.send.all()
    assert (found.worst <= budget).all()
    assert found.worst == pytest.approx(worst(found.scales), rel=1e-12)
    raised = found.scales > planned
    assert raised.any()
    assert (worst(found.scales * (1 - 1e-5))[raised] > budget - 1e-8).all()
    assert (found.scales[~raised] == planned[~raised]).all()


def test_nothing_more_is_sent_once_the_budget_has_leaked() -> None:
    prior = product_prior([[0.5, 0.5]])
    logs = np.array([[0.0, -30.0]])
    leaked = float(exact_leakage(prior, logs))
    rule = PmlFilter(budget=leaked, action="raise-noise")
    found = rule.decide_round(prior, logs, [[[0.0], [1.0]]], 2.0)
    assert not found.send
    assert found.scales == 2.0
    never = smallest_scales(lambda m: 1.1 + 1 / m, np.array([1.0]), 1.0)
    assert never == 1.0


def test_a_budget_of_the_ceiling_allows_everything() -> None:
    for kind in KINDS:
        rng = np.random.default_rng(8)
        prior, _ = random_prior(kind, 3, rng)
        rule = PmlFilter(budget=float(ceiling(prior).value) + 1e-8, order="simultaneous")
        messages = 1e6 * rng.standard_normal((prior.num_players, prior.num_types, 1))
        logs = np.zeros(messages.shape[:2])
        assert rule.decide_round(prior, logs, messages, 1e-3).send


def test_message_0_is_always_sent() -> None:
    prior = correlated_prior(4, 0.01, 0.99)
    same = np.broadcast_to(np.arange(4.0)[:, None, None], (4, 2, 1))
    for order in ("simultaneous", "sequential"):
        rule = PmlFilter(budget=1e-6, order=order)
        assert rule.decide_round(prior, np.zeros((4, 2)), same, 1e-6).send
        assert rule.decide_player(prior, np.zeros((4, 2)), 2, same[2], 1e-6).send


def test_a_filter_that_only_measures_sends_everything_at_once_and_says_what_could_leak() -> None:
    prior = table_prior([[0.5, 0.2], [0.2, 0.1]])
    logs, messages = np.zeros((2, 2)), np.array([[[0.0], [9.0]], [[0.0], [3.0]]])
    rule = PmlFilter(budget=1e-3, action="measure", order="sequential")
    assert not rule.is_sequential(prior)
    found = rule.decide_round(prior, logs, messages, 0.5)
    assert found.send
    assert found.scales == 0.5
    stopped = PmlFilter(budget=1e-3).decide_round(prior, logs, messages, 0.5)
    assert not stopped.send
    assert found.worst == stopped.worst > 1


def test_the_order_of_sending() -> None:
    product, table = product_prior([[0.5, 0.5]]), table_prior([[0.5, 0.2], [0.2, 0.1]])
    automatic = PmlFilter(budget=1.0)
    assert not automatic.is_sequential(product)
    assert automatic.is_sequential(table)
    assert PmlFilter(budget=1.0, order="sequential").is_sequential(product)
    assert not PmlFilter(budget=1.0, order="simultaneous").is_sequential(table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0.0}, "greater than 0"),
        ({"budget": -1.0}, "greater than 0"),
        ({"budget": float("nan")}, "finite number"),
        ({"budget": 1.0, "action": "warn"}, "'stop', 'raise-noise' or 'measure'"),
        ({"budget": 1.0, "order": "random"}, "order"),
        ({"budget": 1.0, "scale": 2.0}, "scale"),
    ],
)
def test_fields_are_validated(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PmlFilter(**options)  # type: ignore[arg-type]


def test_wrong_arguments_are_refused() -> None:
    rule, prior = PmlFilter(budget=1.0), product_prior([[0.5, 0.5], [0.2, 0.8]])
    logs, messages = np.zeros((2, 2)), np.zeros((2, 2, 1))
    with pytest.raises(ValueError, match=r"noise scale = 0\.0: must be finite and > 0"):
        rule.decide_round(prior, logs, messages, 0.0)
    with pytest.raises(ValueError, match=r"messages of shape \(2, 3, 1\): must be \(2, 2, 'dim"):
        rule.decide_round(prior, logs, np.zeros((2, 3, 1)), 1.0)
    with pytest.raises(ValueError, match=r"messages of shape \(2, 2, 1\): must be \(2, 'dim"):
        rule.decide_player(prior, logs, 0, messages, 1.0)
    with pytest.raises(ValueError, match="player = 2: must be from 0 to 1"):
        rule.decide_player(prior, logs, 2, messages[0], 1.0)
    with pytest.raises(ValueError, match="log_likelihoods of shape"):
        rule.decide_round(prior, np.zeros((3, 2)), messages, 1.0)
