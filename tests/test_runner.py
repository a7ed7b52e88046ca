"""Whole runs in one process, seen from the outside: folder, summary, ledger, log."""

from __future__ import annotations

import csv
import json
import logging
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, Message
from safetensors.numpy import load_file

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.accountants.rdp import RdpAccountant
from fedgame.errors import ConfigError, RunFailed
from fedgame.ledger.events import PureDPChoice, SampledGaussian, UnaccountedRelease
from fedgame.ledger.replay import read_events
from fedgame.runner import Finished
from tests.support import SMALL, Run

CELLS = ("dp-sgd", "mfep", "mapg-dp", "mfpg")


def _parameters(finished: Finished) -> dict[str, Any]:
    return dict(load_file(finished.folder / "model.safetensors"))


@pytest.mark.parametrize("task", ["quadratic", "logistic", "digits"])
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_runs_on_every_task(run: Run, cell: str, task: str) -> None:
    summary = run({"cell": cell, "task.name": task, "rounds": 2}).summary
    assert (summary["status"], summary["cell"], summary["task"]) == ("finished", cell, task)
    assert summary["rounds"] == 2
    assert (summary["accuracy"] is None) == (task == "quadratic")
    assert (summary["exploitability"] is None) == (cell in ("dp-sgd", "mfep"))
    for client in summary["clients"]:
        assert client["noise_multiplier"] > 0
        assert client["realised"] <= client["guarantee"] * (1 + 1e-9)
        assert (client["claimed_delta"] is None) == (cell in ("dp-sgd", "mapg-dp"))


