"""Orders and replies of aggregative games: what survives the way, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedgame.errors import InvalidOrder, InvalidReply
from fedgame.messages.aggregative import (
    MessageOrder,
    MessageReply,
    PlayerDeclaration,
    unpack_message_order,
    unpack_message_reply,
    unpack_player_declaration,
)
from fedgame.messages.records import pack

ORDER = MessageOrder(
    iteration=3,
    first=1,
    players=np.array([0, 2, 5]),
    scales=np.array([1.0, 2.0, 1.5]),
    heard=np.arange(12.0).reshape(3, 2, 1, 2),
    own=np.arange(12.0).reshape(3, 2, 2),
    run_name="run",
    ledger="/somewhere/node-0.sqlite",
)
MESSAGES = np.array([[1.0, -2.0], [3.0, 4.0], [5.0, 6.0]])


def equal(first: object, second: object) -> bool:
    pairs = zip(vars(first).values(), vars(second).values(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_orders_declarations_and_replies_survive_the_way() -> None:
    assert equal(unpack_message_order(pack(ORDER), 4), ORDER)
    reply = unpack_message_reply(pack(MessageReply(MESSAGES)), ORDER, 2)
    assert reply.messages.tolist() == MESSAGES.tolist()
    ones, flags = np.ones(3, dtype=np.int64), np.array([True, False, True])
    declared = PlayerDeclaration(np.array([1, 4, 2]), ones, flags, ones, ~flags)
    assert equal(unpack_player_declaration(pack(declared), 5), declared)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"iteration": 4}, "iterations 1 to 4: 4 exist"),
        ({"iteration": 0}, "iterations 1 to 0: 4 exist"),
        ({"first": -1}, "iterations -1 to 3"),
        ({"iteration": 3.0}, "iterations must be whole numbers"),
        ({"first": True}, "iterations must be whole numbers"),
        ({"players": np.array([0, 5, 2])}, "do not fit each other"),
        ({"players": np.array([0, 2, 2])}, "do not fit each other"),
        ({"players": np.array([0, 2])}, "do not fit each other"),
        ({"players": np.array([0.0, 2.0, 5.0])}, "players must be int64 with 1 axes"),
        ({"scales": np.ones((3, 1))}, "scales must be float64 with 1 axes"),
        ({"scales": np.array([1.0, np.nan, 1.0])}, "scales must be numbers up to"),
        ({"heard": np.zeros((3, 1, 1, 2))}, "do not fit each other"),
        ({"heard": np.full((3, 2, 1, 2), np.inf)}, "heard must be numbers up to"),
        ({"heard": np.full((3, 2, 1, 2), 1e13)}, "heard must be numbers up to"),
        ({"heard": np.zeros((3, 2, 1, 2), dtype=np.complex128)}, "heard must be float64"),
        ({"own": np.zeros((3, 2, 3))}, "do not fit each other"),
        ({"own": 1.0}, "own must be float64"),
    ],
)
def test_a_wrong_order_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidOrder, match=reason):
        unpack_message_order(pack(replace(ORDER, **change)), 4)


def test_an_order_of_another_kind_is_refused() -> None:
    content = pack(ORDER)
    content["settings"] = ConfigRecord({"iteration": 3, "surprise": 1})
    with pytest.raises(InvalidOrder, match="it is no order for messages"):
        unpack_message_order(content, 4)


def _with(name: str, record: Any) -> RecordDict:
    content = pack(MessageReply(MESSAGES))
    content[name] = record
    return content


@pytest.mark.parametrize(
    "content",
    [
        _with("settings", ConfigRecord({"x": 0.25})),
        _with("more", ArrayRecord({"x": Array(MESSAGES)})),
        _with("arrays", ArrayRecord({"messages": Array(MESSAGES), "x": Array(MESSAGES)})),
        _with("metrics", MetricRecord({"loss": 1.0})),
    ],
)
def test_a_reply_that_holds_more_than_messages_is_refused(content: RecordDict) -> None:
    with pytest.raises(InvalidReply, match="holds something else than messages"):
        unpack_message_reply(content, ORDER, 2)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (MESSAGES[:2], "has dtype float64 and shape"),
        (MESSAGES[:, :1], "has dtype float64 and shape"),
        (MESSAGES.astype(np.float32), "has dtype float32"),
        (np.where(MESSAGES == 3.0, np.nan, MESSAGES), "is not finite"),
    ],
)
def test_messages_that_are_none_are_refused(messages: Any, reason: str) -> None:
    with pytest.raises(InvalidReply, match=reason):
        unpack_message_reply(pack(MessageReply(messages)), ORDER, 2)
