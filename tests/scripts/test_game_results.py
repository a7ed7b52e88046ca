"""What results/mfne/*.csv must show; `make results-mfne` makes them anew."""

from __future__ import annotations

import pytest

from scripts import game_results
from scripts.pml_results import as_text
from scripts.table_parts import Rows
from scripts.tables import read_results

RESULTS = game_results.ROOT / "results" / "mfne"


def _coupling() -> Rows:
    return read_results(RESULTS / "coupling.csv")


def test_a_row_is_what_the_solver_finds() -> None:
    old = next(
        row
        for row in _coupling()
        if (row["coupling"], row["release"], row["clients"]) == ("residual", "aggregate", "100")
    )
    solved = game_results.solved_game("residual", "aggregate", 100)
    assert solved.price.anarchy is not None
    assert float(old["price_of_anarchy"]) == pytest.approx(solved.price.anarchy, rel=1e-4)
    assert float(old["mean_strength"]) == pytest.approx(solved.equilibrium.mean_strength, rel=1e-4)


def test_every_equilibrium_is_certified() -> None:
    rows = _coupling()
    games = len(game_results.COUPLINGS) * len(game_results.RELEASES) * len(game_results.SIZES)
    assert len(rows) == games
    assert all(float(row["residual"]) == 0 for row in rows)
    assert all(float(row["exploitability"]) <= 1e-9 for row in rows)
    assert all(float(row["price_of_anarchy"]) >= 1 - 1e-9 for row in rows)


def test_clients_leave_the_noise_to_each_other_where_only_the_sum_is_seen() -> None:
    own = [row for row in _coupling() if row["coupling"] in ("own", "residual")]
    seen = [row for row in own if row["release"] == "aggregate"]
    assert len(seen) == 2 * len(game_results.SIZES)
    assert all(float(r["mean_strength"]) < float(r["optimal_mean_strength"]) for r in seen)
    assert all(float(r["price_of_anarchy"]) > 1.08 for r in seen)


def test_the_solver_of_the_equations_is_what_it_says() -> None:
    measured = {row["quantity"]: row["value"] for row in read_results(RESULTS / "equations.csv")}
    assert measured["mass kept to 1e-12"] == "yes"
    orders = [float(value) for name, value in measured.items() if name.startswith("order")]
    assert orders == pytest.approx([2, 2, 2], abs=0.1)
    assert float(measured["exponent of the distance in N"]) == pytest.approx(-0.5, abs=0.05)
    low, high = (
        float(measured[f"{end} strength at t = 0, beta = 1"]) for end in ("smallest", "largest")
    )
    assert low < 0.15
    assert high == 2


def test_rounding_is_no_result() -> None:
    assert as_text(1e-14) == "0"
