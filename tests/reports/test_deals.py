from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fedgame.reports.deals import Deal, deals, draws, participants


def test_deals_pair_clients_and_purchases_in_order(make_jsam: Any) -> None:
    result = make_jsam(clients=5)
    found = deals(result)
    assert [deal.client.id for deal in found] == [0, 1, 2, 3, 4]
    assert tuple(deal.purchase for deal in found) == result.procurement.purchases
    assert [deal.spent for deal in found] == [client.epsilon["pld"] for client in result.clients]


def test_a_run_that_bought_nothing_has_no_deals(make_result: Any) -> None:
    assert deals(make_result()) == ()


def test_a_purchase_that_is_missing_is_an_error(make_jsam: Any) -> None:
    result = make_jsam()
    with pytest.raises(ValueError, match="shorter"):
        deals(replace(result, clients=(*result.clients, result.clients[0])))


def test_participants_released_and_draws_are_releases(make_jsam: Any) -> None:
    record = make_jsam(clients=8).procurement
    counts = [purchase.released for purchase in record.purchases]
    assert counts == [5, 0, 9, 7, 8, 9, 0, 0]
    assert (participants(record), draws(record)) == (5, 38)


@pytest.mark.parametrize(
    ("spent", "overspent"),
    [
        ({"pld": 1.234567}, False),
        ({"pld": math.nextafter(1.234567, 2)}, True),
        ({"pld": math.nan}, True),
        ({"pld": math.inf}, True),
        ({"rdp": 0.1}, True),
    ],
)
def test_more_than_was_bought_or_an_unknown_amount_is_overspent(
    make_jsam: Any, spent: dict[str, float], overspent: bool
) -> None:
    deal = deals(make_jsam())[0]
    assert Deal(replace(deal.client, epsilon=spent), deal.purchase).overspent == overspent


def test_who_released_nothing_spent_nothing(make_jsam: Any) -> None:
    never_drawn = deals(make_jsam())[1]
    assert not Deal(replace(never_drawn.client, epsilon={}), never_drawn.purchase).overspent
