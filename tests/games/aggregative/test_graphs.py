"""Graphs: sums against matrix products, bits against single players, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from fedgame.games.aggregative.graphs import (
    CompleteGraph,
    Graph,
    WeightedGraph,
    parse_graph,
    require_row_stochastic,
    ring,
    weighted_sum,
)
from fedgame.games.best_response import FloatArray
from tests.games.aggregative.cases import LINE


def mix(graph: Graph, messages: FloatArray) -> FloatArray:
    everybody = np.arange(messages.shape[-2])
    return graph.mix(graph.heard(messages, everybody), everybody)


def differences(graph: Graph, messages: FloatArray) -> FloatArray:
    everybody = np.arange(messages.shape[-2])
    return graph.differences(graph.heard(messages, everybody), messages, everybody)


def random_weights(seed: int, players: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    weights = rng.random((players, players)) * (rng.random((players, players)) < 0.4)
    return weights + np.eye(players, k=1) + np.eye(players, k=1 - players)


@pytest.mark.parametrize(
    ("graph", "matrix"),
    [
        (CompleteGraph(5), np.full((5, 5), 0.2)),
        (WeightedGraph(LINE), LINE),
        (WeightedGraph(random_weights(1, 7)), random_weights(1, 7)),
        (ring(4), np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]]) / 3),
    ],
)
def test_sums_are_matrix_products(graph: Graph, matrix: FloatArray) -> None:
    messages = np.random.default_rng(2).normal(size=(3, len(matrix), 2))
    assert mix(graph, messages) == pytest.approx(matrix @ messages, abs=1e-14)
    laplacian = matrix - np.diag(matrix.sum(axis=1))
    assert differences(graph, messages) == pytest.approx(laplacian @ messages, abs=1e-14)
    assert graph.row_sums == pytest.approx(matrix.sum(axis=1))


def test_a_player_that_sums_what_it_heard_gets_the_same_bits() -> None:
    graph = WeightedGraph(random_weights(3, 20))
    messages = np.random.default_rng(4).normal(size=(20, 3))
    for player in range(20):
        senders, weights = graph.neighbours(player)
        own = weighted_sum(weights, messages[senders])
        assert own.tobytes() == mix(graph, messages)[player].tobytes()
        own = weighted_sum(weights, messages[senders] - messages[player])
        assert own.tobytes() == differences(graph, messages)[player].tobytes()


@pytest.mark.parametrize("graph", [CompleteGraph(20), WeightedGraph(random_weights(3, 20))])
def test_some_players_get_the_same_bits_from_what_is_forwarded_to_them(graph: Graph) -> None:
    messages = np.random.default_rng(5).normal(size=(20, 3))
    some = np.array([3, 4, 17])
    heard = graph.heard(messages, some)
    assert graph.mix(heard, some).tobytes() == mix(graph, messages)[some].tobytes()
    own = graph.differences(heard, messages[some], some)
    assert own.tobytes() == differences(graph, messages)[some].tobytes()


def test_only_neighbours_are_forwarded() -> None:
    messages = np.arange(3.0)[:, None]
    heard = WeightedGraph(LINE).heard(messages, np.array([0]))
    assert set(heard.ravel().tolist()) <= {0.0, 1.0}  # player 0 does not hear player 2


def test_a_player_hears_those_it_gives_a_weight() -> None:
    senders, weights = WeightedGraph(LINE).neighbours(1)
    assert senders.tolist() == [0, 2]
    assert weights.tolist() == [0.4, 0.3]


def test_balance_is_told() -> None:
    assert WeightedGraph(LINE).balanced
    assert not WeightedGraph([[0.5, 0.5], [0.1, 0.9]]).balanced


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\)"),
        ([[0, -1], [1, 0]], r"weight \(0, 1\) = -1.0: must be finite and >= 0"),
        ([[0, np.nan], [1, 0]], r"weight \(0, 1\) = nan"),
        ([[0, 1, 0], [1, 0, 0], [0, 0, 1]], "player 2 hears nobody or is heard by nobody"),
        ([[0, 1, 0], [1, 0, 0], [0, 1, 0]], "player 2 hears nobody or is heard by nobody"),
        (np.kron(np.eye(2), [[0, 1], [1, 0]]), "player 0 and player 2 do not hear each other"),
    ],
)
def test_a_graph_that_misses_a_player_is_refused(weights: FloatArray, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        WeightedGraph(weights)


def test_rows_that_do_not_sum_to_1_are_refused() -> None:
    require_row_stochastic(ring(3))
    with pytest.raises(ValueError, match=r"weights of player 0 sum to 0\.4: must sum to 1"):
        require_row_stochastic(WeightedGraph(LINE))


def test_a_graph_is_read_from_text() -> None:
    messages = np.random.default_rng(5).normal(size=(3, 1))
    rows = "0, .4, 0; .4, 0, .3; 0, .3, 0"
    assert mix(parse_graph(rows, 3), messages) == pytest.approx(LINE @ messages)
    assert mix(parse_graph(" complete ", 3), messages)[0] == pytest.approx(messages.mean(axis=0))
    assert mix(parse_graph("ring", 3), messages)[0] == pytest.approx(messages.mean(axis=0))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("star", 'graph = \'star\': must be "complete", "ring"'),
        ("0, 1; 1, 0", "must have 3 rows of 3 weights"),
        ("0, 1, 0; 1, 0; 0, 1, 0", "must have 3 rows of 3 weights"),
        ("", "must be"),
    ],
)
def test_other_texts_are_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_graph(text, 3)


def test_a_ring_needs_three() -> None:
    with pytest.raises(ValueError, match="a ring of 2 players"):
        parse_graph("ring", 2)
