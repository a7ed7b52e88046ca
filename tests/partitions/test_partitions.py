"""Partitions: disjoint, complete, never empty, and the same for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from fedgame.errors import ConfigError
from fedgame.partitions.base import Partition
from fedgame.partitions.dirichlet import Dirichlet
from fedgame.partitions.iid import Iid
from fedgame.randomness import public_generator

Split = list[NDArray[np.int64]]
every_partition = pytest.mark.parametrize(
    "partition", [Iid(), Dirichlet()], ids=lambda partition: partition.name
)


def split(partition: Partition, targets: NDArray[Any], clients: int, seed: int = 0) -> Split:
    return partition.split(targets, clients, public_generator(seed, "partition"))


def check_cover(parts: Split, examples: int, clients: int, minimum: int = 1) -> None:
    assert len(parts) == clients
    assert all(part.dtype == np.int64 for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(examples))
    assert min(len(part) for part in parts) >= minimum
    assert all((np.diff(part) > 0).all() for part in parts)


targets_and_clients = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n).map(np.array), st.integers(1, n)
    )
)


@given(case=targets_and_clients, seed=st.integers(0, 20))
def test_iid_covers_all_with_sizes_that_differ_by_at_most_one(
    case: tuple[NDArray[np.int64], int], seed: int
) -> None:
    targets, clients = case
    parts = split(Iid(), targets, clients, seed)
    check_cover(parts, len(targets), clients)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(
    case=targets_and_clients,
    seed=st.integers(0, 20),
    alpha=st.one_of(st.floats(1e-300, 1e6), st.sampled_from([5e-324, 1e-6, 0.1, 1.0, 1e6])),
    data=st.data(),
)
def test_dirichlet_covers_all_and_respects_the_minimum(
    case: tuple[NDArray[np.int64], int], seed: int, alpha: float, data: st.DataObject
) -> None:
    targets, clients = case
    minimum = data.draw(st.integers(1, len(targets) // clients))
    parts = split(Dirichlet(alpha=alpha, min_examples=minimum), targets, clients, seed)
    check_cover(parts, len(targets), clients, minimum)


@every_partition
def test_the_same_seed_gives_the_same_split_and_another_seed_another(
    partition: Iid | Dirichlet,
) -> None:
    targets = np.arange(200) % 10
    first, again, other = (split(partition, targets, 7, seed) for seed in (1, 1, 2))
    assert [part.tolist() for part in first] == [part.tolist() for part in again]
    assert [part.tolist() for part in first] != [part.tolist() for part in other]


@every_partition
def test_more_clients_than_examples_are_refused(partition: Iid | Dirichlet) -> None:
    check_cover(split(partition, np.zeros(5, np.int64), 5), 5, 5)
    for clients in (6, 0):
        with pytest.raises(ConfigError, match=f"^num-clients = {clients}: from 1 to 5") as caught:
            split(partition, np.zeros(5, np.int64), clients)
        assert caught.value.key == "num-clients"


def test_dirichlet_refuses_regression_targets() -> None:
    targets = np.array([0.5, 1.0, 2.0], dtype=np.float32)
    with pytest.raises(ConfigError, match=r"^partition\.name = 'dirichlet': .* choose iid"):
        split(Dirichlet(), targets, 2)
    with pytest.raises(ConfigError, match=r"partition\.name"):
        split(Dirichlet(), np.array([np.nan, 1.0]), 2)


def test_dirichlet_takes_whole_floats_as_labels() -> None:
    labels = np.arange(40) % 2
    of_floats = split(Dirichlet(), labels.astype(np.float32), 4)
    assert [p.tolist() for p in of_floats] == [p.tolist() for p in split(Dirichlet(), labels, 4)]


def test_dirichlet_refuses_a_minimum_that_the_data_cannot_give() -> None:
    check_cover(split(Dirichlet(min_examples=5), np.zeros(10, np.int64), 2), 10, 2, 5)
    with pytest.raises(ConfigError, match=r"dirichlet\.min-examples = 6: at most 5"):
        split(Dirichlet(min_examples=6), np.zeros(10, np.int64), 2)


def proportions(alpha: float, clients: int = 10, each: int = 1000) -> NDArray[np.float64]:
    """Share of each class (row) that each client (column) got."""
    targets = np.repeat(np.arange(10), each)
    parts = split(Dirichlet(alpha=alpha), targets, clients)
    return np.array([np.bincount(targets[part], minlength=10) for part in parts]).T / each


def test_alpha_sets_the_concentration() -> None:
    """Var of a Dirichlet proportion is (1/N)(1 - 1/N)/(N alpha + 1)."""
    for alpha in (0.5, 5.0):
        want = 0.1 * 0.9 / (10 * alpha + 1)
        assert proportions(alpha).var() == pytest.approx(want, rel=0.35)
    assert np.abs(proportions(1e6) - 0.1).max() < 0.005
    one_owner = (proportions(1e-6).max(axis=1) > 0.99).sum()
    assert one_owner >= 9


def test_dirichlet_gives_each_client_a_random_part_of_a_class() -> None:
    parts = split(Dirichlet(alpha=1e6), np.zeros(1000, np.int64), 2)
    assert abs(parts[0].mean() - 499.5) < 60


def test_filling_up_takes_from_the_largest_and_touches_nobody_else() -> None:
    targets = np.arange(2000) % 3
    before = split(Dirichlet(alpha=0.02, min_examples=1), targets, 12)
    after = split(Dirichlet(alpha=0.02, min_examples=30), targets, 12)
    sizes = [len(part) for part in after]
    assert sum(len(part) < 30 for part in before) >= 3
    assert min(sizes) == 30
    shrunk = [len(a) for a, b in zip(after, before, strict=True) if len(a) < len(b)]
    kept = [len(a) for a, b in zip(after, before, strict=True) if len(b) >= 30 and len(a) >= len(b)]
    assert shrunk
    assert min(shrunk) >= max(kept, default=0) - 1


def test_moved_examples_are_of_all_classes_of_the_donor() -> None:
    targets = np.arange(3000) % 3
    parts = split(Dirichlet(alpha=5e-324, min_examples=200), targets, 4)
    check_cover(parts, 3000, 4, 200)
    mixed = [len(np.unique(targets[part])) for part in parts]
    assert max(mixed) >= 2


def test_a_hundred_thousand_clients_each_get_an_example() -> None:
    parts = split(Dirichlet(alpha=0.1), np.arange(1_000_000) % 10, 100_000)
    assert min(len(part) for part in parts) >= 1


def test_values_out_of_range_are_refused() -> None:
    for alpha in (0.0, -1.0, float("nan"), float("inf"), 1e7):
        with pytest.raises(ValidationError, match="alpha"):
            Dirichlet(alpha=alpha)
    with pytest.raises(ValidationError, match="min_examples"):
        Dirichlet(min_examples=0)
    with pytest.raises(ValidationError, match="unknown"):
        Iid(unknown=1)  # type: ignore[call-arg]
