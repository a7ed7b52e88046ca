"""The report of a run that bought privacy: every number in the page is the record's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fedgame.reports.html import render_report
from fedgame.reports.procurement_section import FIGURES
from fedgame.reports.sortable_table import MAX_ROWS
from tests.html_page import Page

Render = Callable[..., Page]

HEADER = [
    "Client",
    "Report",
    "Virtual cost",
    "Probability",
    "Bought ε",
    "Spent ε",
    "Payment",
    "Draws",
]


def prose(page: Page) -> str:
    """Return the text of all paragraphs."""
    return " ".join(page.all("p"))


def key_numbers(page: Page) -> dict[str, tuple[str, str]]:
    """Return value and detail of each number in the box by name."""
    start = page.html.index('<dl class="key">')
    box = page.html[start : page.html.index("</dl>", start)]
    found = re.findall(r"<dt>(.*?)</dt><dd.*?>(.*?)</dd><dd.*?>(.*?)</dd>", box)
    return {name: (value, detail) for name, value, detail in found}


def flagged(page: Page) -> list[list[int]]:
    """Return the columns that stand out in each row of the table's body."""
    return [
        [column for column, cell in enumerate(row) if "flag" in (cell["class"] or "")]
        for row in page.cells[1:]
    ]


@pytest.fixture
def render(jsam_config: Any, versions: Any) -> Render:
    def page(result: Any, **config: Any) -> Page:
        return Page(render_report(result, jsam_config | config, versions))

    return page


def test_the_title_names_mechanism_task_and_clients(render: Render, make_jsam: Any) -> None:
    page = render(make_jsam(mechanism="usbm"))
    assert page.all("h1") == ["usbm on digits, 4 clients"]
    assert page.all("p")[1].startswith(
        "After 15 of 15 rounds, the model of 4 clients reaches 56.7% test accuracy. Every client "
        "is guaranteed ε ≤ 1.235 at δ = 1e-5"
    )


def test_what_was_bought_is_said_in_words(render: Render, make_jsam: Any) -> None:
    assert (
        "4 clients reported what a unit of ε costs them. The mechanism jsam bought privacy from 3 "
        "of them and pays 1.403 in all (expected cost: 1.314). 2 clients took part, with 14 of 16 "
        "scheduled updates."
    ) in prose(render(make_jsam()))


def test_the_certificate_is_said_with_objective_and_terms(render: Render, make_jsam: Any) -> None:
    said = prose(render(make_jsam()))
    assert "The server's objective, at η = 5 and Q = 1.5, is 8.765." in said
    assert "hold up to a relative residual of 3.3e-13." in said


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (-1.23e-5, "1.3e-5, relatively, below the best"),
        (1.23e-5, "1.3e-5, relatively, above the best"),
        (0.0, "the objective is equal to the best"),
    ],
)
def test_a_brute_force_search_is_reported(
    render: Render, make_jsam: Any, gap: float, said: str
) -> None:
    assert said in prose(render(make_jsam(brute_force_gap=gap)))
    assert "brute-force" not in prose(render(make_jsam()))


def test_the_implied_q_is_a_range(render: Render, make_jsam: Any) -> None:
    assert (
        "The objective takes z²ε²/(q²T) for one number, up to a factor (noise multiplier z, bought "
        "ε, sampling rate q, T draws); over the clients that were drawn it is 10.03 to 18.21, "
        "median 12.46."
    ) in prose(render(make_jsam()))
    assert "for one number" not in prose(render(make_jsam(implied_q=None)))


def test_key_numbers_are_the_records(render: Render, make_jsam: Any) -> None:
    assert key_numbers(render(make_jsam())) == {
        "Test accuracy": ("56.7%", ""),
        "Test loss": ("0.6667", ""),
        "Largest guaranteed ε": ("1.235", "example neighbours"),
        "Participants": ("2", "of 4 that reported"),
        "Total payment": ("1.403", "to all clients"),
        "Expected cost": ("1.314", "Σ v ε"),
        "Rounds": ("15", "of 15 planned"),
        "Wall time": ("1 s", "all rounds"),
    }


def test_the_table_shows_and_sorts_by_each_deal(render: Render, make_jsam: Any) -> None:
    result = make_jsam()
    page = render(result)
    assert page.rows == [
        HEADER,
        ["0", "0.2", "0.4", "0.5", "1.234", "0.8731", "0.7654", "5 of 7"],
        ["1", "0.4", "0.8", "0.3333", "0.6172", "0", "0.3827", "0"],
        ["2", "0.6", "1.2", "0.25", "0.4115", "0.4075", "0.2551", "9"],
        ["3", "0.8", "1.6", "0", "0", "0", "0", "0"],
    ]
    for cells, client, purchase in zip(
        page.cells[1:], result.clients, result.procurement.purchases, strict=True
    ):
        assert [float(cell["data-sort"] or "") for cell in cells] == [
            client.id,
            purchase.report,
            purchase.virtual_cost,
            purchase.probability,
            purchase.budget,
            client.epsilon["pld"],
            purchase.payment,
            purchase.released,
        ]


