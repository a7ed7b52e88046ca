from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedgame.reports import figures, style
from fedgame.reports.html import FIGURES


def test_a_game_has_every_figure(make_result: Any) -> None:
    for _, draw, _ in FIGURES:
        figure = draw(make_result())
        assert figure is not None
        json.loads(figure.to_json())


def test_a_run_without_game_has_only_accuracy_and_loss(make_result: Any) -> None:
    result = make_result(game=False)
    drawn = [draw.__name__ for _, draw, _ in FIGURES if draw(result) is not None]
    assert drawn == ["accuracy_and_loss"]


@pytest.mark.parametrize("rounds", [0, 1])
def test_short_runs_do_not_fail(make_result: Any, rounds: int) -> None:
    result = make_result(rounds=rounds)
    drawn = {draw.__name__ for _, draw, _ in FIGURES if draw(result) is not None}
    assert drawn == {"epsilon_by_preference"} if rounds == 0 else len(drawn) == len(FIGURES)


def test_lone_round_is_visible(make_result: Any) -> None:
    figure = figures.accuracy_and_loss(make_result(rounds=1))
    assert figure is not None
    assert figure.data[0].mode == "lines+markers"


def test_regression_plots_loss_alone(make_result: Any) -> None:
    result = make_result()
    rounds = tuple(replace(record, accuracy=None) for record in result.rounds)
    figure = figures.accuracy_and_loss(replace(result, rounds=rounds))
    assert figure is not None
    assert [trace.name for trace in figure.data] == ["Test loss"]


def test_values_that_are_not_finite_are_gaps(make_result: Any) -> None:
    result = make_result()
    last = replace(result.rounds[-1], loss=math.inf)
    figure = figures.accuracy_and_loss(replace(result, rounds=(*result.rounds[:-1], last)))
    assert figure is not None
    assert list(figure.data[1].y) == [2.0, 1.0, None]


def test_strength_shares_against_counting_by_hand() -> None:
    nan = math.nan
    strengths = np.array([[0.1, 0.3, 0.1, 1.0], [0.3, nan, 0.3, 0.1 + 1e-17], [nan] * 4])
    labels, shares = figures.strength_shares(strengths)
    assert labels == ["0.1", "0.3", "1"]
    expected = [[0.5, 1 / 3, 0.0], [0.25, 2 / 3, 0.0], [0.25, 0.0, 0.0]]
    np.testing.assert_allclose(shares, expected, rtol=1e-15)


def test_strengths_off_a_grid_are_binned() -> None:
    strengths = np.geomspace(1e-5, 1e-3, 300).reshape(3, 100)
    strengths[0, 0] = 0.0
    labels, shares = figures.strength_shares(strengths)
    assert len(labels) == figures.MAX_LEVELS
    np.testing.assert_allclose(shares.sum(axis=0), 1.0)


def test_columns_of_skipped_rounds_keep_their_numbers(make_result: Any) -> None:
    result = make_result(rounds=6)
    figure = figures.strength_distribution(replace(result, rounds=result.rounds[2::3]))
    assert figure is not None
    (heat,) = figure.data
    assert list(heat.x) == [1, 2, 3, 4, 5, 6]
    assert heat.z.shape[1] == 6


def test_a_tick_a_round_is_for_few_rounds_however_few_are_recorded(make_result: Any) -> None:
    result = make_result(rounds=2)
    skipped = tuple(replace(record, round=500 * record.round) for record in result.rounds)
    for rounds, dtick in ((result.rounds, 1), (skipped, None)):
        figure = figures.accuracy_and_loss(replace(result, rounds=rounds))
        assert figure is not None
        assert figure.layout.xaxis2.dtick == dtick


def test_thinned_scatter_says_so(make_result: Any) -> None:
    figure = figures.epsilon_by_preference(make_result(clients=style.MAX_POINTS + 1, rounds=1))
    assert figure is not None
    assert [len(trace.x) for trace in figure.data] == [style.MAX_POINTS] * 2
    assert "2,000 of 2,001 clients" in figure.layout.xaxis.title.text


def test_scatter_shows_each_clients_guarantee_and_realised_value(make_result: Any) -> None:
    result = make_result()
    figure = figures.epsilon_by_preference(result)
    assert figure is not None
    assert list(figure.data[0].y) == [client.guarantee for client in result.clients]
    assert list(figure.data[1].y) == [client.realised for client in result.clients]
    assert list(figure.data[1].x) == [client.beta for client in result.clients]


def test_one_look_fits_light_and_dark(make_result: Any) -> None:
    for _, draw, _ in FIGURES:
        figure = draw(make_result())
        assert figure is not None
        assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0, 0, 0, 0)"
        assert figure.layout.width is None
        assert figure.layout.legend.orientation == "h"
