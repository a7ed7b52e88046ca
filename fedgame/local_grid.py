"""A Flower Grid inside one process: no SuperLink, no Ray. For tests, quick looks and floors.

Messages pass through the same records, so a strategy cannot tell the difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedgame.strategies.settings import Scalar

ClientHandler = Callable[[Message, Context], Message]
"""What a Flower ClientApp is when it is called."""

ReplyHook = Callable[[Message], Message | None]
"""Sees every reply before the server does; None loses it. Tests use it to play a faulty client."""

_FAILED = 1
_SERVER = 1


class LocalGrid(Grid):
    """Calls a ClientApp directly, one node after the other, in the order of the messages."""

    def __init__(
        self,
        app: ClientHandler,
        nodes: int,
        run_config: Mapping[str, Scalar],
        hook: ReplyHook | None = None,
    ) -> None:
        """Make `nodes` nodes with the numbers 1 to `nodes`."""
        _identify()
        self._app = app
        self._hook = hook
        self._run = Run.create_empty(run_id=1)
        self._ids = itertools.count(1)
        self._replies: dict[str, Message] = {}
        self._contexts = {
            node: Context(
                run_id=1,
                node_id=node,
                node_config={"partition-id": node - 1, "num-partitions": nodes},
                state=RecordDict(),
                run_config=dict(run_config),
            )
            for node in range(1, nodes + 1)
        }

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a message to one node."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of all nodes."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Deliver each message at once and keep the reply."""
        pushed = []
        for message in messages:
            identifier = f"local-{next(self._ids)}"
            message.metadata.__dict__["_message_id"] = identifier
            pushed.append(identifier)
            reply = self._deliver(message)
            if reply is not None:
                self._replies[identifier] = reply
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that have come to these messages."""
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Deliver the messages and return the replies; `timeout` has nothing to wait for."""
        del timeout
        return self.pull_messages(self.push_messages(messages))

    def _deliver(self, message: Message) -> Message | None:
        try:
            reply = self._app(message, self._contexts[message.metadata.dst_node_id])
        except Exception:  # noqa: BLE001  (a node that crashes is an error reply, as in Flower)
            reply = Message(Error(_FAILED, "the node failed"), reply_to=message)
        return self._hook(reply) if self._hook else reply


def _identify() -> None:
    """Give this process an identity, which Flower's messages need, unless it has one."""
    for name in ("run_id", "task_id", "node_id"):
        try:
            getattr(TaskIdentity, name)
        except RuntimeError:
            setattr(TaskIdentity, name, 1 if name != "node_id" else _SERVER)
