"""Random generators derived from (secret, client, round, purpose), never from a global state."""

from __future__ import annotations

import hashlib

import numpy as np

PUBLIC_CLIENT = -1
"""The client number of draws that belong to nobody: partition, initial model, schedules."""


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
        f"{client}/{round_}/{step}/{purpose}".encode(), key=secret, digest_size=16
    ).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def public_generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """Return a generator for what everybody may know: data partition, initial model, schedules."""
    return generator(secret_from_seed(seed), PUBLIC_CLIENT, index, f"public {purpose}")
