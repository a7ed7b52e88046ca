"""Privacy procurement, whole runs in one process: what is bought is what is spent and paid."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, Message
from safetensors.numpy import load_file

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.errors import ConfigError, InvalidOrder, RunFailed
from fedgame.games.procurement.allocation import allocate
from fedgame.games.procurement.base import Terms
from fedgame.games.procurement.jsam import Jsam
from fedgame.games.procurement.virtual_cost import make_prior
from fedgame.ledger.events import SampledGaussian, UnaccountedRelease
from fedgame.ledger.replay import read_events, read_purchases
from fedgame.ledger.store import Ledger
from fedgame.messages.privacy_game import RoundOrder
from fedgame.messages.procurement import Contract
from fedgame.messages.registration import RegistrationOrder
from fedgame.messages.training import TrainOrder
from fedgame.randomness import generator, public_generator, secret_from_seed
from fedgame.runner import Finished, preflight, run_in_process
from fedgame.strategies.cohort import Cohort
from fedgame.strategies.data import federated_data
from fedgame.strategies.jsam_client import JsamClient
from fedgame.strategies.mfpg_client import MfpgClient
from fedgame.strategies.node import Node
from fedgame.strategies.settings import Experiment
from tests.support import SMALL, Run

JSAM: dict[str, Any] = {
    "strategy": "jsam",
    "rounds": 6,
    "procurement.draws": 3,
    "procurement.eta": 20.0,
    "accountant.name": "pld",
}
MECHANISMS = {
    "jsam": {},
    "usbm": {},
    "jsam-ci": {},
    "fsbm": {"fsbm.clients": 3},
    "bbm": {"bbm.clients": 3},
}

Tamper = Callable[[Message], Message | None]


def _flat(**overrides: Any) -> dict[str, Any]:
    return {**JSAM, **{key.replace("__", "."): value for key, value in overrides.items()}}


def _model(finished: Finished) -> Any:
    tensors = load_file(finished.folder / "model.safetensors")
    return np.concatenate([tensors[name].ravel() for name in tensors])


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_spends_what_it_bought(run: Run, name: str) -> None:
    finished = run({**JSAM, "procurement.name": name, **MECHANISMS[name]})
    purchases, events = read_purchases(finished.folder), read_events(finished.folder)
    assert finished.summary["status"] == "finished"
    scheduled = 0
    for client, purchase in purchases.items():
        updates = [e for e in events.get(client, []) if isinstance(e, SampledGaussian)]
        assert sum(event.steps for event in updates) == purchase.draws
        spent = PldAccountant().epsilon(updates, 1e-5)
        assert spent <= purchase.epsilon
        if purchase.draws:
            scheduled += 1
            assert spent >= 0.9 * purchase.epsilon
    assert scheduled >= 1
    assert sum(purchase.draws for purchase in purchases.values()) == 6 * 3


def test_the_allocation_is_that_of_the_library(run: Run) -> None:
    finished = run(_flat())
    purchases = read_purchases(finished.folder)
    reports = [purchases[client].report for client in range(5)]
    expected = public_generator(42, "sensitivities").random(5)
    assert reports == pytest.approx(expected)
    bought = allocate(Jsam(), reports, _uniform(), Terms(20.0, 1.0, 10.0))
    assert bought.payments is not None
    assert [purchases[k].epsilon for k in range(5)] == pytest.approx(bought.budgets)
    assert [purchases[k].payment for k in range(5)] == pytest.approx(bought.payments)
    assert finished.summary["procurement"]["expected_cost"] == pytest.approx(bought.expected_cost)


def _uniform() -> Any:
    from scipy import stats

    return make_prior(stats.uniform(0, 1))


def test_the_same_bits_on_any_number_of_nodes(run: Run) -> None:
    hashes = {run(JSAM, nodes=nodes).summary["model_sha256"] for nodes in (1, 2, 5)}
    assert len(hashes) == 1
    assert run({**JSAM, "seed": 43}).summary["model_sha256"] not in hashes


def test_a_plain_loop_gives_the_same_model(run: Run) -> None:
    """FedSGD, written again: the mean over a round's draws of clipped, noisy gradients."""
    experiment = config.load(
        {**SMALL, **JSAM, "task.name": "logistic", "gaussian.learning-rate": 0.5}
    )
    finished = run({**JSAM, "gaussian.learning-rate": 0.5})
    purchases = read_purchases(finished.folder)
    reports = [purchases[client].report for client in range(5)]
    p = allocate(Jsam(), reports, _uniform(), Terms(20.0, 1.0, 10.0)).probabilities
    places = np.searchsorted(
        np.cumsum(p) / p.sum(), public_generator(42, "schedule").random(18), "right"
    )
    data, secret = federated_data(experiment), secret_from_seed(42)
    w = experiment.task.initial_parameters(42).astype(np.float64)
    for round_, drawn in enumerate(places.reshape(6, 3), start=1):
        step = np.zeros_like(w)
        seen: Counter[int] = Counter()
        for client in drawn.tolist():
            own, turn = data.client(client), seen[client]
            seen[client] += 1
            batch = generator(secret, client, round_, "batch", turn).random(len(own)) < 0.25
            noise = generator(secret, client, round_, "noise", turn).standard_normal(len(w))
            divisor = 0.25 * len(own)
            total = _clipped_sum(w, own.inputs[batch], own.targets[batch])
            step += (total - purchases[client].noise_multiplier * noise) / divisor
        w = w - 0.5 * step / 3
    assert _model(finished) == pytest.approx(w, abs=2e-6)