def test_the_run_folder_holds_everything(run: Run) -> None:
    finished = run()
    names = {path.name for path in finished.folder.iterdir()}
    assert names == {
        "clients.csv",
        "config.toml",
        "ledger.sqlite",
        "metrics.csv",
        "model.safetensors",
        "report.html",
        "strengths.csv",
        "summary.json",
        "versions.json",
    }
    assert json.loads((finished.folder / "summary.json").read_text()) == finished.summary
    resolved = config.read_toml(finished.folder / "config.toml")
    assert config.load(resolved).flat == resolved
    assert tomllib.loads((finished.folder / "config.toml").read_text())["cell"] == "mfpg"
    with (finished.folder / "metrics.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == SMALL["rounds"]


@pytest.mark.parametrize("cell", CELLS)
def test_the_same_bits_on_any_number_of_nodes(run: Run, cell: str) -> None:
    hashes = {run({"cell": cell}, nodes=nodes).summary["model_sha256"] for nodes in (1, 2, 5)}
    assert len(hashes) == 1
    assert run({"cell": cell, "seed": 43}).summary["model_sha256"] not in hashes


def test_a_network_has_the_same_bits_on_any_number_of_nodes(run: Run, mnist_like: Path) -> None:
    overrides = {
        "task.name": "mnist",
        "task.data-dir": str(mnist_like),
        "task.verify-checksums": False,
        "mnist.hidden": "16, 8",
        "rounds": 2,
    }
    hashes = {run(overrides, nodes=nodes).summary["model_sha256"] for nodes in (1, 2, 5)}
    assert len(hashes) == 1


def test_without_determinism_the_model_agrees_to_1e_5(run: Run) -> None:
    exact = _parameters(run())
    free = _parameters(run({"deterministic": False}))
    for name, value in exact.items():
        np.testing.assert_allclose(free[name], value, atol=1e-5)


def test_evaluation_can_be_rarer_than_rounds(run: Run) -> None:
    often, rarely = run(), run({"evaluate-every": 3})
    assert rarely.summary["model_sha256"] == often.summary["model_sha256"]
    for key in ("rounds", "accuracy", "s_bar", "worst_epsilon", "exploitability"):
        assert rarely.summary[key] == often.summary[key]
    for name, rounds in (("metrics.csv", ["3", "4"]), ("strengths.csv", ["1", "2", "3", "4"])):
        lines = (rarely.folder / name).read_text().splitlines()
        assert [line.split(",")[0] for line in lines[1:]] == rounds


def test_a_run_that_stops_early_still_says_what_it_reached(run: Run) -> None:
    whole = run()
    limit = whole.summary["worst_epsilon"] - 1e-6
    summary = run({"evaluate-every": 4, "accountant.max-epsilon": limit}).summary
    assert summary["rounds"] == 3
    assert summary["accuracy"] is not None


def test_ledger_and_summary_say_the_same(run: Run) -> None:
    finished = run()
    events = read_events(finished.folder)
    for client in finished.summary["clients"]:
        history = events[client["id"]]
        updates = [event for event in history if isinstance(event, SampledGaussian)]
        choices = [event for event in history if isinstance(event, PureDPChoice)]
        assert (len(updates), len(choices)) == (4, 2)
        assert updates[-1].strength == client["strength"]
        assert client["epsilon"]["pld"] == pytest.approx(PldAccountant().epsilon(history, 1e-5))
        assert client["epsilon"]["rdp"] == pytest.approx(RdpAccountant().epsilon(history, 1e-5))
        assert client["realised"] == client["epsilon"]["pld"]


def test_local_steps_are_charged_one_by_one(run: Run) -> None:
    events = read_events(run({"cell": "dp-sgd", "training.local-steps": 3, "rounds": 2}).folder)
    assert [event.steps for event in events[0] if isinstance(event, SampledGaussian)] == [3, 3]


def test_a_calibrated_run_costs_at_most_its_target(run: Run) -> None:
    summary = run({"cell": "dp-sgd", "gaussian.target-epsilon": 2.0}).summary
    guarantees = [client["guarantee"] for client in summary["clients"]]
    assert max(guarantees) <= 2.0
    assert min(guarantees) > 1.95


def test_nearly_always_empty_batches_still_release_and_cost(run: Run) -> None:
    overrides = {"cell": "dp-sgd", "gaussian.calibration": "noise-multiplier"}
    finished = run({**overrides, "training.sampling-rate": 1e-4})
    assert finished.summary["status"] == "finished"
    assert all(len(history) == 4 for history in read_events(finished.folder).values())
    assert any(np.abs(value).max() > 0 for value in _parameters(finished).values())


def test_a_diverging_client_is_left_out_and_named(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    # the prior's pull tau s is far above 2: each step overshoots
    with caplog.at_level(logging.WARNING, logger="fedgame"):
        finished = run({"cell": "mfep", "jko.strength": 1e9})
    assert finished.summary["status"] == "failed"
    assert "round 2: update of client 0 left out" in caplog.text
    assert "does the training diverge?" in finished.summary["reason"]


def test_client_level_neighbours_get_no_amplification(run: Run) -> None:
    finished = run({"cell": "mfep", "training.neighbours": "client", "jko.strength": 1.0})
    for history in read_events(finished.folder).values():
        for event in history:
            assert isinstance(event, SampledGaussian)
            assert (event.neighbours, event.sampling_rate) == ("client", 1.0)
    assert finished.summary["neighbours"] == "client"


@pytest.mark.parametrize("selection", ["public", "argmin"])
def test_more_privacy_sensitive_clients_choose_larger_strengths(run: Run, selection: str) -> None:
    # one client's loss curve for all: what differs is the preference alone
    overrides = {
        "mean-field.selection": selection,
        "partition.name": "iid",
        "population.beta-min": 0.01,
        "population.beta-max": 100.0,
        "num-clients": 8,
        "logistic.examples-per-client": 400,
    }
    clients = run(overrides).summary["clients"]
    assert [client["beta"] for client in clients] == sorted(client["beta"] for client in clients)
    strengths = [client["strength"] for client in clients]
    assert strengths == sorted(strengths)
    assert strengths[-1] > strengths[0]


def test_a_public_choice_costs_nothing_and_argmin_is_flagged(run: Run) -> None:
    public = run({"mean-field.selection": "public"})
    kinds = {type(event) for events in read_events(public.folder).values() for event in events}
    assert kinds == {SampledGaussian}
    argmin = run({"mean-field.selection": "argmin"})
    kinds = {type(event) for events in read_events(argmin.folder).values() for event in events}
    assert kinds == {SampledGaussian, UnaccountedRelease}
    assert any("argmin choice" in note for note in argmin.summary["notes"])
    assert argmin.summary["unaccounted"] == ["argmin choice"]
    assert public.summary["unaccounted"] == []
    report = (argmin.folder / "report.html").read_text()
    assert "No guarantee covers all that was sent (argmin choice)" in report
    assert "Every client is guaranteed" not in report


def test_committed_strengths_stay_and_are_guaranteed_as_chosen(run: Run) -> None:
    finished = run({"mean-field.schedule": "commit"})
    with (finished.folder / "strengths.csv").open() as stream:
        rows = [row[1:] for row in csv.reader(stream)][1:]
    assert all(row == rows[0] for row in rows)
    for client in finished.summary["clients"]:
        assert client["guarantee"] == pytest.approx(client["realised"], rel=1e-9)


@pytest.mark.parametrize("schedule", ["commit", "every-round"])
def test_a_lost_choice_is_guaranteed_at_the_smallest_strength(run: Run, schedule: str) -> None:
    overrides = {"mean-field.schedule": schedule, "mean-field.noise-multiplier-grid": "1, 8"}
    finished = run(overrides, nodes=5, hook=_in_round(1, 2, _lose))
    for client in finished.summary["clients"]:
        assert client["realised"] <= client["guarantee"] * (1 + 1e-9)
    lost = finished.summary["clients"][1]
    reference = run({"cell": "mfep", "jko.noise-multiplier": 1.0}, nodes=5)
    assert lost["guarantee"] > reference.summary["clients"][1]["guarantee"]


def test_a_committed_choice_cannot_pass_the_budget_unseen(run: Run) -> None:
    overrides = {"mean-field.schedule": "commit", "mean-field.noise-multiplier-grid": "1, 50"}
    limit = run({"cell": "mfep", "jko.noise-multiplier": 3.0, "rounds": 1}).summary["worst_epsilon"]
    stopped = run({**overrides, "accountant.max-epsilon": limit})
    assert stopped.summary["rounds"] == 0


def test_a_run_stops_before_a_budget_would_be_exceeded(run: Run) -> None:
    free = run({"cell": "mfep", "rounds": 6}).summary
    limit = 0.7 * free["worst_epsilon"]
    stopped = run({"cell": "mfep", "rounds": 6, "accountant.max-epsilon": limit})
    assert stopped.summary["status"] == "finished"
    assert 0 < stopped.summary["rounds"] < 6
    assert "accountant.max-epsilon" in stopped.summary["reason"]
    assert stopped.summary["worst_epsilon"] <= limit
    for name in ("model.safetensors", "report.html", "ledger.sqlite"):
        assert (stopped.folder / name).exists()


def test_a_budget_too_small_for_one_round_releases_nothing(run: Run) -> None:
    finished = run({"cell": "mfep", "accountant.max-epsilon": 1e-6})
    assert finished.summary["rounds"] == 0
    assert read_events(finished.folder) == {}
    assert np.abs(np.concatenate([v.ravel() for v in _parameters(finished).values()])).max() == 0


Tamper = Callable[[Message], Message | None]


def _in_round(round_: int, node: int, tamper: Tamper) -> Tamper:
    def hook(reply: Message) -> Message | None:
        metadata = reply.metadata
        hit = metadata.message_type == "train" and metadata.group_id == str(round_)
        return tamper(reply) if hit and metadata.src_node_id == node else reply

    return hook


def _lose(_: Message) -> None:
    return None


def _replace(name: str, change: Callable[[Any], Any]) -> Tamper:
    def tamper(reply: Message) -> Message:
        arrays = reply.content.array_records["arrays"]
        arrays[name] = Array(change(arrays[name].numpy()))
        return reply

    return tamper


def _nan(value: Any) -> Any:
    return np.full_like(value, np.nan)


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (_lose, "no valid reply"),
        (_replace("strengths", _nan), "strengths is not finite"),
        (_replace("strengths", lambda value: value * 1.5), "outside the grid"),
        (_replace("update", lambda value: value[:-1]), "shape"),
        (_replace("update", lambda value: value.astype(np.float64)), "dtype"),
        (_replace("update", lambda value: value + 2**60), "larger than any honest"),
        (_replace("counts", lambda value: value * 1000), "disagrees with the registered"),
        (_replace("clients", lambda value: value + 1), "not those that were asked"),
    ],
)
def test_a_bad_reply_is_rejected_and_the_round_goes_on(
    run: Run, caplog: pytest.LogCaptureFixture, tamper: Tamper, why: str
) -> None:
    with caplog.at_level(logging.WARNING, logger="fedgame"):
        finished = run(nodes=5, hook=_in_round(3, 2, tamper))
    assert why in caplog.text
    assert finished.summary["status"] == "finished"
    with (finished.folder / "metrics.csv").open() as stream:
        assert [int(row["clients"]) for row in csv.DictReader(stream)] == [5, 5, 4, 5]
    # what the client released is charged, whether or not it was used
    assert all(len(history) == 6 for history in read_events(finished.folder).values())


