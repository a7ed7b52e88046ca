"""Partitions: public splits of a data set over clients."""

from __future__ import annotations

from fedgame.partitions.base import Partition
from fedgame.registry import Registry

PARTITIONS: Registry[Partition] = Registry(
    "partition",
    {
        "iid": "fedgame.partitions.iid:Iid",
        "dirichlet": "fedgame.partitions.dirichlet:Dirichlet",
        "similarity": "fedgame.partitions.similarity:Similarity",
    },
)
