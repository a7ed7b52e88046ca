"""The ClientApp lets no exception text out, and answers a round once."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict

from fedgame import config
from fedgame.client_app import app
from fedgame.local_grid import LocalGrid
from fedgame.messages.privacy_game import RoundOrder
from fedgame.messages.records import pack, to_bytes
from fedgame.strategies.handlers import FAILED, REFUSED, REPLAYED
from tests.support import SMALL


def _order(folder: Path, round_: int = 1) -> RoundOrder:
    return RoundOrder(
        round=round_,
        parameters=np.zeros(20, dtype=np.float32),
        mean_strength=0.01,
        grid=np.array([0.003, 0.01]),
        choose=True,
        clients=np.array([0, 2]),
        weights=np.array([0.2, 0.2]),
        turns=np.zeros(2, dtype=np.int64),
        strengths=np.array([0.01, 0.01]),
        public_loss=np.empty(0),
        run_name="run",
        ledger=str(folder / "node-0.sqlite"),
    )


def _ask(content: RecordDict, overrides: dict[str, Any] | None = None) -> Message:
    grid = LocalGrid(app, 1, {**config.load({**SMALL, **(overrides or {})}).flat})
    message = grid.create_message(content, "train", 1, "1")
    (reply,) = grid.send_and_receive([message])
    return reply


def test_a_replayed_round_gets_the_same_reply_and_another_of_it_is_refused(tmp_path: Path) -> None:
    content = pack(_order(tmp_path))
    first, same = _ask(content), _ask(content)
    assert not first.has_error()
    assert to_bytes(same.content) == to_bytes(first.content)
    again = _ask(pack(replace(_order(tmp_path), mean_strength=9.0)))
    assert again.has_error()
    assert again.error.code == REPLAYED
    assert not _ask(pack(_order(tmp_path, round_=2))).has_error()


def test_an_exceptions_text_stays_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("secret value 0.123")

    monkeypatch.setattr("fedgame.strategies.mfpg_client.MfpgClient.train", broken)
    with caplog.at_level(logging.ERROR, logger="fedgame"):
        reply = _ask(pack(_order(tmp_path)))
    assert reply.error.code == FAILED
    assert "0.123" not in str(reply.error.reason)
    # a simulated node may say more in its own log, a deployed one may not
    assert "secret value" in caplog.text


def test_a_deployed_node_logs_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("secret value 0.123")

    monkeypatch.setattr("fedgame.strategies.mfpg_client.MfpgClient.train", broken)
    grid = LocalGrid(app, 1, config.load(SMALL).flat)
    message = grid.create_message(pack(_order(tmp_path)), "train", 1, "1")
    context = Context(
        run_id=1,
        node_id=1,
        node_config={"partition-id": 0, "data": str(tmp_path)},
        state=RecordDict(),
        run_config=dict(config.load(SMALL).flat),
    )
    reply = app(message, context)
    assert reply.error.code == FAILED
    assert "secret value" not in caplog.text + str(reply.error.reason)


def test_a_ledger_that_cannot_be_written_refuses_the_round(tmp_path: Path) -> None:
    (tmp_path / "node-0.sqlite").write_bytes(b"this is no ledger, and it is in the way")
    reply = _ask(pack(_order(tmp_path)))
    assert reply.error.code == REFUSED


def test_garbage_is_an_error_reply() -> None:
    assert _ask(RecordDict()).error.code == FAILED
