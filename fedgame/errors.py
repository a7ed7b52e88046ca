"""Every error that fedgame raises on purpose.

FedgameError
├── ConfigError        a key of the configuration has a value that is not allowed
├── DataError          a data set is missing, truncated or not what it should be
├── CalibrationError   no noise multiplier reaches the wanted budget
├── AccountingError    an event or a question that an accountant cannot answer soundly
├── LedgerError        the ledger cannot be read or written, or contradicts itself
│   ├── DuplicateRow   a release or purchase is in the ledger already
│   └── DiskError      the ledger's disk is full, or cannot be written
├── InvalidReply       a client's message fails validation
├── InvalidOrder       a server asks a client for what it has not agreed to
└── RunFailed          a run cannot go on (too few clients, no nodes)

The command line prints the message of any of these as one line and exits non-zero.
"""

from __future__ import annotations


class FedgameError(Exception):
    """Base of all errors raised on purpose; its text is written for the user."""


class ConfigError(FedgameError):
    """A configuration key has a value that is not allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        """Name the key, the value given and what is allowed, in one line."""
        super().__init__(f"{key} = {value!r}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class DataError(FedgameError):
    """A data set is missing, truncated or not what it should be."""


class CalibrationError(FedgameError):
    """No noise multiplier in the searched range reaches the wanted budget."""


class AccountingError(FedgameError):
    """An event, or a question about events, that an accountant cannot answer soundly."""


class LedgerError(FedgameError):
    """The ledger cannot be read or written, or its rows contradict each other."""


class DuplicateRow(LedgerError):
    """A release with this (client, round, step, purpose), or a purchase, is there already."""


class DiskError(LedgerError):
    """The disk that the ledger is on is full, or fails; what was committed before is there."""


class InvalidReply(FedgameError):
    """A client's reply fails validation; its text says why and goes to the log."""


class InvalidOrder(FedgameError):
    """A server asks a client for more than it agreed to; the text goes to the client's log."""


class RunFailed(FedgameError):
    """The run cannot go on; its text is the reason shown to the user."""
