"""Waiting for nodes, and what is made of registrations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedgame.errors import RunFailed
from fedgame.local_grid import LocalGrid
from fedgame.messages.privacy_game import Registration
from fedgame.messages.records import pack
from fedgame.messages.registration import RegistrationOrder
from fedgame.strategies import federation
from fedgame.strategies.federation import Hosts, exchange, wait_for_nodes


def _unused(message: Message, context: Any) -> Message:
    raise AssertionError((message, context))


class SlowGrid(LocalGrid):
    """Nodes register one by one."""

    def __init__(self, nodes: int) -> None:
        super().__init__(_unused, nodes, {})
        self.looks = 0

    def get_node_ids(self) -> list[int]:
        self.looks += 1
        return list(range(1, min(self.looks, 4) + 1))


def test_all_wanted_nodes_are_waited_for() -> None:
    assert wait_for_nodes(SlowGrid(4), 4, timeout=30) == [1, 2, 3, 4]


def test_without_a_number_the_nodes_must_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation, "_SETTLE_SECONDS", 0.5)
    assert wait_for_nodes(SlowGrid(4), 0, timeout=30) == [1, 2, 3, 4]


def test_missing_nodes_are_counted() -> None:
    with pytest.raises(RunFailed, match=r"nodes = 5: 4 nodes came in 1.5 s, 5 are needed"):
        wait_for_nodes(SlowGrid(4), 5, timeout=1.5)


def _registration(*clients: int) -> Registration:
    numbers = np.array(clients)
    return Registration(
        numbers, numbers + 10, numbers > 0, numbers, numbers + 0.5, np.zeros(len(numbers))
    )


def test_registrations_are_put_in_the_order_of_the_clients() -> None:
    hosts = Hosts.gather([7, 8], {7: _registration(3, 0), 8: _registration(1)})
    assert hosts.clients.tolist() == [0, 1, 3]
    assert hosts.counts.tolist() == [10, 11, 13]
    assert hosts.declared["betas"].tolist() == [0.5, 1.5, 3.5]
    assert hosts.positions[7].tolist() == [2, 0]
    assert hosts.places == {7: 0, 8: 1}


def test_a_node_that_names_anothers_client_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    hosts = Hosts.gather([7, 8], {7: _registration(0, 1), 8: _registration(1, 2)})
    assert hosts.clients.tolist() == [0, 1]
    assert "node 8 names a client of another node" in caplog.text


def test_a_node_that_crashes_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    grid = LocalGrid(_unused, 2, {})
    orders = {
        node: pack(RegistrationOrder(place, 2, "run", "")) for place, node in enumerate((1, 2))
    }
    replies = exchange(grid, orders, "query.register", 0, 1.0, lambda _, content: content)
    assert replies == {}
    assert "node 1 failed (code 1)" in caplog.text


class ScriptedGrid(LocalGrid):
    """Gives what it is told to give, look by look, whatever was asked for."""

    def __init__(self, looks: list[list[Message]]) -> None:
        super().__init__(_unused, 2, {})
        self.looks = looks

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        return [f"asked {message.metadata.dst_node_id}" for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        del message_ids
        return self.looks.pop(0) if self.looks else []


def _reply(node: int, answers: str, text: str) -> Message:
    ScriptedGrid([])  # gives this process an identity
    order = Message(RecordDict(), node, "train", group_id="3")
    reply = Message(RecordDict({"said": ConfigRecord({"text": text})}), reply_to=order)
    reply.metadata.__dict__["_reply_to_message_id"] = answers
    return reply


def _heard(looks: list[list[Message]], timeout: float) -> dict[int, str]:
    return exchange(
        ScriptedGrid(looks),
        {1: RecordDict(), 2: RecordDict()},
        "train",
        3,
        timeout,
        lambda _, content: str(content.config_records["said"]["text"]),
    )


def test_a_reply_counts_once_and_for_the_message_that_it_answers() -> None:
    first = _reply(1, "asked 1", "first")
    looks = [
        [_reply(1, "of another round", "replayed"), first],
        [first, _reply(1, "asked 1", "second thoughts"), _reply(2, "asked 2", "other")],
    ]
    assert _heard(looks, timeout=10) == {1: "first", 2: "other"}


def test_an_answer_for_another_node_is_rejected(caplog: pytest.LogCaptureFixture) -> None:
    looks = [[_reply(1, "asked 1", "mine"), _reply(1, "asked 2", "not mine")]]
    assert _heard(looks, timeout=10) == {1: "mine"}
    assert "an answer for node 2 from another: rejected" in caplog.text


def test_a_late_reply_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    never: list[list[Message]] = [[]] * 10_000
    late = [[_reply(1, "asked 1", "in time")], *never, [_reply(2, "asked 2", "too late")]]
    assert _heard(late, timeout=0.3) == {1: "in time"}
    assert "round 3: no valid reply of node 2" in caplog.text
