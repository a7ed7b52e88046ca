"""Whole runs in the data reading: one charge a client, the same bits everywhere, refusals."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from typer.testing import CliRunner

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.cli import app as command
from fedgame.errors import AccountingError, InvalidOrder
from fedgame.ledger.events import LedgerRow
from fedgame.ledger.replay import LEDGER_FILE
from fedgame.ledger.store import Ledger
from fedgame.local_grid import ReplyHook
from fedgame.messages.privacy_game import RoundOrder
from fedgame.randomness import secret_from_seed
from fedgame.strategies import mfpg_client
from fedgame.strategies.aggregation import to_float, weighted_sum
from fedgame.strategies.burn_in import burn_in_events, burn_in_of
from fedgame.strategies.cohort import Cohort
from fedgame.strategies.data import FederatedData, federated_data
from fedgame.strategies.mfpg_client import MfpgClient
from fedgame.strategies.node import Node
from fedgame.strategies.settings import Experiment
from fedgame.tasks.base import Examples
from tests.support import SMALL, Run

DATA: dict[str, Any] = {
    "cell": "mfep",
    "jko.reading": "data",
    "jko.sinkhorn": False,
    "jko.tau": 0.1,
    "jko.strength": 1.0,
    "burn-in.learning-rate": 1.0,
    "rounds": 3,
}
RANDOM_LABELS = {"burn-in.labels": "randomised-response", "burn-in.label-epsilon": 1.5}
PRESETS = Path(__file__).resolve().parents[1] / "experiments" / "flow"


def rows_of(folder: Path) -> list[LedgerRow]:
    with Ledger(folder / LEDGER_FILE) as ledger:
        return ledger.rows()


def test_a_plain_loop_gives_the_same_bits_as_any_number_of_nodes(run: Run) -> None:
    flat = {**DATA, **RANDOM_LABELS}
    experiment = config.load({**SMALL, **flat})
    data, secret = federated_data(experiment), secret_from_seed(experiment.run.seed)
    cohorts = [Cohort(experiment, data, [k], secret) for k in range(5)]
    weights = data.counts / data.counts.sum()
    parameters = experiment.task.initial_parameters(experiment.run.seed)
    for round_ in (1, 2, 3):
        total = np.zeros(len(parameters), dtype=np.int64)
        for cohort, weight in zip(cohorts, weights, strict=True):
            update = cohort.train(round_, parameters, np.ones(1)).updates
            total += weighted_sum(update, np.array([weight]))
        parameters = (parameters + to_float(total)).astype(np.float32)
    found = {run(flat, nodes=nodes).summary["model_sha256"] for nodes in (1, 2, 5)}
    assert found == {hashlib.sha256(parameters.tobytes()).hexdigest()}


def lose_in_round_1(reply: Message) -> Message | None:
    metadata = reply.metadata
    first = metadata.message_type == "train" and metadata.group_id == "1"
    return None if first and metadata.src_node_id == 2 else reply


def lose_always(reply: Message) -> Message | None:
    trains = reply.metadata.message_type == "train"
    return None if trains and reply.metadata.src_node_id == 2 else reply


@pytest.mark.parametrize(
    ("labels", "hook"), [({}, None), (RANDOM_LABELS, lose_in_round_1), ({}, lose_always)]
)
def test_one_charge_a_client_also_if_replies_are_lost(
    run: Run, labels: dict[str, Any], hook: ReplyHook | None
) -> None:
    flat = {**DATA, **labels, "rounds": 4}
    finished = run(flat, nodes=5, hook=hook)
    assert finished.summary["status"] == "finished"
    expected = burn_in_events(config.load({**SMALL, **flat}), 50)
    rows = rows_of(finished.folder)
    for client in range(5):
        own = [row for row in rows if row.client == client]
        assert [row.event for row in own] == expected
        assert {row.round for row in own} == {0}
    for client in finished.summary["clients"]:
        assert client["guarantee"] == client["realised"]


def order_of(experiment: Experiment, round_: int) -> RoundOrder:
    return RoundOrder(
        round=round_,
        parameters=experiment.task.initial_parameters(0),
        clients=np.array([0]),
        turns=np.array([0]),
        weights=np.array([1.0]),
        strengths=np.array([1.0]),
        run_name="run",
        ledger="",
        mean_strength=0.0,
        grid=np.empty(0),
        choose=False,
        public_loss=np.empty(0),
    )


def test_a_node_whose_examples_changed_does_not_burn_in_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same noise on other examples would show the difference."""
    experiment = config.load({**SMALL, **DATA})
    node = Node({"partition-id": 0, "data": str(tmp_path)})
    MfpgClient(experiment, node).train(order_of(experiment, 1))
    again = MfpgClient(experiment, node).train(order_of(experiment, 2))  # after a restart
    assert again.used.all()
    known = federated_data(experiment)
    inputs = known.train.inputs.copy()
    inputs[known.indices[0][3]] += 0.25
    other = FederatedData(Examples(inputs, known.train.targets), known.indices, known.test)
    monkeypatch.setattr(mfpg_client, "federated_data", lambda _: other)
    with pytest.raises(InvalidOrder, match="client 0 burnt in with other examples in this run"):
        MfpgClient(experiment, node).train(order_of(experiment, 3))


