"""Names that several test files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedgame.runner import Finished

Run = Callable[..., Finished]

SMALL: dict[str, Any] = {
    "task.name": "logistic",
    "num-clients": 5,
    "rounds": 4,
    "mean-field.choice-every": 2,
    # in one process a reply is there at once or never
    "reply-timeout": 0.1,
}
"""A run of a fraction of a second."""
