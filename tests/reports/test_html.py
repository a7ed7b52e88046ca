from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedgame.reports.client_table import MAX_ROWS
from fedgame.reports.guarantees import NO_CLAIM
from fedgame.reports.html import ADVERSARY, headline, render_report
from fedgame.reports.page import FROM_SEED
from tests.html_page import Page


@pytest.mark.usefixtures("real_plotly")
def test_page_loads_nothing(make_result: Any, config: Any, versions: Any) -> None:
    html = render_report(make_result(), config, versions)
    page = Page(html)
    assert page.loads == []
    assert all(tag not in {"link", "iframe", "img", "object"} for tag, _ in page.attributes)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    assert not re.search(r"url\(|@import", style[1])
    (policy,) = [
        attributes["content"]
        for tag, attributes in page.attributes
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_page_is_semantic_and_responsive(make_result: Any, config: Any, versions: Any) -> None:
    page = Page(render_report(make_result(), config, versions))
    assert ("html", {"lang": "en"}) in page.attributes
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        page.attributes
    )
    tags = [tag for tag, _ in page.attributes]
    assert {"main", "header", "aside", "section", "figure", "figcaption", "table"} <= set(tags)
    assert tags.count("h1") == 1


def test_headline_states_population_relation_delta_and_adversary(
    make_result: Any, config: Any
) -> None:
    assert headline(make_result(notes=()), config) == (
        "After 3 of 3 rounds, the model of 4 clients reaches 56.7% test accuracy. Every client is "
        "guaranteed ε ≤ 4.969 at δ = 1e-5 when one example of one client is added or removed. "
        + ADVERSARY
    )


def test_headline_points_to_the_limits(make_result: Any, config: Any) -> None:
    assert headline(make_result(), config).endswith("see every message. The limits below apply.")
    seeded = config | {"noise-secret": "from-seed"}
    assert headline(make_result(notes=()), seeded).endswith("The limits below apply.")


def test_headline_of_a_failed_and_of_a_stopped_run(make_result: Any, config: Any) -> None:
    failed = make_result(clients=0, rounds=0, status="failed", reason="no nodes came.")
    assert headline(failed, config).startswith(
        "The run failed after 0 of 3 rounds: no nodes came. No finite ε is guaranteed"
    )
    stopped = make_result(rounds=2, reason="the budget is spent")
    text = headline(stopped, config)
    assert text.startswith("After 2 of 3 rounds")
    assert "It stopped early: the budget is spent." in text


def test_headline_of_a_regression_names_the_loss(make_result: Any, config: Any) -> None:
    result = make_result()
    rounds = tuple(replace(record, accuracy=None) for record in result.rounds)
    assert "reaches a test loss of 0.6667" in headline(replace(result, rounds=rounds), config)


def test_infinite_guarantee_is_not_called_one(make_result: Any, config: Any) -> None:
    result = make_result()
    lost = replace(result.clients[0], guarantee=float("inf"))
    text = headline(replace(result, clients=(lost, *result.clients[1:])), config)
    assert "No finite ε is guaranteed to every client when one example" in text


def test_notes_are_shown(make_result: Any, config: Any, versions: Any) -> None:
    assert (
        "The realised values are ex post."
        in Page(render_report(make_result(), config, versions)).words
    )
    quiet = make_result(notes=())
    assert "do not cover" not in Page(render_report(quiet, config, versions)).words


def test_noise_from_the_seed_is_confessed_once(
    make_result: Any, config: Any, versions: Any
) -> None:
    seeded = config | {"noise-secret": "from-seed"}
    words = Page(render_report(make_result(), seeded, versions)).words
    assert words.count(FROM_SEED) == 1
    told = make_result(notes=(f"This run is {FROM_SEED}.",))
    assert Page(render_report(told, seeded, versions)).words.count(FROM_SEED) == 1
    assert FROM_SEED not in Page(render_report(make_result(), config, versions)).words


