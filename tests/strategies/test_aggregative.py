"""Aggregative games, whole runs in one process: the transcript, its budget, its players."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict

from fedgame import config
from fedgame.accountants.pml import exact_leakage
from fedgame.accountants.pml_distances import type_distances
from fedgame.accountants.pml_filter import PmlFilter
from fedgame.errors import ConfigError, InvalidOrder, RunFailed
from fedgame.games.aggregative.dynamics import Dynamics, play
from fedgame.games.aggregative.likelihood import log_likelihoods, trajectories
from fedgame.games.aggregative.transcript import FILE, Transcript, read_recording
from fedgame.games.best_response import FloatArray
from fedgame.ledger.events import LaplaceVector
from fedgame.ledger.replay import read_events
from fedgame.messages.aggregative import MessageOrder
from fedgame.messages.registration import RegistrationOrder
from fedgame.randomness import generator, secret_from_seed
from fedgame.runner import Finished, preflight
from fedgame.strategies.aggregative_client import AggregativeClient
from fedgame.strategies.aggregative_public import PublicGame, public_game, simulated_types
from fedgame.strategies.node import Node
from fedgame.strategies.settings import Experiment
from tests.support import SMALL, Run

GAME: dict[str, Any] = {
    "strategy": "aggregative",
    "rounds": 6,
    "num-clients": 5,
    "aggregative.noise": "power:2:1:1",
    "aggregative.step": "inverse:1:2:1",
    "pml-filter.action": "measure",
}
LINE = "0, .4, 0, 0, .1; .4, 0, .3, 0, 0; 0, .3, 0, .5, 0; 0, 0, .5, 0, .2; .1, 0, 0, .2, 0"
SETTINGS: dict[str, dict[str, Any]] = {
    "cournot, ye": {},
    "energy, wang on a line": {
        "aggregative.name": "energy",
        "energy.dimension": 2,
        "aggregative.rule": "wang",
        "aggregative.graph": LINE,
        "aggregative.gamma": "0.8",
    },
    "vaccination, ye on a ring, as in the paper": {
        "aggregative.name": "vaccination",
        "vaccination.dimension": 3,
        "vaccination.feasible": "simplex",
        "aggregative.graph": "ring",
        "aggregative.gradient": "paper",
        "prior.name": "correlated-prior",
    },
    "cournot, wang, three types": {
        "cournot.types": 3,
        "cournot.per-player": True,
        "aggregative.rule": "wang",
        "prior.name": "mixture-prior",
        "mixture-prior.weights": "0.3, 0.7",
        "mixture-prior.probabilities": "0.2, 0.3, 0.5, 0.6, 0.4, 0",
    },
}

Tamper = Callable[[Message], Message | None]


def experiment_of(overrides: dict[str, Any]) -> Experiment:
    return config.load({**SMALL, **GAME, **overrides})


def transcript_of(finished: Finished) -> Transcript:
    return read_recording(finished.folder / FILE).transcript


def laplace_draws(dynamics: Dynamics, seed: int) -> FloatArray:
    """Return what each player draws in each iteration, before scaling, shape (K, N, n)."""
    secret, game = secret_from_seed(seed), dynamics.game
    return np.array(
        [
            [
                generator(secret, player, k, "message").laplace(size=game.dimension)
                for player in range(game.num_players)
            ]
            for k in range(len(dynamics.schedules))
        ]
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_a_plain_loop_gives_the_same_transcript(run: Run, name: str) -> None:
    overrides = {**GAME, **SETTINGS[name]}
    experiment = experiment_of(SETTINGS[name])
    public = public_game(experiment)
    scales = public.dynamics.schedules.noise[:, None, None]
    noise = scales * laplace_draws(public.dynamics, 42)
    types = simulated_types(experiment, public.prior)
    expected = play(public.dynamics, types, noise).messages
    for nodes in (1, 2, 5):
        transcript = transcript_of(run(overrides, nodes=nodes))
        assert transcript.messages.tobytes() == expected.tobytes()
        assert transcript.sent.all()
    assert transcript_of(run({**overrides, "seed": 43})).messages.tobytes() != expected.tobytes()


@pytest.mark.parametrize("action", ["stop", "raise-noise"])
@pytest.mark.parametrize(
    ("prior", "order", "budget"),
    [
        ("product-prior", "simultaneous", 1.0),
        ("product-prior", "sequential", 0.7),
        ("correlated-prior", "simultaneous", 1.2),
        ("correlated-prior", "sequential", 0.7),
    ],
)
def test_a_plain_filtered_loop_gives_the_same_transcript(
    run: Run, action: str, prior: str, order: str, budget: float
) -> None:
    """Written again from the whole transcript each time, where the run goes step by step."""
    overrides = {
        "rounds": 8,
        "aggregative.noise": "6",
        "pml-filter.budget": budget,
        "pml-filter.action": action,
        "pml-filter.order": order,
        "prior.name": prior,
    }
    experiment = experiment_of(overrides)
    finished = run({**GAME, **overrides}, nodes=2)
    transcript = transcript_of(finished)
    expected = filtered_loop(experiment, public_game(experiment))
    assert transcript.messages.tobytes() == expected.messages.tobytes()
    assert transcript.sent.tolist() == expected.sent.tolist()
    assert transcript.scales.tobytes() == expected.scales.tobytes()
    assert len(transcript) > 1
    planned = public_game(experiment).dynamics.schedules.noise[: len(transcript), None]
    if action == "stop":
        assert not transcript.sent.all() or f"budget of {budget:g}" in finished.summary["reason"]
        assert (transcript.scales == planned).all()
    else:
        assert (transcript.scales > planned).any()


def filtered_loop(experiment: Experiment, public: PublicGame) -> Transcript:
    dynamics, prior, rules = public.dynamics, public.prior, experiment.pml_filter
    draws = laplace_draws(dynamics, experiment.run.seed)
    types = simulated_types(experiment, prior)
    players, n = dynamics.game.num_players, dynamics.game.dimension
    iterations = len(dynamics.schedules)
    messages = np.zeros((0, players, n))
    scales, sent = np.zeros((0, players)), np.zeros((0, players), dtype=bool)
    for k in range(iterations):
        latest = messages[-1] if k else np.asarray(dynamics.initial)
        # one more iteration of the last messages, of which nothing is heard yet
        v = trajectories(dynamics, np.concatenate([messages, latest[None]]))[k]
        own = v[np.arange(players), types]
        new, used, came = latest.copy(), np.full(players, dynamics.schedules.noise[k]), sent[:0]
        came = np.zeros(players, dtype=bool)
        for player in range(players):
            likelihoods = logs_of(dynamics, messages, scales, sent, (new, used, came), v)
            if rules.is_sequential(prior):
                planned = dynamics.schedules.noise[k]
                decision = rules.decide_player(prior, likelihoods, player, v[player], planned)
            elif player == 0:
                decision = rules.decide_round(prior, likelihoods, v, dynamics.schedules.noise[k])
            if decision.send:
                used[player] = decision.scales
                new[player] = own[player] + used[player] * draws[k, player]
                came[player] = True
        if not came.any():
            break
        messages = np.concatenate([messages, new[None]])
        scales, sent = np.concatenate([scales, used[None]]), np.concatenate([sent, came[None]])
    return Transcript(messages, scales, sent)


def logs_of(
    dynamics: Dynamics,
    messages: FloatArray,
    scales: FloatArray,
    sent: Any,
    last: tuple[FloatArray, FloatArray, Any],
    v: FloatArray,
) -> FloatArray:
    """Return log L_i(t) of all iterations so far and what came of the present one."""
    new, used, came = last
    past = trajectories(dynamics, messages) if len(messages) else v[None][:0]
    whole = np.concatenate([past, v[None]])
    o = np.concatenate([messages, new[None]])
    mask = np.concatenate([sent, came[None]])
    noise = np.concatenate([scales, used[None]])
    likelihoods: FloatArray = log_likelihoods(o, whole, noise, mask)[-1]
    return likelihoods


@pytest.mark.parametrize("prior", ["product-prior", "correlated-prior"])
@pytest.mark.parametrize("action", ["stop", "raise-noise"])
def test_no_run_leaks_more_than_its_budget(run: Run, prior: str, action: str) -> None:
    for seed in range(3):
        flat = {
            **GAME,
            "seed": seed,
            "rounds": 8,
            "aggregative.noise": "6",
            "prior.name": prior,
            "pml-filter.action": action,
            "pml-filter.budget": 0.7,
        }
        finished = run(flat)
        leakage = finished.summary["exact_leakage"]
        assert max(leakage["by_iteration"]) <= 0.7
        public = public_game(experiment_of(flat))
        transcript = transcript_of(finished)
        v = trajectories(public.dynamics, transcript.messages)
        logs = log_likelihoods(transcript.messages, v, transcript.scales, transcript.sent)
        assert leakage["whole"] == pytest.approx(exact_leakage(public.prior, logs[-1]), abs=1e-12)
        assert finished.summary["status"] == "finished"


def test_every_message_is_charged_before_it_leaves(run: Run) -> None:
    flat = {**GAME, "prior.name": "correlated-prior"}
    finished = run(flat)
    public, transcript = public_game(experiment_of(flat)), transcript_of(finished)
    v = trajectories(public.dynamics, transcript.messages)
    apart = type_distances(v).max(axis=(-2, -1))
    events = read_events(finished.folder)
    assert sorted(events) == list(range(5))
    for player, history in events.items():
        assert all(isinstance(event, LaplaceVector) for event in history)
        assert [event.scale for event in history] == transcript.scales[:, player].tolist()  # type: ignore[union-attr]
        assert [event.sensitivity for event in history] == apart[:, player].tolist()  # type: ignore[union-attr]
        spent = finished.summary["players"][player]["epsilon"]
        assert spent == pytest.approx((apart[:, player] / transcript.scales[:, player]).sum())
    assert finished.summary["worst_epsilon"] == max(
        p["epsilon"] for p in finished.summary["players"]
    )


def _messages(message: Message, change: Callable[[FloatArray], FloatArray]) -> Message:
    """Change the messages of a reply."""
    array = message.content.array_records["arrays"]["messages"].numpy().copy()
    message.content["arrays"] = ArrayRecord({"messages": Array(change(array))})
    return message


def _second_time(node: int, act: Tamper) -> Tamper:
    """Act on the second and all later replies of a node to an order for messages."""
    seen = []

    def hook(message: Message) -> Message | None:
        if message.metadata.src_node_id != node or message.has_error():
            return message
        if "messages" not in message.content.array_records.get("arrays", {}):
            return message
        seen.append(message)
        return message if len(seen) < 2 else act(message)

    return hook


TAMPERING: dict[str, Callable[[FloatArray], FloatArray]] = {
    "not finite": lambda array: np.full_like(array, np.nan),
    "another shape": lambda array: array[:1],
    "another type": lambda array: array.astype(np.float32),
    "too far from every candidate": lambda array: array + 1e6,
}


@pytest.mark.parametrize("kind", TAMPERING)
def test_a_reply_that_cannot_be_believed_is_left_out(
    run: Run, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    hook = _second_time(2, lambda message: _messages(message, TAMPERING[kind]))
    with caplog.at_level(logging.WARNING):
        finished = run(GAME, hook=hook)
    transcript = transcript_of(finished)
    assert transcript.sent[:, [0, 2, 4]].all()
    assert transcript.sent[:, [1, 3]].tolist() == [[True, True]] + [[False, False]] * 6
    assert "rejected" in caplog.text
    # what its sender sent last stands for it
    later = transcript.messages[1:, 1]
    assert (later == transcript.messages[0, 1]).all()
    assert finished.summary["status"] == "finished"
    note = (
        "12 of the messages that were asked for did not come, or were rejected (of players 1, 3, "
        "first in iteration 1). 12 of them had left their players"
    )
    assert any(line.startswith(note) for line in finished.summary["notes"])


def test_a_player_that_disappears_is_replaced_by_its_last_message(run: Run) -> None:
    """The audit counts what was sent: the others' likelihoods, and nothing more of the lost."""
    finished = run(GAME, hook=_second_time(2, lambda _: None))
    transcript, public = transcript_of(finished), public_game(experiment_of({}))
    assert transcript.sent.sum(axis=0).tolist() == [7, 1, 7, 1, 7]
    v = trajectories(public.dynamics, transcript.messages)
    logs = log_likelihoods(transcript.messages, v, transcript.scales, transcript.sent)
    expected = exact_leakage(public.prior, logs)
    assert finished.summary["exact_leakage"]["by_iteration"] == pytest.approx(expected, abs=1e-12)
    assert [player["sent"] for player in finished.summary["players"]] == [7, 1, 7, 1, 7]
    assert [player["released"] for player in finished.summary["players"]] == [7] * 5


