"""A share of each client's data is uniform, the rest comes in blocks of one or two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from fedgame.errors import ConfigError
from fedgame.partitions import PARTITIONS
from fedgame.partitions.iid import Iid
from fedgame.partitions.similarity import Similarity
from fedgame.randomness import public_generator

Split = list[NDArray[np.int64]]


def split(percent: float, targets: NDArray[Any], clients: int, seed: int = 0) -> Split:
    rng = public_generator(seed, "partition")
    return Similarity(percent=percent).split(targets, clients, rng)


def class_counts(parts: Split, targets: NDArray[Any]) -> NDArray[np.int64]:
    """Count the examples of each class (column) that each client (row) has."""
    classes = int(targets.max()) + 1
    return np.stack([np.bincount(targets[part], minlength=classes) for part in parts])


targets_and_clients = st.integers(1, 80).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n).map(np.array), st.integers(1, n)
    )
)
percents = st.one_of(st.floats(0.0, 100.0), st.sampled_from([0.0, 30.0, 50.0, 70.0, 100.0]))


@settings(deadline=None)
@given(case=targets_and_clients, percent=percents, seed=st.integers(0, 20))
def test_all_examples_once_and_equal_sizes(
    case: tuple[NDArray[np.int64], int], percent: float, seed: int
) -> None:
    targets, clients = case
    parts = split(percent, targets, clients, seed)
    sizes = [len(part) for part in parts]
    assert len(parts) == clients
    assert all(part.dtype == np.int64 for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(targets)))
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert all((np.diff(part) > 0).all() for part in parts)


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    clients=st.integers(1, 20),
    percent=percents,
    seed=st.integers(0, 20),
)
def test_what_is_not_uniform_is_of_two_classes_where_no_class_is_smaller_than_a_block(
    counts: list[int], clients: int, percent: float, seed: int
) -> None:
    targets = np.repeat(np.arange(len(counts)), counts)
    if clients > len(targets):
        return
    parts = split(percent, targets, clients, seed)
    # even if a class lost all that went into the uniform parts, it has this many left
    largest = max(len(part) for part in parts)
    uniform = [round(percent * len(part) / 100) for part in parts]
    block = largest - min(uniform)
    if min(counts) - sum(uniform) < block - 1:
        return
    for row, share in zip(class_counts(parts, targets), uniform, strict=True):
        others = row.sum() - np.sort(row)[-2:].sum()
        assert others <= share


@pytest.mark.parametrize(("middle", "most"), [(2, 2), (1, 3)])
def test_the_documented_limit_is_the_limit(middle: int, most: int) -> None:
    """Blocks of three hold a class of one example with a neighbour on either side, not of two."""
    seen = []
    for first in range(1, 9 - middle):
        targets = np.repeat([0, 1, 2], [first, middle, 9 - middle - first])
        seen.append((class_counts(split(0.0, targets, 3), targets) > 0).sum(axis=1).max())
    assert max(seen) == most


@pytest.mark.parametrize("clients", [1, 7, 100])
def test_at_100_percent_it_is_the_iid_split(clients: int) -> None:
    targets = np.arange(1003) % 10
    iid = Iid().split(targets, clients, public_generator(5, "partition"))
    ours = split(100.0, targets, clients, seed=5)
    assert [part.tolist() for part in ours] == [part.tolist() for part in iid]


def test_at_0_percent_every_client_has_at_most_two_classes() -> None:
    """MNIST's class sizes over the paper's hundred clients."""
    sizes = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    targets = np.repeat(np.arange(10), sizes)
    targets = targets[np.random.default_rng(1).permutation(len(targets))]
    seen = class_counts(split(0.0, targets, 100), targets)
    assert set(seen.sum(axis=1)) == {600}
    assert (seen > 0).sum(axis=1).max() == 2
    # nine borders between classes, none of which falls on a block's edge
    assert ((seen > 0).sum(axis=1) == 2).sum() == 9


def test_the_uniform_part_has_its_share_of_every_class() -> None:
    targets = np.repeat(np.arange(10), 6000)
    seen = class_counts(split(30.0, targets, 100), targets)
    # 180 uniform examples, 18 +- 4 a class, and a block of 420 in one or two classes
    uniform = seen[seen <= 40]
    assert 800 <= len(uniform) <= 905
    assert uniform.mean() == pytest.approx(18.0, abs=0.5)
    # nearly 180 draws without replacement from ten equal classes
    assert uniform.std() == pytest.approx(np.sqrt(180 * 0.1 * 0.9), rel=0.1)


def test_the_uniform_examples_are_drawn_from_the_whole_training_set() -> None:
    targets = np.zeros(1000, dtype=np.int64)
    parts = split(50.0, targets, 2)
    assert abs(parts[0].mean() - 499.5) < 60


def test_blocks_are_dealt_in_a_random_order() -> None:
    targets = np.repeat(np.arange(10), 20)
    owners = [int(targets[split(0.0, targets, 10, seed)[0]][0]) for seed in range(300)]
    counts = np.bincount(owners, minlength=10)
    # chi-square with 9 degrees of freedom stays below 33 with probability .9999
    assert ((counts - 30.0) ** 2 / 30.0).sum() < 33


def test_the_same_seed_gives_the_same_split_and_another_seed_another() -> None:
    targets = np.arange(200) % 10
    first, again, other = (split(30.0, targets, 7, seed) for seed in (1, 1, 2))
    assert [part.tolist() for part in first] == [part.tolist() for part in again]
    assert [part.tolist() for part in first] != [part.tolist() for part in other]


def test_whole_floats_are_labels_and_a_regression_is_refused() -> None:
    labels = np.arange(40) % 2
    floats = split(0.0, labels.astype(np.float32), 4)
    assert [p.tolist() for p in floats] == [p.tolist() for p in split(0.0, labels, 4)]
    for targets in (np.array([0.5, 1.0, 2.0], dtype=np.float32), np.array([np.nan, 1.0])):
        with pytest.raises(
            ConfigError, match=r"^partition\.name = 'similarity': .* regression: choose iid$"
        ):
            split(30.0, targets, 2)


def test_more_clients_than_examples_are_refused() -> None:
    assert [len(part) for part in split(30.0, np.zeros(5, np.int64), 5)] == [1] * 5
    for clients in (6, 0):
        with pytest.raises(ConfigError, match=f"^num-clients = {clients}: from 1 to 5"):
            split(30.0, np.zeros(5, np.int64), clients)


@pytest.mark.parametrize("percent", [-1e-9, 100.1, float("nan"), float("inf")])
def test_a_percent_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(ValidationError, match="percent"):
        Similarity(percent=percent)


def test_it_is_registered_under_its_name() -> None:
    assert PARTITIONS.get("similarity") is Similarity
    assert Similarity().percent == 100.0
