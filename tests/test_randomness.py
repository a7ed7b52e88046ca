"""Streams are a function of (secret, client, round, step, purpose) and of nothing else."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedgame.randomness import (
    PUBLIC_CLIENT,
    generator,
    generators,
    public_generator,
    secret_from_seed,
)


def test_same_arguments_give_the_same_stream() -> None:
    secret = secret_from_seed(1)
    first = generator(secret, 3, 4, "noise", 2).standard_normal(8)
    assert np.array_equal(first, generator(secret, 3, 4, "noise", 2).standard_normal(8))


@given(
    st.binary(max_size=64),
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**4)), max_size=5),
    st.integers(0, 10**6),
)
def test_many_streams_in_turn_are_the_streams_one_by_one(
    secret: bytes, pairs: list[tuple[int, int]], round_: int
) -> None:
    """Whatever was left over of the stream before: buffered words, half a word, a counter."""

    def draws(rng: np.random.Generator) -> tuple[Any, ...]:
        half = rng.integers(0, 7, dtype=np.int32)
        return int(half), rng.random(3).tolist(), rng.standard_normal(), rng.laplace()

    clients, steps = [client for client, _ in pairs], [step for _, step in pairs]
    found = [draws(rng) for rng in generators(secret, clients, round_, "noise", steps)]
    assert found == [
        draws(generator(secret, client, round_, "noise", step)) for client, step in pairs
    ]


def test_every_argument_matters() -> None:
    secrets = [secret_from_seed(1), secret_from_seed(2)]
    keys = itertools.product(secrets, [0, 1], [0, 1], ["noise", "batch"], [0, 1])
    draws = {generator(s, c, r, p, i).integers(0, 2**63) for s, c, r, p, i in keys}
    assert len(draws) == 32


def test_neighbouring_numbers_do_not_run_into_each_other() -> None:
    secret = secret_from_seed(0)
    assert generator(secret, 1, 11, "x").random() != generator(secret, 11, 1, "x").random()


@given(st.integers(0, 2**32), st.integers(0, 50))
def test_public_draws_are_nobodys_private_draws(seed: int, index: int) -> None:
    public = public_generator(seed, "noise", index).random()
    private = generator(secret_from_seed(seed), PUBLIC_CLIENT, index, "noise").random()
    assert public != private


def test_global_numpy_state_is_not_touched() -> None:
    def state() -> bytes:
        legacy: Any = np.random.get_state()  # noqa: NPY002  (read, not used)
        return bytes(legacy[1].tobytes())

    before = state()
    generator(secret_from_seed(0), 0, 0, "noise").random(100)
    assert state() == before