def test_a_player_that_comes_back_goes_on_where_the_others_are(run: Run) -> None:
    """Two answers are lost; then its messages are those of a player that heard everything."""
    lost = iter([True, True])
    hook = _second_time(2, lambda message: None if next(lost, False) else message)
    transcript, public = transcript_of(run(GAME, hook=hook)), public_game(experiment_of({}))
    assert transcript.sent[:, 1].tolist() == [True, False, False, True, True, True, True]
    types = simulated_types(experiment_of({}), public.prior)
    v = trajectories(public.dynamics, transcript.messages)[:, np.arange(5), types]
    noise = public.dynamics.schedules.noise[:, None, None] * laplace_draws(public.dynamics, 42)
    expected = np.where(transcript.sent[..., None], v + noise, transcript.messages)
    assert transcript.messages.tobytes() == expected.tobytes()


def test_a_run_can_stop_where_a_message_is_missing(run: Run) -> None:
    flat = {**GAME, "aggregative.missing": "stop"}
    finished = run(flat, hook=_second_time(2, lambda _: None))
    assert finished.summary["status"] == "failed"
    assert finished.summary["reason"].startswith("2 of 5 players' messages did not come")
    assert len(transcript_of(finished)) == 2
    assert (finished.folder / "report.html").exists()


def test_a_run_without_any_message_fails_and_keeps_its_files(run: Run) -> None:
    finished = run(GAME, nodes=1, hook=_second_time(1, lambda _: None))
    assert finished.summary["status"] == "failed"
    assert "5 of 5 players' messages did not come" in finished.summary["reason"]
    assert len(transcript_of(finished)) == 2
    assert transcript_of(finished).sent[0].all()


