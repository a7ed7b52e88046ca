"""What came in so far, one line an exchange, so that a run that was killed can hear it again."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedgame.errors import RunFailed
from fedgame.messages.aggregative import MessageOrder, MessageReply

JOURNAL = "journal.jsonl"
"""Its name in a run folder."""


class Journal:
    """A file of JSON lines; floats keep all their bits."""

    def __init__(self, folder: Path) -> None:
        """Begin a journal in a run's folder; nothing is written yet."""
        self._path = folder / JOURNAL
        self._past: deque[Any] = deque()

    def rewind(self) -> None:
        """Read what an earlier process wrote; a line that it did not end never counted.

        Raises:
            RunFailed: The file is damaged.
        """
        if not self._path.is_file():
            return
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            self._past = deque(json.loads(line) for line in whole.splitlines())
            os.truncate(self._path, len(whole))
        except (ValueError, OSError) as error:
            raise RunFailed(f"{self._path}: it is damaged ({error})") from error

    @property
    def is_past(self) -> bool:
        """Whether there is something to hear again."""
        return bool(self._past)

    def again(self) -> Any:
        """Return the next entry of the past."""
        return self._past.popleft()

    def append(self, entry: Any) -> None:
        """Put an entry on disk.

        Raises:
            RunFailed: It cannot be written.
        """
        try:
            with self._path.open("ab") as stream:
                stream.write(json.dumps(entry).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise RunFailed(f"cannot write {self._path}: {error.strerror}") from error

    def replies(
        self, orders: Mapping[int, MessageOrder], ask: Callable[[], Mapping[int, MessageReply]]
    ) -> Mapping[int, MessageReply]:
        """Return players' messages by node: asked for and written down, or those of the past.

        Args:
            orders: The order to each node; a node may have had another number in the past.
            ask: Asks the nodes.
        """
        if self.is_past:
            hosts = {int(order.players[0]): node for node, order in orders.items()}
            past = self.again()
            return {hosts[first]: MessageReply(np.array(messages)) for first, messages in past}
        replies = ask()
        came = {int(orders[node].players[0]): reply for node, reply in replies.items()}
        self.append([[first, reply.messages.tolist()] for first, reply in came.items()])
        return replies