def test_a_missing_update_is_zero_and_no_weight_changes(run: Run) -> None:
    alone = {"cell": "mfep", "rounds": 1}
    whole = _parameters(run(alone, nodes=5))
    parts = [_parameters(run(alone, nodes=5, hook=_only(node))) for node in range(1, 6)]
    for name, value in whole.items():
        # five runs with one client's update each: their sum is the run with all five
        total = np.sum([part[name].astype(np.float64) for part in parts], axis=0)
        np.testing.assert_allclose(total, value, atol=1e-6)


def _only(node: int) -> Tamper:
    def hook(reply: Message) -> Message | None:
        trains = reply.metadata.message_type == "train"
        return None if trains and reply.metadata.src_node_id != node else reply

    return hook


def test_too_few_replies_end_the_run_with_everything_kept(run: Run) -> None:
    def hook(reply: Message) -> Message | None:
        late = reply.metadata.message_type == "train" and reply.metadata.group_id == "3"
        return None if late else reply

    finished = run(hook=hook)
    assert finished.summary["status"] == "failed"
    assert "min-clients = 1: round 3 has 0 valid updates" in finished.summary["reason"]
    assert finished.summary["rounds"] == 2
    assert (finished.folder / "report.html").exists()
    for client in finished.summary["clients"]:
        assert client["realised"] <= client["guarantee"] * (1 + 1e-9)
    # the third round's releases were made and are charged, though nobody received them
    assert all(client["epsilon"]["pld"] > 0 for client in finished.summary["clients"])
    assert all(
        sum(isinstance(event, SampledGaussian) for event in history) == 3
        for history in read_events(finished.folder).values()
    )


