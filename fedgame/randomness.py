"""Random generators derived from (secret, client, round, purpose), never from a global state."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

PUBLIC_CLIENT = -1
"""The client number of draws that belong to nobody: partition, initial model, schedules."""

KEY_BYTES = 16
"""What Philox takes as a key."""

_WORDS = struct.Struct("<2Q")
"""The low and the high 64 bits of a key, as Philox holds them."""


def secret_from_seed(seed: int) -> bytes:
    """Return the 32-byte secret that simulations and parity runs derive from the public seed.

    Whoever knows the seed can regenerate every draw made from this secret, so a run that uses it
    is reproducible and not private against them.
    """
    return hashlib.blake2b(f"fedgame secret {seed}".encode(), digest_size=32).digest()


def generator(
    secret: bytes, client: int, round_: int, purpose: str, step: int = 0
) -> np.random.Generator:
    """Return the generator of one purpose: the same arguments give the same stream, everywhere.

    Args:
        secret: The key of the client that draws (up to 64 bytes).
        client: The client's number, or PUBLIC_CLIENT.
        round_: The round in which the draw happens.
        purpose: What the draw is for, for example "noise" or "batch"; streams of different
            purposes are independent.
        step: The local step inside the round.
    """
    digest = hashlib.blake2b(
        _name(client, round_, purpose, step), key=secret, digest_size=KEY_BYTES
    ).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def generators(
    secret: bytes, clients: Iterable[int], round_: int, purpose: str, steps: Iterable[int]
) -> Iterator[np.random.Generator]:
    """Yield the generator of each client in turn, each with the stream that `generator` gives it.

    It is one object, given a new key each time, since making one takes five times as long as
    drawing from it: a generator is good until the next one is asked for.

    Args:
        secret: As for `generator`.
        clients: The clients' numbers.
        round_: As for `generator`.
        purpose: As for `generator`.
        steps: The local step of each client.
    """
    philox = np.random.Philox(key=0)
    shared = np.random.Generator(philox)
    # lists, since the setter reads them entry by entry, which takes longer of arrays
    counter_and_key: dict[str, Any] = {"counter": [0] * 4, "key": (0, 0)}
    fresh: Any = {**philox.state, "state": counter_and_key, "buffer": [0] * 4}
    keyed = hashlib.blake2b(key=secret, digest_size=KEY_BYTES)
    for client, step in zip(clients, steps, strict=True):
        digest = keyed.copy()
        digest.update(_name(client, round_, purpose, step))
        counter_and_key["key"] = _WORDS.unpack(digest.digest())
        philox.state = fresh
        yield shared


def _name(client: int, round_: int, purpose: str, step: int) -> bytes:
    return f"{client}/{round_}/{step}/{purpose}".encode()


def public_generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """Return a generator for what everybody may know: data partition, initial model, schedules."""
    return generator(secret_from_seed(seed), PUBLIC_CLIENT, index, f"public {purpose}")
