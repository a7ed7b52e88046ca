"""Mechanisms: clip, add noise, and say with an event what the release costs."""

from __future__ import annotations

from fedgame.mechanisms.base import Mechanism
from fedgame.registry import Registry

MECHANISMS: Registry[Mechanism] = Registry(
    "mechanism",
    {
        "gaussian": "fedgame.mechanisms.gaussian:Gaussian",
        "jko": "fedgame.mechanisms.jko:Jko",
    },
)