def _clipped_sum(w: Any, inputs: Any, labels: Any) -> Any:
    """Return the sum of clipped logistic gradients, clipping norm 1; checked by differences."""
    total = np.zeros_like(w)
    for x, y in zip(inputs.astype(np.float64), labels, strict=True):
        features = np.append(x, 1.0)[: len(w)]
        gradient = (1 / (1 + np.exp(-features @ w)) - y) * features
        total += gradient / max(1.0, float(np.linalg.norm(gradient)))
    return total


def test_a_client_drawn_twice_in_a_round_has_two_batches_two_noises_two_charges(run: Run) -> None:
    finished = run(_flat(procurement__name="fsbm", fsbm__clients=1, rounds=2))
    with Ledger(finished.folder / "ledger.sqlite", read_only=True) as ledger:
        keys = [(row.round, row.step) for row in ledger.rows()]
    assert keys == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]


def _fails(node: int, round_: int) -> Tamper:
    """Lose a node's answer to one round."""

    def hook(reply: Message) -> Message | None:
        meta = reply.metadata
        lost = meta.message_type == "train" and meta.src_node_id == node
        return None if lost and meta.group_id == str(round_) else reply

    return hook


def test_a_lost_update_is_charged_and_replaced_by_nobody(run: Run) -> None:
    whole, lossy = run(JSAM), run(JSAM, hook=_fails(1, 3))
    assert lossy.summary["status"] == "finished"
    # the update left its client, whoever received it
    assert read_events(lossy.folder) == read_events(whole.folder)
    assert lossy.summary["model_sha256"] != whole.summary["model_sha256"]


