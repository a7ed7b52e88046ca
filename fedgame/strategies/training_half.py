"""What the server halves share that train a model: rounds, validated updates, evaluation."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedgame.messages.training import TrainOrder, TrainReply, unpack_train_reply
from fedgame.strategies.aggregation import to_float
from fedgame.strategies.base import RoundRecord
from fedgame.strategies.bounds import check_update, update_bound
from fedgame.strategies.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from fedgame.strategies.data import federated_data
from fedgame.strategies.federation import TRAIN
from fedgame.strategies.server_half import ServerHalf
from fedgame.tasks.evaluation import evaluate

log = logging.getLogger(__name__)

DIVERGES = (
    "; updates that were not finite or too large were left out (does the training diverge? try a "
    "smaller step size or strength)"
)


class TrainingHalf(ServerHalf, ABC):
    """A server half with a model; see `ServerHalf`."""

    def __init__(self, *args: Any) -> None:
        """Load data and model, then register the nodes; see `ServerHalf`."""
        experiment = args[0]
        self._data = federated_data(experiment)
        self._module = experiment.task.module()
        self._parameters = experiment.task.initial_parameters(experiment.run.seed)
        self._left_out, self._done = 0, 0
        self._rounds: list[RoundRecord] = []
        super().__init__(*args)

    def public_counts(self, clients: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the clients' numbers of examples in the public partition."""
        return self._data.counts[clients]

    @property
    def heard(self) -> Sequence[RoundRecord]:
        """What the listener was told so far; of a run that goes on, also before it was killed."""
        return self._rounds

    def _keep(
        self, done: int, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]
    ) -> None:
        """Write down where the run stands after a round, with what a system has to add."""
        write_checkpoint(
            self._folder,
            Checkpoint(
                {"parameters": self._parameters, **arrays},
                {
                    "done": done,
                    "left_out": self._left_out,
                    "rounds": [asdict(record) for record in self._rounds],
                    **settings,
                },
            ),
        )

    def resume(self) -> None:
        """Go on from the last checkpoint, if the first round came to its end; see `ServerHalf`."""
        found = read_checkpoint(self._folder)
        if found is None:
            return
        self._done = found.settings["done"]
        self._parameters = found.arrays["parameters"]
        self._left_out = found.settings["left_out"]
        self._rounds = [RoundRecord(**record) for record in found.settings["rounds"]]
        self._restore(found)

    @abstractmethod
    def _restore(self, found: Checkpoint) -> None:
        """Take from a checkpoint what the system added to it in `_keep`."""

    def _train_round(self, orders: Mapping[int, TrainOrder]) -> dict[int, TrainReply]:
        """Send out a round and return the updates that an honest node could have sent."""
        if not orders:
            return {}
        round_ = next(iter(orders.values())).round
        return self._ask(orders, TRAIN, round_, self._read_update)

    def _read_update(self, _: int, content: RecordDict, order: TrainOrder) -> TrainReply:
        counts = self._hosts.counts[np.searchsorted(self._hosts.clients, order.clients)]
        reply = unpack_train_reply(content, order, counts)
        sizes = [parameter.numel() for parameter in self._module.parameters()]
        bound = update_bound(self._experiment, self._parameters, sizes, order.largest_strength)
        check_update(reply, order, bound)
        return reply

    def _add(self, round_: int, replies: Mapping[int, TrainReply]) -> None:
        """Add the sum of the updates to the model; an update that is missing counts as zero."""
        total = np.zeros(len(self._parameters), dtype=np.int64)
        for reply in replies.values():
            total += reply.update
            for client in reply.clients[~reply.used]:
                self._left_out += 1
                log.warning("round %d: update of client %d left out%s", round_, client, DIVERGES)
        self._parameters = (self._parameters + to_float(total)).astype(np.float32)

    def _evaluate(self) -> tuple[float, float | None]:
        """Return loss and accuracy on the public test set."""
        task, test = self._experiment.task, self._data.test
        return evaluate(task, self._module, self._parameters, test)

    @property
    def _tensors(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        named = self._module.named_parameters()
        return tuple((name, tuple(tensor.shape)) for name, tensor in named)

    def _is_due(self, round_: int) -> bool:
        """Return whether the model is evaluated after this round."""
        run = self._experiment.run
        return round_ % run.evaluate_every == 0 or round_ == run.rounds