def test_batches_of_particles_are_not_those_that_amplify_noisy_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Noiseless rounds show their batches and cost nothing: any number of them may be asked for."""
    draw = Cohort._batches
    seen: list[str] = []

    def watched(self: Cohort, round_: int, purpose: str, *args: Any) -> Any:
        seen.append(purpose)
        return draw(self, round_, purpose, *args)

    monkeypatch.setattr(Cohort, "_batches", watched)
    for reading in ("data", "parameters"):
        flat = {**SMALL, **DATA, "jko.reading": reading, "training.sampling-rate": 0.5}
        experiment = config.load(flat)
        cohort = Cohort(experiment, federated_data(experiment), [0], b"k" * 32)
        cohort.train(1, experiment.task.initial_parameters(0), np.ones(1))
    assert len(seen) == 2
    assert seen[1] == "batch"
    assert seen[0] != seen[1]


def test_the_guarantee_is_the_burn_in_whatever_the_number_of_rounds(run: Run) -> None:
    short, long = (run({**DATA, "rounds": rounds}).summary for rounds in (1, 4))
    burn_in = burn_in_of(config.load({**SMALL, **DATA}), 50)
    for one, other in zip(short["clients"], long["clients"], strict=True):
        assert one["guarantee"] == other["guarantee"]
        assert one["guarantee"] == PldAccountant().epsilon([burn_in.event()], 1e-5)
        assert one["noise_multiplier"] == pytest.approx(1 / burn_in.mu)
        assert one["claimed_delta"] is None
        assert set(one["epsilon"]) == {"pld", "rdp", "order2"}
    assert any(note.startswith("Data reading: ") for note in long["notes"])
    assert long["model_sha256"] != short["model_sha256"]


def test_a_budget_below_the_burn_in_stops_the_run_before_it(run: Run) -> None:
    finished = run({**DATA, "accountant.max-epsilon": 0.5})
    assert finished.summary["rounds"] == 0
    assert rows_of(finished.folder) == []
    assert not any("particles" in note for note in finished.summary["notes"])


def audit(folder: Path, name: str) -> Any:
    words = ["audit", str(folder), "--accountant", name, "--json"]
    return CliRunner().invoke(command.app, words)


def test_every_sound_accountant_can_be_asked_later(run: Run) -> None:
    flat = {**DATA, **RANDOM_LABELS, "accountant.max-epsilon": 9.0}
    finished = run(flat)
    assert finished.summary["rounds"] == 3
    found = {}
    for name in ("pld", "rdp", "order2", "flow"):
        clients = json.loads(audit(finished.folder, name).stdout)["clients"]
        assert {client["releases"] for client in clients} == {2}
        found[name] = clients[0]["epsilon"]
        if name != "flow":
            assert found[name] == finished.summary["clients"][0]["epsilon"][name]
    assert found["pld"] <= found["rdp"] <= found["order2"]
    # labels are covered by Gaussian DP, and not equal to it
    assert found["flow"] > found["pld"]
    expected = burn_in_events(config.load({**SMALL, **flat}), 50)
    assert finished.summary["worst_epsilon"] == PldAccountant().epsilon(expected, 1e-5)
    (note,) = [note for note in finished.summary["notes"] if note.startswith("Data reading")]
    assert "declared public: numbers of examples;" in note


@pytest.mark.parametrize(
    ("name", "flat", "reason"),
    [
        ("lsi", DATA, "lsi: the paper's claim needs a bound G on the loss gradient in x"),
        ("contraction", DATA, "contraction: in the data reading the local steps have no noise"),
        ("flow", {"cell": "mfep"}, 'flow: only a run with jko.reading = "data" burns in'),
        ("flow", {"cell": "dp-sgd"}, 'flow: only a run with jko.reading = "data" burns in'),
    ],
)
def test_what_an_accountant_cannot_say_it_refuses(
    name: str, flat: dict[str, Any], reason: str
) -> None:
    with pytest.raises(AccountingError, match=re.escape(reason)):
        config.accountant(name, config.load({**SMALL, **flat}))


def test_the_flow_accountant_refuses_another_run_at_the_command_line(run: Run) -> None:
    result = audit(run({"cell": "mfep", "rounds": 1}).folder, "flow")
    assert isinstance(result.exception, AccountingError)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["cell=mfpg"], "jko.reading = 'data': is for cell = \"mfep\" alone"),
        (["jko.sinkhorn=true"], "jko.sinkhorn = True"),
        (["task.name=mnist"], "no Lipschitz constant G_x, as for a network with ReLU"),
        (["task.name=quadratic", "burn-in.labels=randomised-response"], "burn-in.labels"),
        (["training.clip=average", "training.neighbours=client"], "training.clip = 'average'"),
        (["jko.noise-multiplier=2"], "jko.noise-multiplier = 2"),
        (["burn-in.steps=400"], "burn-in.steps = 400: gives a client with 500 examples"),
    ],
)
def test_refusals_as_the_user_sees_them(
    changes: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [word for change in changes for word in ("-c", change)]
    preset = str(PRESETS / "logistic.toml")
    monkeypatch.setattr("sys.argv", ["fedgame", "run", "--no-flower", preset, *words])
    with pytest.raises(SystemExit) as caught:
        command.main()
    assert caught.value.code == 2
    seen = capsys.readouterr().err
    assert says in seen
    assert seen.count("\n") == 1


def test_a_burn_in_that_does_not_decay_runs_and_says_so(run: Run) -> None:
    finished = run({**DATA, "jko.strength": 22.0})
    (note,) = [note for note in finished.summary["notes"] if note.startswith("Data reading")]
    assert "tau (pull + G_x) 2.2 >= 2: c = 1.2, the particles do not forget" in note
    assert note in (finished.folder / "report.html").read_text().replace("&gt;", ">")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "epsilon", "measure", "low", "high"),
    # by chance 0.5; without training 0.5
    [("logistic", 1.4, "accuracy", 0.7, 0.9), ("quadratic", 5.5, "loss", 0.1, 0.35)],
)
def test_the_presets_learn_within_their_epsilon(
    run: Run, task: str, epsilon: float, measure: str, low: float, high: float
) -> None:
    flat = dict(config.read_toml(PRESETS / f"{task}.toml"))
    summary = run({**flat, "evaluate-every": flat["rounds"]}).summary
    assert summary["worst_epsilon"] < epsilon
    assert low < summary[measure] < high
