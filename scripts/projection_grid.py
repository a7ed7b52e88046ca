"""The runs of the comparison with and without projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

SEEDS: Final = (42, 43, 44, 45, 46)
FEWER_SEEDS: Final = SEEDS[:2]
"""For runs that take minutes."""
EVERY_TENSOR: Final = 10**9


PROJECTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "off": {"jko.sinkhorn": False},
    **{
        f"{words}, reg {reg:g}": {"jko.sinkhorn-cap": cap, "jko.sinkhorn-reg": reg}
        for (words, cap), reg in product(
            (("up to 512 entries", 512), ("every tensor", EVERY_TENSOR)), (0.1, 0.01)
        )
    },
}
BELOW_THE_CAP: Final = tuple(PROJECTIONS)[:3]
"""What there is to compare where no tensor has more than 512 entries."""


@dataclass(frozen=True)
class Case:
    """A preset, what is changed in it, the projections to compare, and the seeds."""

    preset: str
    overrides: Mapping[str, Any]
    projections: tuple[str, ...] = tuple(PROJECTIONS)
    seeds: tuple[int, ...] = SEEDS


_MFEP: Final = {"cell": "mfep", "jko.noise-multiplier": 4.0}

CASES: Final[Mapping[str, Case]] = {
    "digits, mfpg": Case("demo", {}),
    "digits, mfep": Case("demo", _MFEP),
    "logistic, mfep": Case("demo", {**_MFEP, "task.name": "logistic"}, BELOW_THE_CAP),
    "quadratic, mfep": Case("demo", {**_MFEP, "task.name": "quadratic"}, BELOW_THE_CAP),
    "mnist, mfep": Case("sound/mnist-mfep", {}, seeds=FEWER_SEEDS),
}
