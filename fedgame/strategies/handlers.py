"""The ClientApp: routes Flower's messages to the client half, and lets no exception text out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from fedgame.errors import DuplicateRow, FedgameError
from fedgame.strategies import CLIENTS
from fedgame.strategies.client_half import ClientHalf
from fedgame.strategies.collector import collector_paused
from fedgame.strategies.federation import CONTRACT, MESSAGE, REGISTER, TRAIN
from fedgame.strategies.node import Node
from fedgame.strategies.settings import Experiment, Scalar
from fedgame.strategies.threads import single_thread

log = logging.getLogger(__name__)

Loader = Callable[[Mapping[str, Scalar]], Experiment]
"""Turns a flat configuration into an experiment."""

FAILED, REFUSED, REPLAYED = 1001, 1002, 1003
"""Codes of error replies. Their text is fixed, since an exception's could carry data."""

_CACHED_NODES = 64


def make_client_app(load: Loader) -> ClientApp:
    """Return a ClientApp that serves any experiment that `load` accepts."""
    app = ClientApp()
    halves: dict[tuple[object, ...], ClientHalf] = {}

    def half(context: Context) -> ClientHalf:
        key = (context.run_id, *context.run_config.items(), *context.node_config.items())
        if key not in halves:
            if len(halves) >= _CACHED_NODES:
                halves.clear()
            experiment = load(context.run_config)
            cls = CLIENTS.get(experiment.run.strategy)
            halves[key] = cls(experiment, Node(context.node_config))
        return halves[key]

    def answer(action: str, message: Message, context: Context) -> Message:
        return _answer(
            message,
            context,
            lambda content: half(context).answer(action, content, context.state),
        )

    app.query("register")(partial(answer, REGISTER))
    app.query("contract")(partial(answer, CONTRACT))
    app.query("message")(partial(answer, MESSAGE))
    app.train()(partial(answer, TRAIN))
    return app


def _answer(
    message: Message, context: Context, half: Callable[[RecordDict], RecordDict]
) -> Message:
    """Run the client half, on one thread if bits matter; an error becomes a fixed error reply."""
    deterministic = bool(context.run_config.get("deterministic", True))
    try:
        with single_thread() if deterministic else nullcontext(), collector_paused():
            return Message(half(message.content), reply_to=message)
    except DuplicateRow:
        log.warning("a round that was answered before was asked for again: refused")
        return Message(Error(REPLAYED, "this round was answered before"), reply_to=message)
    except FedgameError as error:
        log.error("refused: %s", error)
        return Message(Error(REFUSED, "the node refused; its log says why"), reply_to=message)
    except Exception as error:
        if Node(context.node_config).data is None:
            log.exception("a simulated node failed")
        else:
            log.error("the node failed: %s", type(error).__name__)
        return Message(Error(FAILED, "the node failed; its log says why"), reply_to=message)