def test_diverging_messages_end_the_run(run: Run) -> None:
    flat = {
        **GAME,
        "rounds": 60,
        "aggregative.name": "vaccination",
        "vaccination.feasible": "none",
        "vaccination.b": "20, 30",
        "aggregative.step": "5",
    }
    finished = run(flat)
    assert finished.summary["status"] == "failed"
    assert "the messages diverge" in finished.summary["reason"]
    assert 2 < len(transcript_of(finished)) < 61
    assert any("is not monotone (smallest eigenvalue" in note for note in finished.summary["notes"])


def test_nothing_private_is_in_a_message_or_a_log(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """No number of a player's strategy or estimate is among the bytes that pass, nor its type."""
    experiment = experiment_of({})
    public = public_game(experiment)
    noise = public.dynamics.schedules.noise[:, None, None] * laplace_draws(public.dynamics, 42)
    types = simulated_types(experiment, public.prior)
    played = play(public.dynamics, types, noise)
    seen: list[bytes] = []

    def hook(message: Message) -> Message:
        arrays = message.content.array_records["arrays"]
        seen.extend(array.data for array in arrays.values())
        if "messages" in arrays:
            assert set(arrays) == {"messages"}
            assert not message.content.config_records["settings"]
        return message

    with caplog.at_level(logging.DEBUG):
        finished = run(GAME, hook=hook)
    secrets = np.concatenate([played.strategies[1:].ravel(), played.estimates[1:].ravel()])
    secrets = secrets[secrets != np.round(secrets)]
    assert len(secrets) > 40
    traffic = b"".join(seen)
    files = b"".join(file.read_bytes() for file in finished.folder.iterdir() if file.is_file())
    for secret in np.unique(secrets).tolist():
        assert np.float64(secret).tobytes() not in traffic
        assert np.float64(secret).tobytes() not in files
        assert repr(secret).encode() not in files
        assert repr(secret) not in caplog.text
    assert types.tobytes() not in traffic + files


def test_no_type_is_told_where_a_node_keeps_its_own(tmp_path: Path) -> None:
    experiment = experiment_of({})
    node = Node({"partition-id": 3, "data": str(tmp_path), "type": 1})
    declaration = AggregativeClient(experiment, node).declare(RegistrationOrder(0, 5, "run", ""))
    assert declaration.clients.tolist() == [3]
    assert declaration.own_types.tolist() == [True]
    assert declaration.own_noise.tolist() == [True]
    other = AggregativeClient(
        experiment, Node({"partition-id": 3, "data": str(tmp_path), "type": 2})
    )
    with pytest.raises(ConfigError, match=r"type = 2: .*player 3 can have the types \[0, 1\]"):
        other.declare(RegistrationOrder(0, 5, "run", ""))


def order_of(**changes: Any) -> MessageOrder:
    fields: dict[str, Any] = {
        "iteration": 1,
        "first": 0,
        "players": np.array([3]),
        "scales": np.array([3.0]),
        "heard": np.ones((1, 1, 1, 1)),
        "own": np.ones((1, 1, 1)),
        "run_name": "run",
        "ledger": "",
    }
    return MessageOrder(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"scales": np.array([2.9])}, r"noise scale 2.9 in iteration 1: the public schedule has 3"),
        ({"players": np.array([2])}, "player 2 is not here"),
        ({"players": np.array([7])}, "player 7 is not here"),
        (
            {"first": 1, "heard": np.ones((1, 0, 1, 1)), "own": np.ones((1, 0, 1))},
            "do not follow",
        ),
        ({"heard": np.ones((1, 1, 5, 1))}, r"the graph forwards \(1, 1\) of each iteration"),
        ({"heard": np.ones((1, 1, 1, 2)), "own": np.ones((1, 1, 2))}, "the graph forwards"),
        ({"heard": np.full((1, 1, 1, 1), 1e12)}, r"what was heard leads beyond 1e\+12"),
    ],
)
def test_a_player_refuses_what_is_not_public(
    tmp_path: Path, changes: dict[str, Any], error: str
) -> None:
    node = Node({"partition-id": 3, "data": str(tmp_path), "type": 1})
    client = AggregativeClient(experiment_of({}), node)
    with pytest.raises(InvalidOrder, match=error):
        client.send(order_of(**changes), RecordDict())
    assert not (tmp_path / "run").exists()


