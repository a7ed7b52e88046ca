"""`fedgame solve limit` as a user meets it."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame.cli.app import main
from fedgame.games.privacy.mean_field_limit import fitted_exponent

Call = Callable[..., tuple[int, str, str]]

PRESET = Path(__file__).parents[2] / "experiments" / "games" / "mfne-mfpg.toml"
FEW = ["--sizes", "2,5,10,300,3000", "--repeats", "4"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedgame", "solve", "limit", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


def test_json_and_files_say_the_same(call: Call, tmp_path: Path) -> None:
    code, out, err = call(PRESET, *FEW, "--json", "--output", tmp_path / "new")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    rows = found["rows"]
    assert [row["players"] for row in rows] == [2, 5, 10, 300, 3000] * 2
    assert found["converged"] is all(row["converged"] for row in rows) is True
    sampled = [row for row in rows if row["population"] == "sampled"]
    sizes, distances = (
        np.array([row[name] for row in sampled], dtype=np.float64)
        for name in ("players", "distance")
    )
    assert found["rates"]["sampled"] == pytest.approx(fitted_exponent(sizes, distances))
    assert -0.75 < found["rates"]["sampled"] < -0.3
    with (tmp_path / "new" / "limit.csv").open() as stream:
        assert [float(row["distance"]) for row in csv.DictReader(stream)] == [
            row["distance"] for row in rows
        ]
    page = (tmp_path / "new" / "limit.html").read_text()
    assert page.count('class="plot"') == 1
    assert f"sampled: N^{found['rates']['sampled']:.2f}" in page


def test_a_person_gets_a_table_and_a_failed_search_is_flagged(call: Call) -> None:
    # rounds of fictitious play that are too few where nobody's first answer is the last
    chase = ["--release", "aggregate", "-c", "mean-field.cost=3", "-c", "num-clients=5"]
    arguments = [PRESET, "--sizes", "3", "--repeats", "2", "--method", "fictitious-play"]
    code, out, err = call(*arguments, *chase, "--rounds", 1)
    assert "N players against the mean field, by fictitious-play" in out
    assert "rate in proportion: " in out
    if code:
        assert err == (
            "error: not every search of an equilibrium of N players converged; see the notes\n"
        )
        assert "NO" in out
        assert "the largest gain that is left is" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sizes", "1,2"], "--sizes = '1,2': must be whole numbers from 2 to 1000000"),
        (["--sizes", "two"], "--sizes = 'two': must be whole numbers"),
        (["--sizes", "10000000"], "--sizes = '10000000': must be whole numbers"),
        (["--repeats", "0"], "--repeats = 0: must be an integer >= 1"),
        (["--rounds", "few"], "--rounds = 'few': must be an integer >= 1"),
        (["--method", "guess"], "--method = 'guess': allowed: best-response, fictitious-play"),
        (["-c", "cell=mfep"], "game.name = 'none': must be"),
        (["-c", "mean-field.strength-grid=0.3", "-c", "mean-field.noise-multiplier-grid="], "mean"),
    ],
)
def test_wrong_values_are_refused_in_one_line(call: Call, arguments: list[str], said: str) -> None:
    code, out, err = call(PRESET, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {said}")
    assert err.count("\n") == 1
