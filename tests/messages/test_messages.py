"""Replies are untrusted: each way of being wrong is refused with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, RecordDict

from fedgame.errors import InvalidOrder, InvalidReply
from fedgame.messages.privacy_game import (
    Registration,
    RoundOrder,
    unpack_registration,
    unpack_round_order,
)
from fedgame.messages.records import pack
from fedgame.messages.registration import RegistrationOrder, unpack_registration_order
from fedgame.messages.training import (
    TrainOrder,
    TrainReply,
    unpack_train_order,
    unpack_train_reply,
)

ORDER = RoundOrder(
    round=3,
    parameters=np.arange(5, dtype=np.float32),
    mean_strength=0.25,
    grid=np.array([0.1, 0.3, 1.0]),
    choose=True,
    clients=np.array([0, 2, 4]),
    weights=np.array([0.1, 0.2, 0.3]),
    turns=np.zeros(3, dtype=np.int64),
    strengths=np.array([0.1, 0.1, 1.0]),
    public_loss=np.empty(0),
    run_name="run",
    ledger="/somewhere/node-0.sqlite",
)
COUNTS = np.array([10, 20, 30])
REPLY = TrainReply(
    clients=ORDER.clients,
    counts=COUNTS,
    strengths=np.array([0.3, 0.1, 1.0]),
    used=np.array([True, False, True]),
    update=np.array([1, -2, 3, -4, 5]),
)


def _read(content: RecordDict, order: RoundOrder = ORDER) -> TrainReply:
    return unpack_train_reply(content, order, COUNTS)


def test_orders_and_replies_survive_the_way() -> None:
    order = unpack_round_order(pack(ORDER))
    for name, value in vars(ORDER).items():
        assert np.array_equal(getattr(order, name), value), name
    reply = _read(pack(REPLY))
    for name, value in vars(REPLY).items():
        assert np.array_equal(getattr(reply, name), value), name
    registration_order = RegistrationOrder(1, 3, "run", "")
    assert unpack_registration_order(pack(registration_order)) == (registration_order)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"update": np.array([1.0, np.nan, 0, 0, 0])}, "dtype"),
        ({"update": np.array([1, 2, 3])}, "shape"),
        ({"strengths": np.array([0.3, np.nan, 1.0])}, "not finite"),
        ({"strengths": np.array([0.3, 0.2, 1.0])}, "outside the grid"),
        ({"strengths": np.array([0.3, 0.1])}, "shape"),
        ({"counts": np.array([10, 20, 31])}, "disagrees"),
        ({"counts": np.array([10.0, 20.0, 30.0])}, "dtype"),
        ({"clients": np.array([0, 2, 5])}, "not those that were asked"),
        ({"clients": np.array([2, 0, 4])}, "not those that were asked"),
        ({"used": np.array([False, False, False])}, "must be zero"),
    ],
)
def test_a_wrong_reply_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidReply, match=reason):
        _read(pack(replace(REPLY, **change)))


def test_a_strength_may_not_change_in_a_round_without_a_choice() -> None:
    order = replace(ORDER, choose=False)
    with pytest.raises(InvalidReply, match="without being asked"):
        _read(pack(REPLY), order)
    same = replace(REPLY, strengths=order.strengths)
    assert np.array_equal(_read(pack(same), order).strengths, order.strengths)


def _without_update(content: RecordDict) -> None:
    del content.array_records["arrays"]["update"]


def _lying_header(content: RecordDict) -> None:
    inner = Array(np.zeros(4, dtype=np.int64))
    lie = Array(dtype="int64", shape=(5,), stype=inner.stype, data=inner.data)
    content.array_records["arrays"]["update"] = lie


def _garbage(content: RecordDict) -> None:
    lie = Array(dtype="int64", shape=(5,), stype="numpy.ndarray", data=b"garbage")
    content.array_records["arrays"]["update"] = lie


def _oversized(content: RecordDict) -> None:
    lie = Array(dtype="int64", shape=(5,), stype="numpy.ndarray", data=b"\0" * 10_000_000)
    content.array_records["arrays"]["update"] = lie


def _pickled(content: RecordDict) -> None:
    import io

    buffer = io.BytesIO()
    np.save(buffer, np.array([{}] * 5, dtype=object), allow_pickle=True)
    lie = Array(dtype="int64", shape=(5,), stype="numpy.ndarray", data=buffer.getvalue())
    content.array_records["arrays"]["update"] = lie


def _array_with(data: bytes) -> Callable[[RecordDict], None]:
    def tamper(content: RecordDict) -> None:
        lie = Array(dtype="int64", shape=(5,), stype="numpy.ndarray", data=data)
        content.array_records["arrays"]["update"] = lie

    return tamper


def _npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def _empty(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord()


@pytest.mark.parametrize(
    "tamper",
    [
        _without_update,
        _lying_header,
        _garbage,
        _oversized,
        _pickled,
        _empty,
        _array_with(b"PK\x03\x04x"),
        _array_with(_npy(b"{'descr': '<i8', 'shape': (")),
        _array_with(_npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (10**13,), }\n")),
        _array_with(_npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }\n")),
    ],
)
def test_a_tampered_record_is_refused(tamper: Callable[[RecordDict], None]) -> None:
    content = pack(REPLY)
    tamper(content)
    with pytest.raises(InvalidReply):
        _read(content)


def _registration(**change: Any) -> RecordDict:
    base = Registration(
        clients=np.array([0, 2]),
        counts=np.array([5, 6]),
        betas=np.array([0.3, 1.0]),
        curvatures=np.zeros(2),
        own_noise=np.zeros(2, dtype=np.bool_),
        noise=np.array([7, -7]),
    )
    return pack(replace(base, **change))


@pytest.mark.parametrize(
    "change",
    [
        {"clients": np.array([0, 4])},
        {"clients": np.array([0, -1])},
        {"clients": np.array([2, 2])},
        {"clients": np.array([0.0, 2.0])},
        {"counts": np.array([5, 0])},
        {"counts": np.array([5])},
        {"betas": np.array([0.3, 0.0])},
        {"betas": np.array([0.3, np.inf])},
        {"curvatures": np.array([0.3, np.nan])},
        {"own_noise": np.array([1, 0])},
        {"noise": np.array([7.0, -7.0])},
        {"noise": np.array([7])},
    ],
)
def test_a_wrong_registration_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidReply):
        unpack_registration(_registration(**change), num_clients=4)


def test_a_registration_larger_than_the_run_is_refused() -> None:
    clients = np.arange(5)
    content = _registration(
        clients=clients,
        counts=clients + 1,
        betas=np.ones(5),
        curvatures=np.ones(5),
        own_noise=np.ones(5, dtype=np.bool_),
        noise=clients,
    )
    with pytest.raises(InvalidReply, match="at most 4"):
        unpack_registration(content, num_clients=4)


def test_an_honest_registration_passes() -> None:
    assert unpack_registration(_registration(), num_clients=4).counts.tolist() == [5, 6]


TRAIN_ORDER = TrainOrder(
    round=3,
    parameters=np.arange(5, dtype=np.float32),
    clients=np.array([0, 2, 2]),
    turns=np.array([0, 0, 1]),
    weights=np.array([0.1, 0.2, 0.3]),
    strengths=np.array([0.1, 0.1, 1.0]),
    run_name="run",
    ledger="",
)


@pytest.mark.parametrize(
    "change",
    [
        {"turns": np.array([0, 0, -(2**63)])},
        {"turns": np.array([0, 0, 0])},
        {"turns": np.array([0, 1, 2])},
        {"turns": np.array([0.0, 0.0, 1.0])},
        {"clients": np.array([2, 0, 2])},
        {"clients": np.array([0, 2])},
        {"strengths": np.array([0.1, np.nan, 1.0])},
        {"strengths": np.array([0.1, 0.0, 1.0])},
        {"round": 0},
        {"round": 1.5},
    ],
)
def test_an_order_that_would_mix_up_streams_is_refused(change: dict[str, Any]) -> None:
    assert unpack_train_order(pack(TRAIN_ORDER)).clients.tolist() == [0, 2, 2]
    with pytest.raises(InvalidOrder):
        unpack_train_order(pack(replace(TRAIN_ORDER, **change)))