def test_a_type_must_be_a_whole_number() -> None:
    for own in (1.7, True, "1"):
        with pytest.raises(ConfigError, match=r"type = .*must be a whole number"):
            _ = Node({"type": own}).player_type


def test_a_run_is_not_named_like_the_secret(tmp_path: Path) -> None:
    node = Node({"partition-id": 3, "data": str(tmp_path), "type": 1})
    client = AggregativeClient(experiment_of({}), node)
    with pytest.raises(InvalidOrder, match="must be a plain folder name"):
        client.send(order_of(run_name="secret"), RecordDict())


def test_a_player_never_draws_the_same_noise_twice(tmp_path: Path) -> None:
    from fedgame.errors import DuplicateRow

    node = Node({"partition-id": 3, "data": str(tmp_path), "type": 1})
    client, state = AggregativeClient(experiment_of({}), node), RecordDict()
    sent = client.send(order_of(), state)
    # what it is told of others does not change what it sends: that is on its disk
    again = client.send(order_of(heard=np.zeros((1, 1, 1, 1))), RecordDict())
    assert again.messages.tobytes() == sent.messages.tobytes()
    with pytest.raises(DuplicateRow):
        client.send(order_of(scales=np.array([50.0])), RecordDict())


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"product-prior.probabilities": "0.5, 0.4"},
        r"product-prior.probabilities = '0.5, 0.4': prior of player 0 = .*sum to 1, not 0.9",
    ),
    ({"product-prior.probabilities": "0.5"}, "must have 2 or 10 for 5 players and 2 types"),
    (
        {"aggregative.noise": "power:0:0:1"},
        r"aggregative.noise = 'power:0:0:1': is 0 at iteration 0",
    ),
    (
        {"aggregative.noise": "-1"},
        r"aggregative.noise = '-1': is -1 at iteration 0: must be > 0, from",
    ),
    (
        {"aggregative.graph": "1, 0; 0, 1"},
        r"aggregative.graph = '1, 0; 0, 1': must have 5 rows of 5 weights",
    ),
    ({"aggregative.graph": LINE}, r"weights of player 0 sum to 0\.5: must sum to 1"),
    (
        {"aggregative.initial": "20"},
        r"aggregative.initial = '20.0': strategy of player 0 = .*outside the feasible set",
    ),
    ({"aggregative.initial": "1, 2"}, "initial has 2 numbers: must have 1 or 5"),
    ({"num-clients": 1}, "num-clients = 1: must be at least 2 in a game"),
    ({"prior.name": "correlated-prior", "cournot.types": 3}, "has 3 types: this prior is for 2"),
    ({"cournot.cost": "1, 2, 3"}, "cost has 3 numbers"),
    ({"aggregative.name": "python-game"}, "must name a function"),
]