def test_a_printed_budget_does_not_overstate_and_a_printed_cost_does_not_understate(
    render: Render, make_jsam: Any
) -> None:
    result = make_jsam(clients=40)
    rows = render(result).rows[1:]
    for row, client, purchase in zip(
        rows, result.clients, result.procurement.purchases, strict=True
    ):
        assert float(row[4]) <= purchase.budget
        assert float(row[5]) >= client.epsilon["pld"]


def test_an_honest_run_says_that_nobody_overspent(render: Render, make_jsam: Any) -> None:
    page = render(make_jsam())
    assert "No client spent more than was bought from it." in prose(page)
    assert flagged(page) == [[], [], [], []]


def test_who_overspent_stands_out(render: Render, make_jsam: Any) -> None:
    result = make_jsam()
    first, *others = result.clients
    over = replace(first, epsilon={"pld": 1.3})
    page = render(replace(result, clients=(over, *others)))
    assert "1 client spent more than was bought, or an unknown amount: 0." in prose(page)
    assert flagged(page) == [[5], [], [], []]


def test_many_who_overspent_are_counted_and_cut(render: Render, make_jsam: Any) -> None:
    result = make_jsam(clients=16)
    lost = tuple(replace(client, epsilon={"pld": 9.0}) for client in result.clients)
    said = prose(render(replace(result, clients=lost)))
    assert "16 clients spent more than was bought, or an unknown amount: 0, 1, 2, 3" in said
    assert "8, 9, ..." in said


@pytest.mark.parametrize("text", ["s̄", "β", "xploitability", "ealised", "laimed"])
def test_nothing_of_the_privacy_game_is_left(render: Render, make_jsam: Any, text: str) -> None:
    page = render(make_jsam())
    shown = page.all("h1", "h2", "h3", "dt", "button", "p", "figcaption")
    assert not any(text in each for each in shown)
    assert text not in json.dumps(page.figures, ensure_ascii=False)


def test_figures_stand_in_their_order_with_their_captions(render: Render, make_jsam: Any) -> None:
    page = render(make_jsam())
    assert page.all("h3") == [title for title, _, _ in FIGURES]
    assert [figure["data"] != [] for figure in page.figures] == [True] * len(FIGURES)


def test_a_run_that_bought_nothing_has_no_such_section(
    make_result: Any, config: Any, versions: Any
) -> None:
    html = render_report(make_result(), config, versions)
    assert "What was bought" not in html
    assert "Payment" not in html


@pytest.mark.usefixtures("real_plotly")
def test_the_page_loads_nothing(render: Render, make_jsam: Any) -> None:
    page = render(make_jsam())
    assert page.loads == []
    assert "default-src 'none'" in page.html


def test_text_from_outside_is_escaped(render: Render, make_jsam: Any) -> None:
    evil = "<img src=x onerror=alert(1)>&\"'"
    page = render(make_jsam(mechanism=evil))
    assert page.loads == []
    assert f"The mechanism {evil} bought" in prose(page)


def test_a_thousand_sellers_are_all_listed(render: Render, make_jsam: Any) -> None:
    page = render(make_jsam(clients=1_000, rounds=40), **{"num-clients": 1_000})
    assert len(page.rows) == 1_001
    assert "1,000 clients reported" in prose(page)
    assert "1,000 of 1,000 shown" in page.all("output")


def test_of_more_sellers_the_largest_budgets_are_listed(render: Render, make_jsam: Any) -> None:
    result = make_jsam(clients=MAX_ROWS + 5, rounds=1)
    record = replace(result.procurement, purchases=result.procurement.purchases[::-1])
    page = render(replace(result, clients=result.clients[::-1], procurement=record))
    assert len(page.rows) == MAX_ROWS + 1
    assert page.rows[1][0] == "0"
    assert "2,000 of 2,005 clients with the largest budgets; purchases.csv has all." in prose(page)


def test_a_failed_purchase_without_rounds_is_shown(render: Render, make_jsam: Any) -> None:
    failed = replace(make_jsam(rounds=0), status="failed", reason="no round had a valid update")
    page = render(failed)
    assert "The run failed after 0 of 15 rounds: no round had a valid update." in prose(page)
    assert page.all("h3") == [
        "Selection and budgets",
        "Payments",
        "Bought and spent",
        "Scheduled and released",
    ]


def test_skipped_rounds_count_in_the_report(render: Render, make_jsam: Any) -> None:
    page = render(make_jsam(rounds=2, every=5))
    assert "After 10 of 15 rounds" in prose(page)
    assert key_numbers(page)["Rounds"] == ("10", "of 15 planned")
