from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedgame.reports.summary import model_sha256, summarise


def test_model_sha256_is_over_little_endian_float32_bytes() -> None:
    values = [1.5, -2.25, 0.1]
    expected = hashlib.sha256(struct.pack("<3f", *values)).hexdigest()
    assert model_sha256(np.array(values, dtype=np.float32)) == expected
    assert model_sha256(np.array(values, dtype=">f4")) == expected
    assert model_sha256(np.array([1.5, 7, -2.25, 7, 0.1, 7], dtype=np.float32)[::2]) == expected


def test_summary_says_what_ran_and_what_came_out(make_result: Any, config: Any) -> None:
    summary = summarise(make_result(), config)
    assert summary | {"clients": [], "model_sha256": ""} == {
        "status": "finished",
        "reason": "",
        "strategy": "mfpg",
        "cell": "mfpg",
        "task": "digits",
        "mode": "sound",
        "neighbours": "example",
        "delta": 1e-5,
        "accountant": "pld",
        "population": 4,
        "seed": 42,
        "rounds": 3,
        "planned_rounds": 3,
        "accuracy": pytest.approx(0.5 + 0.2 / 3),
        "loss": pytest.approx(2 / 3),
        "model_sha256": "",
        "s_bar": pytest.approx((1.0 + 0.1 + 0.3 + 1.0) / 4),
        "exploitability": 0.125,
        "worst_epsilon": 4.96801,
        "notes": ["The realised values are ex post."],
        "unaccounted": [],
        "clients": [],
    }
    assert summary["clients"][1] == {
        "id": 1,
        "num_examples": 101,
        "beta": 1.5,
        "strength": 0.2,
        "noise_multiplier": 3.0,
        "epsilon": {"pld": 2.75, "order2": 10.75},
        "guarantee": pytest.approx(4.71801),
        "realised": 2.75,
        "claimed_delta": 0.0909090909,
        "sound_delta_at_epsilon_1": pytest.approx(0.5891 / 4),
    }


def test_numpy_scalars_become_plain_numbers(make_result: Any, config: Any) -> None:
    result = make_result()
    client = replace(result.clients[0], id=np.int64(3), guarantee=np.float64(1.25))
    summary = summarise(replace(result, clients=(client,)), config)
    assert type(summary["clients"][0]["id"]) is int
    assert type(summary["worst_epsilon"]) is float


@pytest.mark.parametrize("value", [math.inf, -math.inf, np.float64("nan"), np.float32("inf")])
def test_numbers_that_are_not_finite_become_null(make_result: Any, value: float) -> None:
    result = make_result()
    last = replace(result.rounds[-1], loss=value, accuracy=value, mean_strength=value)
    client = replace(result.clients[0], guarantee=value, epsilon={"pld": value}, realised=value)
    result = replace(result, rounds=(*result.rounds[:-1], last), clients=(client,))
    summary = summarise(result, {"accountant.delta": value})
    text = json.dumps(summary, allow_nan=False)
    back = json.loads(text)
    for key in ("loss", "accuracy", "s_bar", "worst_epsilon", "delta"):
        assert back[key] is None
    assert back["clients"][0]["epsilon"] == {"pld": None}


def test_an_unknown_guarantee_is_not_hidden_by_a_known_one(make_result: Any, config: Any) -> None:
    result = make_result()
    unknown = replace(result.clients[1], guarantee=math.nan)
    result = replace(result, clients=(result.clients[0], unknown, *result.clients[2:]))
    assert summarise(result, config)["worst_epsilon"] is None


def test_run_that_failed_at_once_has_a_summary(make_result: Any) -> None:
    result = make_result(
        clients=0,
        rounds=0,
        status="failed",
        reason="2 of 4 nodes came",
        parameters=np.zeros(0, dtype=np.float32),
        tensors=(),
    )
    summary = summarise(result, {})
    assert (summary["status"], summary["reason"]) == ("failed", "2 of 4 nodes came")
    assert summary["rounds"] == 0
    assert summary["accuracy"] is None
    assert summary["worst_epsilon"] is None


def test_run_without_client_records_keeps_its_last_guarantee(make_result: Any, config: Any) -> None:
    assert summarise(make_result(clients=0, rounds=2), config)["worst_epsilon"] == 4.96801