@pytest.mark.parametrize(("overrides", "error"), BAD)
def test_bad_input_is_refused_before_anything_starts(overrides: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        preflight(experiment_of(overrides))


@pytest.mark.parametrize(
    ("overrides", "error"),
    [
        ({"pml-filter.budget": 0}, "pml-filter.budget = 0: .*greater than 0"),
        ({"pml-filter.budget": -1.0}, "pml-filter.budget = -1.0: .*greater than 0"),
        ({"aggregative.noise": "linear:1"}, "aggregative.noise = .*must be .power:P1:P2:P3."),
        ({"aggregative.rule": "yee"}, "aggregative.rule = "),
        ({"correlated-prior.beta": 1.0}, "correlated-prior.beta = 1.0"),
        ({"prior.name": "prior"}, "prior.name = .*allowed: correlated-prior"),
    ],
)
def test_bad_values_are_refused_by_the_configuration(overrides: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        experiment_of(overrides)


def test_too_few_players_end_the_run(run: Run) -> None:
    def hook(message: Message) -> Message | None:
        return None if message.metadata.src_node_id == 2 else message

    with pytest.raises(RunFailed, match="min-clients = 5: only 3 clients registered"):
        run({**GAME, "min-clients": 5}, hook=hook)


def test_players_that_never_register_stand_at_the_start(run: Run) -> None:
    def hook(message: Message) -> Message | None:
        return None if message.metadata.src_node_id == 2 else message

    finished = run({**GAME, "aggregative.initial": "3"}, hook=hook)
    transcript = transcript_of(finished)
    assert (transcript.messages[:, [1, 3]] == 3).all()
    assert not transcript.sent[:, [1, 3]].any()
    assert "2 players never registered: x_0 stands for their messages." in finished.summary["notes"]
    assert finished.summary["error"] is None


def test_a_filter_that_measures_sends_everything() -> None:
    assert not PmlFilter(action="measure").is_sequential(
        public_game(experiment_of({"prior.name": "correlated-prior"})).prior
    )


def test_a_player_that_refuses_is_told_of_as_missing(run: Run) -> None:
    """Nothing left it, so the ledger is silent; the note is not."""

    def hook(message: Message) -> Message:
        other = message.metadata.src_node_id != 2 or message.has_error()
        if other or "messages" not in message.content.array_records.get("arrays", ()):
            return message
        return Message(Error(1002, "refused"), reply_to=message)

    finished = run({**GAME, "noise-secret": "from-seed"}, hook=hook)
    note = "14 of the messages that were asked for did not come, or were rejected (of players 1, 3"
    assert any(line.startswith(note) for line in finished.summary["notes"])


def test_what_the_filter_keeps_back_is_told(run: Run) -> None:
    flat = {
        **GAME,
        "rounds": 8,
        "aggregative.noise": "6",
        "prior.name": "correlated-prior",
        "pml-filter.budget": 0.7,
        "pml-filter.action": "stop",
    }
    finished = run(flat)
    transcript = transcript_of(finished)
    kept = int((~transcript.sent).sum())
    assert kept > 0
    silent = np.flatnonzero(~transcript.sent.all(axis=0)).tolist()
    note = f"The filter kept back {kept} messages (of player"
    (line,) = [line for line in finished.summary["notes"] if line.startswith(note)]
    assert ", ".join(map(str, silent)) in line


def test_each_iteration_says_what_it_could_have_leaked(run: Run) -> None:
    flat = {**GAME, "rounds": 8, "aggregative.noise": "6", "pml-filter.budget": 1.0}
    finished = run({**flat, "pml-filter.action": "stop"})
    with (finished.folder / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["asked"]) for row in rows] == [5] * len(rows)
    assert float(rows[0]["possible"]) == 0
    for row in rows:
        assert float(row["leakage"]) <= float(row["possible"]) + 1e-12 <= 1.0
    assert (
        "any further message could leak more than the budget of 1: up to 1."
        in (finished.summary["reason"])
    )
