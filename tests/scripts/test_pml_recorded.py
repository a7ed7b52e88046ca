"""What results/pml/*.csv must show; `make results-pml` makes them anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from scripts import pml_attacks, pml_correlation, pml_stopping, pml_tradeoff
from scripts.pml_results import as_text
from scripts.pml_settings import RESULTS
from scripts.table_parts import Rows
from scripts.tables import read_results

RULES = pml_stopping.RULES
WORST_FIRST = RULES[::-1]
Made = Sequence[dict[str, object]]


def _recorded(name: str) -> Rows:
    return read_results(RESULTS / f"{name}.csv")


def _assert_same(made: Made, recorded: Rows) -> None:
    assert len(made) == len(recorded)
    for new, old in zip(made, recorded, strict=True):
        texts = {key: str(as_text(value)) for key, value in new.items()}
        assert texts.keys() == old.keys()
        for key, text in texts.items():
            try:
                wanted = float(old[key])
            except ValueError:
                assert text == old[key], key
            else:
                assert float(text) == pytest.approx(wanted, rel=1e-4, abs=1e-6), key


@pytest.mark.parametrize(
    ("name", "make"), [("gain", pml_attacks.gain_rows), ("leakage", pml_attacks.leakage_rows)]
)
def test_results_of_attacks_are_those_of_the_code(name: str, make: Callable[[], Made]) -> None:
    _assert_same(make(), _recorded(name))


def test_results_on_one_player_are_those_of_the_code() -> None:
    few = [row for row in _recorded("correlation") if int(row["players"]) <= 4]
    _assert_same([pml_correlation._row(players) for players in (2, 3, 4)], few)


def test_results_of_stopping_are_those_of_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pml_stopping, "PRESETS", {"product": "demo"})
    own = [row for row in _recorded("stopping") if row["prior"] == "product"]
    _assert_same(pml_stopping.stopping_rows(), own)


def _at(name: str, column: str, **where: object) -> list[float]:
    """Return the numbers of a column in the rows that have these values elsewhere."""
    wanted = {key: str(value) for key, value in where.items()}
    return [float(row[column]) for row in _recorded(name) if wanted.items() <= row.items()]


def test_gradient_matching_gains_without_noise_and_less_with_more() -> None:
    levels = ("none", "low", "medium", "high")
    ends = [_at("gain", "gain", noise=level)[-1] for level in levels]
    assert ends == sorted(ends, reverse=True)
    none = _at("gain", "gain", noise="none")
    assert none[0] < 1.05 < 1.6 < none[-1]
    # and never more than who only knows the prior
    assert max(_at("gain", "gain")) < min(_at("gain", "blind"))


def test_leakage_is_between_adversaries_and_bounds() -> None:
    columns = ("matching", "bayes", "exact", "theorem_1", "ceiling")
    for values in zip(*(_at("leakage", column) for column in columns), strict=True):
        assert list(values) == sorted(values)
    group, theorem = _at("leakage", "group_dp"), _at("leakage", "theorem_1")
    assert all(dp >= bound for dp, bound in zip(group, theorem, strict=True))
    assert group[-1] > 20 * theorem[-1] > 20 * _at("leakage", "exact")[-1]


@pytest.mark.parametrize("rule", ["ye", "wang"])
def test_the_filter_has_the_least_error_at_every_budget(rule: str) -> None:
    filtered, theorem, group = (
        _at("tradeoff", "error", rule=rule, holder=holder)
        for holder in ("filter", "theorem-1", "group-dp")
    )
    assert all(a < b < c for a, b, c in zip(filtered, theorem, group, strict=True))
    for curve in (filtered, theorem, group):
        assert curve == sorted(curve, reverse=True)


def test_designs_are_not_at_the_edge_of_what_was_searched() -> None:
    factors = _at("tradeoff", "factor")
    assert pml_tradeoff.FACTORS[0] < min(factors) < max(factors) < pml_tradeoff.FACTORS[-1]


def test_one_player_leaks_more_than_its_dp_as_others_join() -> None:
    players = [int(row["players"]) for row in _recorded("correlation")]
    exact, dp = _at("correlation", "exact"), _at("correlation", "dp")
    assert exact == sorted(exact)
    assert (players[0], players[-1]) == (2, 200)
    assert next(n for n, a, b in zip(players, exact, dp, strict=True) if a > b) == 3
    assert exact[-1] == pytest.approx(_at("correlation", "ceiling")[-1], abs=1e-4)
    for lower, upper in (("lemma_5_lower", "lemma_5_upper"), ("lemma_5_upper", "ceiling")):
        pairs = zip(_at("correlation", lower), _at("correlation", upper), strict=True)
        assert all(a <= b for a, b in pairs)
    assert len(set(dp)) == 1


@pytest.mark.parametrize("prior", ["product", "correlated"])
def test_no_run_leaked_more_than_its_budget(prior: str) -> None:
    for budget, rule in product(("0.5", "1", "2", "4"), RULES):
        (leaked,) = _at("stopping", "leakage_max", prior=prior, budget=budget, rule=rule)
        assert leaked <= float(budget)


@pytest.mark.parametrize("prior", ["product", "correlated"])
@pytest.mark.parametrize("budget", ["0.5", "1", "2", "4"])
def test_the_filter_allows_most_and_comes_nearest(prior: str, budget: str) -> None:
    iterations, least, error = (
        [_at("stopping", column, prior=prior, budget=budget, rule=rule)[0] for rule in WORST_FIRST]
        for column in ("iterations", "iterations_min", "error")
    )
    assert iterations == sorted(iterations)
    assert least == sorted(least)
    assert error == sorted(error, reverse=True)