def test_too_few_registrations_end_the_run_before_any_round(run: Run) -> None:
    def hook(reply: Message) -> Message | None:
        return None if reply.metadata.src_node_id == 1 else reply

    with pytest.raises(RunFailed, match="min-clients = 5: only 2 clients registered"):
        run({"min-clients": 5}, hook=hook)


def _registers(node: int, tamper: Tamper) -> Tamper:
    def hook(reply: Message) -> Message | None:
        asked = reply.metadata.message_type == "query.register"
        return tamper(reply) if asked and reply.metadata.src_node_id == node else reply

    return hook


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (_replace("counts", lambda value: value * 10**6), "disagrees with the public partition"),
        (_replace("counts", lambda value: value * 0 + 1), "disagrees with the public partition"),
        (_replace("betas", lambda value: value * 0 + 5e-324), "disagrees with the public"),
        (_replace("clients", lambda value: value * 0 + 3), "disagrees with the public"),
    ],
)
def test_a_false_registration_changes_nobodys_weight(
    run: Run, caplog: pytest.LogCaptureFixture, tamper: Tamper, why: str
) -> None:
    # partitions of different sizes, so that a client's number shows in its count
    uneven = {"partition.name": "dirichlet", "dirichlet.alpha": 1.0}
    with caplog.at_level(logging.WARNING, logger="fedgame"):
        finished = run(uneven, nodes=5, hook=_registers(2, tamper))
    assert why in caplog.text
    assert finished.summary["status"] == "finished"
    assert [client["id"] for client in finished.summary["clients"]] == [0, 2, 3, 4]
    assert finished.summary["population"] == 4