def test_a_client_that_breaks_down_is_charged_for_what_it_released(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = JsamClient.train

    def breaks(self: JsamClient, order: TrainOrder) -> Any:
        if order.round > 3 and 0 in order.clients:
            raise RuntimeError("power cut")
        return honest(self, order)

    monkeypatch.setattr(JsamClient, "train", breaks)
    finished = run({**JSAM, "procurement.name": "usbm"}, nodes=5)
    purchases, events = read_purchases(finished.folder), read_events(finished.folder)
    assert finished.summary["status"] == "finished"
    for client, purchase in purchases.items():
        released = sum(e.steps for e in events.get(client, []) if isinstance(e, SampledGaussian))
        assert released < purchase.draws if client == 0 else released == purchase.draws
    (first,) = [c for c in finished.summary["clients"] if c["id"] == 0]
    assert first["spent"] < first["bought"]
    assert first["payment"] == purchases[0].payment


def test_a_client_that_does_not_report_is_left_out_and_not_paid(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(reply: Message) -> Message | None:
        silent = reply.metadata.message_type == "query.register"
        return None if silent and reply.metadata.src_node_id == 2 else reply

    with caplog.at_level(logging.WARNING, logger="fedgame"):
        finished = run(JSAM, nodes=5, hook=hook)
    assert "no valid reply of node 2" in caplog.text
    assert sorted(read_purchases(finished.folder)) == [0, 2, 3, 4]
    assert [client["id"] for client in finished.summary["clients"]] == [0, 2, 3, 4]
    assert any("1 clients did not answer" in note for note in finished.summary["notes"])


def test_a_report_outside_the_support_is_rejected(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(reply: Message) -> Message | None:
        meta = reply.metadata
        if meta.message_type == "query.register" and meta.src_node_id == 3:
            records = reply.content.array_records["arrays"]
            records["sensitivities"] = Array(np.array([1.5]))
        return reply

    with caplog.at_level(logging.WARNING, logger="fedgame"):
        finished = run(JSAM, nodes=5, hook=hook)
    assert "report of client 0 = 1.5: must be from 0.0 to 1.0" in caplog.text
    assert 2 not in read_purchases(finished.folder)


def test_a_client_that_signs_nothing_is_neither_drawn_nor_paid(run: Run) -> None:
    def hook(reply: Message) -> Message | None:
        silent = reply.metadata.message_type == "query.contract"
        return None if silent and reply.metadata.src_node_id == 1 else reply

    finished = run({**JSAM, "procurement.name": "usbm"}, nodes=5, hook=hook)
    assert 0 not in read_events(finished.folder)
    first = finished.summary["clients"][0]
    assert (first["payment"], first["bought"], first["spent"]) == (0.0, 0.0, 0.0)
    assert any("1 clients signed no contract" in note for note in finished.summary["notes"])


def test_nobody_signs_nothing_runs(run: Run) -> None:
    def hook(reply: Message) -> Message | None:
        return None if reply.metadata.message_type == "query.contract" else reply

    with pytest.raises(RunFailed, match="no client that the schedule draws has signed"):
        run(JSAM, hook=hook)


def test_a_misreport_changes_budget_and_payment_as_the_mechanism_says(run: Run) -> None:
    honest = run(JSAM).summary["clients"]
    lying = run(_flat(**{"procurement__misreport-client": 1, "procurement__misreport-factor": 1.3}))
    liar = lying.summary["clients"][1]
    assert liar["report"] == pytest.approx(min(1.3 * honest[1]["report"], 1.0))
    assert liar["bought"] <= honest[1]["bought"]
    truth = honest[1]["report"]
    gain = (liar["payment"] - truth * liar["bought"]) - (
        honest[1]["payment"] - truth * honest[1]["bought"]
    )
    assert gain <= 1e-6 * honest[1]["payment"]


def test_the_largest_losses_are_a_release_without_a_guarantee(run: Run) -> None:
    finished = run(_flat(procurement__name="bbm", bbm__clients=2))
    events = read_events(finished.folder)
    assert all(
        sum(isinstance(event, UnaccountedRelease) for event in history) == 1
        for history in events.values()
    )
    assert finished.summary["unaccounted"] == ["initial loss"]
    assert finished.summary["procurement"]["threshold"] == 2


def test_a_budget_is_what_payments_cost_on_average(run: Run) -> None:
    finished = run(_flat(procurement__budget=3.0, procurement__eta=1.0))
    eta = finished.summary["procurement"]["eta"]
    rng, prior = np.random.default_rng(7), _uniform()
    costs = [
        allocate(Jsam(), prior.draw(rng, (5,)), prior, Terms(eta, 1.0, 10.0), payments=False)
        for _ in range(1500)
    ]
    found = np.array([allocation.expected_cost for allocation in costs])
    # eta was found on 200 other draws
    assert found.mean() == pytest.approx(3.0, abs=4 * found.std() / np.sqrt(200))


def test_evaluation_can_be_rarer_than_rounds(run: Run) -> None:
    often, rarely = run(JSAM), run({**JSAM, "evaluate-every": 4})
    assert rarely.summary["model_sha256"] == often.summary["model_sha256"]
    assert (rarely.summary["rounds"], rarely.summary["accuracy"]) == (6, often.summary["accuracy"])
    lines = (rarely.folder / "metrics.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["round", "4", "6"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"procurement.name": "fsbm", "fsbm.clients": 6}, "fsbm.clients = 6: must be at most"),
        ({"procurement.name": "bbm", "bbm.clients": 6}, "bbm.clients = 6: must be at most"),
        ({"procurement.eta": 0.0}, "procurement.eta = 0.0: "),
        ({"procurement.q": -1.0}, "procurement.q = -1.0: "),
        ({"procurement.budget": -1.0}, "procurement.budget = -1.0: "),
        ({"procurement.budget": 5.0}, "procurement.eta = 20.0: not used with procurement.budget"),
        ({"cell": "dp-sgd"}, "cell = 'dp-sgd': belongs to strategy"),
        ({"procurement.draws": 10**6, "rounds": 10**6}, "must be at most 1e.08"),
        ({"procurement.epsilon-max": 1e-110}, "procurement.epsilon-max = 1e-110: "),
        ({"procurement.distribution": "beta:2:12"}, "truncate it by c_max"),
        (
            {"procurement.budget": 99.0, "procurement.eta": 1.0},
            "procurement.budget = 99.0: must be",
        ),
        ({"procurement.distribution": "poisson:1"}, "procurement.distribution = 'poisson:1': "),
        ({"procurement.misreport-client": 5}, "procurement.misreport-client = 5: must be below"),
        ({"game.name": "mapg"}, "game.name = 'mapg': must be"),
        ({"accountant.max-epsilon": 1.0}, "accountant.max-epsilon = 1.0: must be 0"),
        ({"similarity.percent": 101}, "similarity.percent = 101: "),
    ],
)
def test_bad_input_is_one_error_before_training(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preflight(config.load({**SMALL, **JSAM, **overrides}))


# what the client half refuses, whatever the server says


def _experiment() -> Experiment:
    return config.load({**SMALL, **JSAM})


def _client(experiment: Experiment) -> JsamClient:
    return JsamClient(experiment, Node({}))


def _contract(folder: Path, **changes: Any) -> Contract:
    fields: dict[str, Any] = {
        "clients": np.array([0, 1]),
        "reports": public_generator(42, "sensitivities").random(5)[:2],
        "budgets": np.array([1.0, 1.0]),
        "payments": np.array([1.0, 1.0]),
        "draws": np.array([2, 1]),
        "noise_multipliers": np.array([3.0, 3.0]),
        "delta": 1e-5,
        "run_name": "run",
        "ledger": str(folder / "node-0.sqlite"),
    }
    return Contract(**{**fields, **changes})


def _order(experiment: Experiment, folder: Path, round_: int, **changes: Any) -> TrainOrder:
    counts = federated_data(experiment).counts[[0, 1]]
    fields: dict[str, Any] = {
        "round": round_,
        "parameters": experiment.task.initial_parameters(42),
        "clients": np.array([0, 1]),
        "turns": np.array([0, 0]),
        "weights": np.full(2, 1 / 3),
        "strengths": 0.5 * experiment.mechanism.step_size * (3.0 / (0.25 * counts)) ** 2,
        "run_name": "run",
        "ledger": str(folder / "node-0.sqlite"),
    }
    return TrainOrder(**{**fields, **changes})


def test_a_contract_that_costs_more_than_it_buys_is_refused(tmp_path: Path) -> None:
    client = _client(_experiment())
    contract = _contract(tmp_path, noise_multipliers=np.array([3.0, 0.4]))
    assert client.sign(contract).accepted.tolist() == [True, False]
    with Ledger(tmp_path / "node-0.sqlite") as ledger:
        assert list(ledger.purchases()) == [0]


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": 0.99},
        {"budgets": np.array([1.0, 1e300])},
        {"payments": np.array([1.0, 0.1])},
        {"reports": np.array([public_generator(42, "sensitivities").random(5)[0], 0.01])},
        {"draws": np.array([2, 19])},
        {"clients": np.array([0, 7])},
    ],
)
def test_a_contract_on_other_terms_than_the_public_ones_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    accepted = _client(_experiment()).sign(_contract(tmp_path, **changes)).accepted
    assert not accepted[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"training.sampling-rate": 1.0},
        {"training.neighbours": "client"},
        {"training.local-steps": 20},
    ],
)
def test_a_contract_is_for_one_configuration(tmp_path: Path, changes: dict[str, Any]) -> None:
    experiment = _experiment()
    assert _client(experiment).sign(_contract(tmp_path)).accepted.all()
    other = config.load({**SMALL, **JSAM, **changes})
    large = _order(experiment, tmp_path, 1).strengths * 1e6
    with pytest.raises(InvalidOrder, match="client 0 has signed no contract for this config"):
        _client(other).train(_order(other, tmp_path, 1, strengths=large))