def test_table_has_one_row_a_client_and_sort_keys(
    make_result: Any, config: Any, versions: Any
) -> None:
    page = Page(render_report(make_result(), config, versions))
    header, *rows = page.rows
    assert [title.replace("\N{NO-BREAK SPACE}", " ") for title in header] == [
        "Client",
        "Guaranteed ε",
        "Realised ε",
        "Claimed δ at ε = 1",
        "Sound δ at ε = 1",
        "Claim is",
        "β",
        "Strength",
        "Noise multiplier",
        "Examples",
        "Realised by order2",
    ]
    assert rows[0][:6] == ["0", "4.969", "3", "0.09091", "0.5891", "not covered"]
    assert rows[0][6:] == ["0.5", "0.1", "2", "100", "11"]
    keys = [attributes["data-sort"] for tag, attributes in page.attributes if tag == "td"]
    assert keys[1] == "4.96801"
    assert len(rows) == 4


def test_table_without_claims_or_preferences(make_result: Any, config: Any, versions: Any) -> None:
    page = Page(render_report(make_result(game=False), config, versions))
    header, *rows = page.rows
    assert "β" not in header
    assert "Claim is" not in header
    assert {row[header.index("Claimed")] for row in rows} == {NO_CLAIM}


def test_user_text_is_escaped(make_result: Any, config: Any, versions: Any) -> None:
    evil = "</script><img src=http://evil.example/x onerror=alert(1)>&\"'"
    result = make_result(reason=evil, notes=(evil,), status="failed")
    client = replace(result.clients[0], epsilon={evil: 1.0})
    result = replace(result, clients=(client,))
    hostile = config | {"cell": evil, "task.name": evil, "mode": evil, evil: evil}
    html = render_report(result, hostile, versions | {evil: evil})
    page = Page(html)
    assert page.loads == []
    assert evil in page.words
    assert "<img" not in re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)


def test_dollar_signs_survive_the_template(make_result: Any, config: Any, versions: Any) -> None:
    page = Page(render_report(make_result(notes=("$body costs $$5",)), config, versions))
    assert "$body costs $$5" in page.words


@pytest.mark.usefixtures("real_plotly")
def test_each_figure_has_data_and_plotly_comes_once(
    make_result: Any, config: Any, versions: Any
) -> None:
    page = Page(render_report(make_result(), config, versions))
    assert len(page.figures) == 5
    assert all(figure["data"] for figure in page.figures)
    assert sum(len(text) > 1_000_000 for _, text in page.scripts) == 1


def test_page_without_figures_leaves_plotly_out(
    make_result: Any, config: Any, versions: Any
) -> None:
    failed = make_result(
        clients=0,
        rounds=0,
        status="failed",
        reason="no nodes came",
        parameters=np.zeros(0, dtype=np.float32),
        tensors=(),
    )
    html = render_report(failed, config, versions)
    Page(html)
    assert len(html) < 50_000


def test_settings_and_versions_are_listed(make_result: Any, config: Any, versions: Any) -> None:
    words = Page(render_report(make_result(), config, versions)).words
    for text in ("jko.sinkhorn true", "run-name (empty)", "jko.tau 0.1", "fedgame 0.1.0"):
        assert text in words


@pytest.mark.usefixtures("real_plotly")
def test_a_thousand_clients_are_all_listed(make_result: Any, config: Any, versions: Any) -> None:
    result = make_result(clients=1_000, rounds=100)
    html = render_report(result, config | {"num-clients": 1_000}, versions)
    assert len(Page(html).rows) == 1_001


@pytest.mark.parametrize("extra", [0, 5])
def test_huge_tables_keep_the_worst_clients_and_say_so(
    make_result: Any, config: Any, versions: Any, extra: int
) -> None:
    result = make_result(clients=MAX_ROWS + extra, rounds=1)
    reverse = replace(result, clients=result.clients[::-1])
    page = Page(render_report(reverse, config, versions))
    assert len(page.rows) == MAX_ROWS + 1
    assert ("clients.csv has all" in page.words) == bool(extra)
    assert (page.rows[1][0] == "0") == bool(extra)