def test_a_node_cannot_register_the_clients_of_others(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    def all_of_them(reply: Message) -> Message:
        arrays = reply.content.array_records["arrays"]
        numbers = np.arange(5)
        arrays["clients"] = Array(numbers)
        arrays["counts"] = Array(np.full(5, 50))
        arrays["betas"] = Array(np.geomspace(0.3, 3.0, 5))
        arrays["curvatures"] = Array(np.zeros(5))
        arrays["own_noise"] = Array(np.zeros(5, dtype=np.bool_))
        arrays["noise"] = Array(np.zeros(5, dtype=np.int64))
        return reply

    finished = run(nodes=5, hook=_registers(1, all_of_them))
    assert "neither those of the node's place nor a single one" in caplog.text
    assert [client["id"] for client in finished.summary["clients"]] == [1, 2, 3, 4]


def test_a_row_that_contradicts_a_nodes_ledger_is_told_and_loses_nothing(run: Run) -> None:
    def another(value: Any) -> Any:
        # another strength of the grid, which is all that the server can check
        return np.where(value == value.min(), value.min() * 12.25 / 4, value)

    grid = {"mean-field.strength-grid": "0.01, 0.030625, 1"}
    finished = run(grid, nodes=5, hook=_in_round(1, 2, _replace("strengths", another)))
    if finished.summary["status"] == "finished":
        pytest.skip("the client did not choose the smallest strength")
    assert "ledger" in finished.summary["reason"]
    assert (finished.folder / "model.safetensors").exists()
    assert (finished.folder / "report.html").exists()


def test_a_client_that_never_registered_has_no_weight(run: Run) -> None:
    def hook(reply: Message) -> Message | None:
        return None if reply.metadata.src_node_id == 1 else reply

    finished = run(hook=hook)
    assert [client["id"] for client in finished.summary["clients"]] == [1, 3]
    assert finished.summary["status"] == "finished"


def test_an_unreachable_target_is_said_before_any_round(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gaussian\.target-epsilon = 1e-09: .*out of reach"):
        run({"cell": "dp-sgd", "gaussian.target-epsilon": 1e-9})
    assert not list(tmp_path.glob("*/summary.json"))


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ({"cell": "mfep", "jko.strength": 1e-12}, "jko.strength"),
        ({"cell": "mfep", "jko.strength": 1e29}, "jko.strength"),
        ({"cell": "mfep", "jko.noise-multiplier": 1e-5}, "jko.noise-multiplier"),
        ({"mean-field.noise-multiplier-grid": "1e-5, 1e8"}, "mean-field.noise-multiplier-grid"),
        (
            {"cell": "dp-sgd", "gaussian.calibration": "paper", "gaussian.target-epsilon": 1e9},
            "gaussian.target-epsilon",
        ),
    ],
)
def test_senseless_noise_is_refused_before_any_round(
    run: Run, tmp_path: Path, overrides: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{key} = .*noise multiplier .* must be between"):
        run(overrides)
    assert not list(tmp_path.glob("*/node-*.sqlite"))


def test_an_output_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="output-dir"):
        run({"output-dir": str(tmp_path / "file" / "below")})


def test_missing_data_is_said_with_how_to_get_them(run: Run, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"task\.data-dir.*task\.download") as caught:
        run({"task.name": "mnist", "task.data-dir": str(tmp_path / "nowhere")})
    assert "\n" not in str(caught.value)


def test_two_runs_of_one_name_have_two_folders(run: Run) -> None:
    first, second = run({"run-name": "twice"}), run({"run-name": "twice"})
    assert first.folder != second.folder
    assert first.summary["model_sha256"] == second.summary["model_sha256"]


def test_a_simulation_cannot_have_secrets_of_its_nodes_own(run: Run) -> None:
    with pytest.raises(ConfigError, match="noise-secret = 'own': needs deployed nodes"):
        run({"noise-secret": "own"})