def test_a_client_that_sold_plays_no_other_game_in_the_same_run(tmp_path: Path) -> None:
    _client(_experiment()).sign(_contract(tmp_path))
    other = config.load({**SMALL, "cell": "dp-sgd"})
    order = RoundOrder(
        **vars(_order(other, tmp_path, 1)),
        mean_strength=0.0,
        grid=np.empty(0),
        choose=False,
        public_loss=np.empty(0),
    )
    with pytest.raises(InvalidOrder, match="client 0 sold a budget in this run"):
        MfpgClient(other, Node({})).train(order)
    assert read_rows(tmp_path) == []


def test_two_orders_at_once_do_not_share_a_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = _experiment()
    slow, fast = _client(experiment), _client(experiment)
    slow.sign(_contract(tmp_path, draws=np.array([1, 1])))
    honest = Cohort.train

    def overtaken(self: Cohort, round_: int, *args: Any) -> Any:
        if round_ == 1:
            fast.train(_order(experiment, tmp_path, 2))
        return honest(self, round_, *args)

    monkeypatch.setattr(Cohort, "train", overtaken)
    with pytest.raises(InvalidOrder, match="client 0 has given 1 of 1 draws"):
        slow.train(_order(experiment, tmp_path, 1))
    assert [row.round for row in read_rows(tmp_path)] == [2, 2]


