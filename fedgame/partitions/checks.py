"""The check that every partition makes first."""

from __future__ import annotations

from fedgame.errors import ConfigError


def require_enough_examples(num_examples: int, num_clients: int) -> None:
    """Refuse to split fewer examples than there are clients.

    Raises:
        ConfigError: `num_clients` is less than 1 or more than `num_examples`.
    """
    if not 1 <= num_clients <= num_examples:
        allowed = f"from 1 to {num_examples}, the number of training examples"
        raise ConfigError("num-clients", num_clients, allowed)
