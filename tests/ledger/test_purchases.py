from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from fedgame.ledger.purchases import Purchase
from tests.ledger.support import BOUGHT, deal

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"client": -1}, "client = -1"),
        ({"client": 1.0}, "client = 1.0"),
        *[
            ({name: value}, rf"{name} = {value}: must be finite and >= 0")
            for name in ("epsilon", "payment", "noise_multiplier", "report")
            for value in (NAN, INF, -0.5)
        ],
        *[({"delta": value}, f"delta = {value}") for value in (NAN, INF, 0.0, 1.0, -1e-5)],
        *[({"draws": value}, f"draws = {value}") for value in (-1, 2.5, NAN)],
        ({"epsilon": 0.0}, "draws = 12: must be 0 where no budget was bought"),
        ({"noise_multiplier": 0.0}, "noise_multiplier = 0.0: must be > 0 if the client is drawn"),
        ({"draws": 0}, r"noise_multiplier = 2\.5: .* 0 if it is not \(draws = 0\)"),
    ],
)
def test_what_is_no_purchase_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named) as error:
        Purchase(**{**{name: getattr(BOUGHT, name) for name in BOUGHT.__slots__}, **change})
    assert "\n" not in str(error.value)


def test_who_is_never_drawn_keeps_budget_and_payment() -> None:
    kept = deal(1, draws=0, noise_multiplier=0.0)
    assert (kept.epsilon, kept.payment) == (1.5, 0.75)


def test_who_sold_nothing_is_a_purchase_of_nothing() -> None:
    deal(1, epsilon=0.0, payment=0.0, draws=0, noise_multiplier=0.0, report=0.0)


def test_a_deal_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        BOUGHT.payment = 1.0  # type: ignore[misc]