def test_a_deployed_node_serves_its_own_client_in_its_own_folder(tmp_path: Path) -> None:
    experiment = _experiment()
    report = float(public_generator(42, "sensitivities").random(5)[0])
    node = Node({"data": str(tmp_path), "partition-id": 1, "sensitivity": report})
    client = JsamClient(experiment, node)
    both = _contract(tmp_path, reports=np.full(2, report))
    assert client.sign(both).accepted.tolist() == [False, True]
    with pytest.raises(InvalidOrder, match="must be a plain folder name"):
        client.sign(_contract(tmp_path, run_name="../evil"))


@pytest.mark.parametrize("steps", [2, 4])
def test_a_draw_of_many_local_steps_is_one_draw(run: Run, steps: int) -> None:
    finished = run({**JSAM, "training.local-steps": steps})
    for client in finished.summary["clients"]:
        assert client["released"] == client["scheduled"]
        assert client["spent"] <= client["bought"]


def test_a_round_in_which_nobody_may_be_asked_is_no_end(run: Run) -> None:
    def hook(reply: Message) -> Message | None:
        silent = reply.metadata.message_type == "query.contract"
        return None if silent and reply.metadata.src_node_id == 1 else reply

    alone = {"procurement.name": "usbm", "procurement.draws": 1, "rounds": 12}
    finished = run({**JSAM, **alone}, nodes=5, hook=hook)
    assert finished.summary["status"] == "finished"
    # a deal that the server did not see signed is none
    assert 0 not in read_purchases(finished.folder)


def test_no_more_is_given_than_was_bought(tmp_path: Path) -> None:
    experiment = _experiment()
    client = _client(experiment)
    client.sign(_contract(tmp_path))
    client.train(_order(experiment, tmp_path, 1))
    with pytest.raises(InvalidOrder, match="client 1 has given 1 of 1 draws, 1 more are asked"):
        client.train(_order(experiment, tmp_path, 2))
    # a new process, such as another worker of the simulation, knows it too
    with pytest.raises(InvalidOrder, match="client 1 has given 1 of 1 draws"):
        _client(experiment).train(_order(experiment, tmp_path, 2))
    with Ledger(tmp_path / "node-0.sqlite") as ledger:
        assert [(row.client, row.round) for row in ledger.rows()] == [(0, 1), (1, 1)]


def test_less_noise_than_agreed_is_refused(tmp_path: Path) -> None:
    experiment = _experiment()
    client = _client(experiment)
    client.sign(_contract(tmp_path))
    order = _order(experiment, tmp_path, 1)
    with pytest.raises(InvalidOrder, match=r"client 0 agreed to the noise multiplier 3\.0"):
        client.train(_order(experiment, tmp_path, 1, strengths=0.9 * order.strengths))


def test_without_a_contract_nothing_is_given(tmp_path: Path) -> None:
    experiment = _experiment()
    with pytest.raises(InvalidOrder, match="client 0 has signed no contract"):
        _client(experiment).train(_order(experiment, tmp_path, 1))
    assert not (tmp_path / "node-0.sqlite").exists() or read_rows(tmp_path) == []


def read_rows(folder: Path) -> list[Any]:
    with Ledger(folder / "node-0.sqlite") as ledger:
        return ledger.rows()


def test_a_deployed_client_reports_its_own_sensitivity(tmp_path: Path) -> None:
    experiment = config.load({**SMALL, **JSAM})
    node = Node({"data": str(tmp_path), "partition-id": 3, "sensitivity": 0.125})
    report = JsamClient(experiment, node).report(RegistrationOrder(0, 5, "run", ""))
    assert report.clients.tolist() == [3]
    assert report.sensitivities.tolist() == [0.125]
    assert report.own_noise.tolist() == [True]


def test_the_user_is_told_what_a_purchase_is_busy_with(tmp_path: Path) -> None:
    said: list[str] = []
    bought = {"procurement.budget": 3.0, "procurement.eta": 1.0}
    flat = {**SMALL, **JSAM, **bought, "output-dir": str(tmp_path)}
    run_in_process(
        config.load(flat), 1, lambda record: said.append(getattr(record, "message", "round"))
    )
    assert said == [
        "finding the eta at which 5 clients cost 3",
        "choosing and paying by jsam",
        "fitting the noise of 5 clients to their budgets",
        *["round"] * 6,
    ]
