from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedgame.reports.summary import MAX_ROWS, model_sha256, strength_rounds, summarise


def test_model_sha256_is_over_little_endian_float32_bytes() -> None:
    values = [1.5, -2.25, 0.1]
    expected = hashlib.sha256(struct.pack("<3f", *values)).hexdigest()
    assert model_sha256(np.array(values, dtype=np.float32)) == expected
    assert model_sha256(np.array(values, dtype=">f4")) == expected
    assert model_sha256(np.array([1.5, 7, -2.25, 7, 0.1, 7], dtype=np.float32)[::2]) == expected


@pytest.mark.parametrize("extra", [0, 5])
def test_a_summary_lists_the_clients_at_most_risk(
    make_result: Any, config: Any, extra: int
) -> None:
    result = make_result(clients=MAX_ROWS + extra, rounds=1)
    guarantees = [float(k) for k in range(len(result.clients))]
    clients = tuple(
        replace(client, guarantee=value)
        for client, value in zip(result.clients, guarantees, strict=True)
    )
    summary = summarise(replace(result, clients=clients), config)
    assert summary["population"] == MAX_ROWS + extra
    assert {client["guarantee"] for client in summary["clients"]} == set(guarantees[extra:])


def test_an_unknown_guarantee_is_among_those_at_most_risk(make_result: Any, config: Any) -> None:
    result = make_result(clients=MAX_ROWS + 1, rounds=1)
    unknown = replace(result.clients[-1], guarantee=math.nan)
    summary = summarise(replace(result, clients=(*result.clients[:-1], unknown)), config)
    assert summary["clients"][0]["id"] == unknown.id


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
        "procurement": None,
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


def test_a_purchase_is_summarised(make_jsam: Any, jsam_config: Any) -> None:
    result = make_jsam()
    summary = summarise(result, jsam_config)
    assert summary["procurement"] == {
        "mechanism": "jsam",
        "eta": 5.0,
        "q": 1.5,
        "epsilon_max": 10.0,
        "budget": None,
        "expected_cost": 1.3141592,
        "total_payment": pytest.approx(0.7654321 * (1 + 1 / 2 + 1 / 3), rel=1e-15),
        "objective": 8.765432,
        "threshold": 3,
        "cap_binds": False,
        "ironed": False,
        "kkt_residual": 3.21e-13,
        "brute_force_gap": None,
        "implied_q": {"min": 10.034, "median": 12.456, "max": 18.207},
        "participants": 2,
        "draws": 5 + 9,
    }
    assert (summary["strategy"], summary["cell"], summary["exploitability"]) == ("jsam", None, None)


def test_a_seller_has_its_purchase_beside_what_it_spent(make_jsam: Any, jsam_config: Any) -> None:
    result = make_jsam()
    plain = summarise(replace(result, procurement=None), jsam_config)["clients"][0]
    client = summarise(result, jsam_config)["clients"][0]
    assert {key: client.pop(key) for key in client.keys() - plain.keys()} == {
        "report": 0.2,
        "virtual_cost": 0.4,
        "probability": 0.5,
        "bought": 1.234567,
        "spent": result.clients[0].epsilon["pld"],
        "payment": 0.7654321,
        "scheduled": 7,
        "released": 5,
    }
    assert client == plain


def test_a_purchase_without_draws_implies_no_number(make_jsam: Any, jsam_config: Any) -> None:
    result = make_jsam(implied_q=None, kkt_residual=math.nan, brute_force_gap=-1e-12)
    procurement = summarise(result, jsam_config)["procurement"]
    assert procurement["implied_q"] is None
    assert procurement["kkt_residual"] is None
    assert procurement["brute_force_gap"] == -1e-12


def test_rounds_that_were_not_recorded_count(make_jsam: Any, jsam_config: Any) -> None:
    assert summarise(make_jsam(rounds=3, every=5), jsam_config)["rounds"] == 15


def test_rows_of_strengths_are_of_recorded_rounds_or_of_all(make_result: Any) -> None:
    result = make_result(rounds=6)
    last = replace(result, rounds=result.rounds[2::3])
    assert strength_rounds(last) == [1, 2, 3, 4, 5, 6]
    assert strength_rounds(replace(last, strengths=result.strengths[2::3])) == [3, 6]
