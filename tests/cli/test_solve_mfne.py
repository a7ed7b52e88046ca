"""`fedgame solve mfne` as a user meets it, against brute force, closed forms and dp-accounting."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray

from fedgame import config
from fedgame.accountants.gdp import gdp_delta, gdp_epsilon
from fedgame.cli.app import main
from fedgame.cli.mfne_problem import KEYS, read_problem
from fedgame.cli.mfne_solution import mean_field_game
from fedgame.cli.options import Options
from fedgame.games.privacy.welfare import average_disutility
from fedgame.strategies.disutilities import privacy_terms
from fedgame.tasks.quadratic import Quadratic

Call = Callable[..., tuple[int, str, str]]
Solve = Callable[..., dict[str, Any]]

GRID = np.array([0.1, 0.3, 0.5, 1.0, 2.0])
TAU, ROUNDS, DELTA, COST, CURVATURE = 0.1, 10, 1e-5, 0.05, 3.0
PROBLEM = """
num-clients = 5
rounds = 10
task.name = "quadratic"
quadratic.dim = 5
[training]
neighbours = "client"
sampling-rate = 1.0
[jko]
tau = 0.1
lambda = 0.01
sinkhorn = false
[mean-field]
strength-grid = [0.1, 0.3, 0.5, 1, 2]
curvature-cap = 3.0
cost = 0.05
[population]
beta-min = 0.3
beta-max = 3.0
"""
PRESET = Path(__file__).parents[2] / "experiments" / "games" / "mfne-mfpg.toml"


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.toml"
    path.write_text(PROBLEM)
    return path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedgame", "solve", "mfne", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def solve(call: Call) -> Solve:
    def run(*arguments: object) -> dict[str, Any]:
        code, out, err = call(*arguments, "--json")
        assert (code, err) == (0, "")
        content: dict[str, Any] = json.loads(out)
        return content

    return run


@pytest.fixture
def refused(call: Call) -> Callable[..., str]:
    def run(*arguments: object, code: int = 2) -> str:
        found, out, err = call(*arguments)
        assert (found, out) == (code, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err.removeprefix("error: ").strip()

    return run


def reference_epsilons(strengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """RDP epsilon of ROUNDS full-batch releases, by dp-accounting: C = 1, zero-out."""
    values = []
    for strength in strengths:
        accountant = RdpAccountant()
        event = dp_accounting.GaussianDpEvent(np.sqrt(2 * strength / TAU))
        accountant.compose(event, ROUNDS)
        values.append(accountant.get_epsilon(DELTA))
    return np.array(values)


def probabilities(found: dict[str, Any]) -> NDArray[np.float64]:
    return np.array([kind["probabilities"] for kind in found["types"]])


def test_local_choices_are_those_of_brute_force(problem: Path, solve: Solve) -> None:
    found = solve(problem)
    betas = np.geomspace(0.3, 3, 5)
    epsilons = COST * reference_epsilons(GRID)
    # s-bar shifts all strengths alike
    best = (CURVATURE * TAU * GRID + betas[:, None] * epsilons).argmin(axis=1)
    assert len(set(best)) > 1, "the test needs types that differ"
    assert probabilities(found).argmax(axis=1).tolist() == best.tolist()
    assert (probabilities(found).max(axis=1) == 1).all()
    assert [kind["beta"] for kind in found["types"]] == pytest.approx(betas)
    assert found["mean_strength"] == pytest.approx(GRID[best].mean())
    assert found["residual"] < 1e-12
    assert (found["exploitability"], found["nash_conv"], found["unique"]) == (0, 0, True)


def test_what_strengths_are_worth_is_the_exact_attack_s_and_the_paper_s(
    problem: Path, solve: Solve
) -> None:
    rows = solve(problem)["grid"]
    # of constant gradients, which attain the sound delta exactly
    exact = [0.5891, 0.2372, 0.1269, 0.0396, 0.00683]
    assert [row["sound_delta_at_epsilon_1"] for row in rows] == pytest.approx(exact, rel=2e-3)
    mu = np.sqrt(ROUNDS * TAU / (2 * GRID))
    assert [row["epsilon"] for row in rows] == pytest.approx(gdp_epsilon(mu, DELTA), rel=1e-3)
    claimed = [0.0909090909] * 4 + [0.6095709073]
    assert [row["claimed_delta"] for row in rows] == pytest.approx(claimed, abs=1e-9)


@pytest.mark.parametrize("clients", [2, 5, 40])
def test_the_aggregate_s_equilibrium_withstands_brute_force(
    problem: Path, solve: Solve, clients: int
) -> None:
    found = solve(problem, "--release", "aggregate", "--clients", clients)
    mean = found["mean_strength"]
    seen = GRID + (clients - 1) * mean
    betas = np.array([kind["beta"] for kind in found["types"]])
    utility = CURVATURE * TAU * GRID + betas[:, None] * COST * reference_epsilons(seen)
    excess = utility - utility.min(axis=1, keepdims=True)
    # as exact as epsilon is interpolated
    assert excess[probabilities(found) > 0].max() < 1e-3 * utility.max()
    shares = np.array([kind["share"] for kind in found["types"]])
    assert shares @ probabilities(found) @ GRID == pytest.approx(mean, rel=1e-12)
    assert found["exploitability"] <= 1e-9
    mu = np.sqrt(ROUNDS * TAU / (2 * seen))
    epsilons = [row["epsilon"] for row in found["grid"]]
    deltas = [row["sound_delta_at_epsilon_1"] for row in found["grid"]]
    assert epsilons == pytest.approx(gdp_epsilon(mu, DELTA), rel=2e-3)
    assert deltas == pytest.approx(gdp_delta(mu, 1.0), rel=5e-3, abs=1e-9)


def test_clients_ride_free_on_each_other_s_noise(problem: Path, solve: Solve) -> None:
    local, seen = solve(problem), solve(problem, "--release", "aggregate")
    assert seen["mean_strength"] < local["mean_strength"]
    price = seen["price_of_anarchy"]
    assert price["anarchy"] > 1.01
    assert price["optimum_mean_strength"] > seen["mean_strength"]
    assert price["gap"] == pytest.approx(price["worst"] - price["optimum"])


def test_no_profile_is_better_than_the_social_optimum(problem: Path, solve: Solve) -> None:
    price = solve(problem, "--release", "aggregate", "--clients", 3)["price_of_anarchy"]
    flat = {**config.read_toml(problem), "mean-field.loss": "quadratic", "num-clients": 3}
    options = Options(KEYS, {"release": "aggregate"}, None)
    game = mean_field_game(read_problem(config.load(flat), options))
    rng = np.random.default_rng(0)
    pure = np.eye(5)
    profiles = [pure[list(index)] for index in np.ndindex(5, 5, 5)]
    profiles += [rng.dirichlet(np.full(5, 0.3), size=3) for _ in range(300)]
    costs = [average_disutility(game, profile) for profile in profiles]
    assert price["optimum"] <= min(costs) + 1e-12
    assert min(costs) == pytest.approx(price["optimum"], rel=0.05)


def test_equal_clients_play_one_strength(problem: Path, solve: Solve) -> None:
    equal = ["-c", "population.beta-min=2", "-c", "population.beta-max=2"]
    (kind,) = solve(problem, *equal)["types"]
    assert (max(kind["probabilities"]), kind["share"]) == (1, 1)


def test_equal_clients_mix_two_adjacent_strengths_where_indifferent(
    problem: Path, solve: Solve
) -> None:
    equal = ["-c", "population.beta-min=4", "-c", "population.beta-max=4"]
    found = solve(problem, *equal, "--release", "aggregate")
    assert [p > 0 for p in found["types"][0]["probabilities"]] == [True, True, False, False, False]
    # where they are indifferent: the root of U(.1) = U(.3) in s-bar
    seen = GRID[:2] + 4 * found["mean_strength"]
    low, high = CURVATURE * TAU * GRID[:2] + 4 * COST * reference_epsilons(seen)
    assert low == pytest.approx(high, rel=1e-3)


def test_the_interpolated_privacy_term_is_near_the_exact_one(problem: Path) -> None:
    flat = {**config.read_toml(problem), "mean-field.loss": "quadratic"}
    options = Options(KEYS, {"release": "aggregate"}, None)
    asked = read_problem(config.load(flat), options)
    game = mean_field_game(asked)
    for mean in np.linspace(0.1, 2.0, 7):
        exact = privacy_terms(asked.experiment, asked.game, 1, GRID + 4 * mean)
        looked_up: Any = game.disutility
        assert looked_up.privacy(GRID + 4 * mean) == pytest.approx(exact, rel=3e-4)


def test_clients_is_a_key_by_another_name(problem: Path, solve: Solve) -> None:
    assert solve(problem, "--clients", 7) == solve(problem, "-c", "num-clients=7")


def test_many_clients_are_grouped(problem: Path, solve: Solve) -> None:
    found = solve(problem, "--clients", 100_000)
    assert len(found["types"]) == 256
    assert sum(kind["share"] for kind in found["types"]) == pytest.approx(1)
    assert any("100,000 clients are grouped into 256 types" in note for note in found["notes"])


def test_a_table_of_the_quadratic_loss_gives_the_same(
    problem: Path, solve: Solve, tmp_path: Path
) -> None:
    table = tmp_path / "loss.csv"
    table.write_text(f"strength,loss\n0,0\n3,{3 * CURVATURE * TAU}\n")
    by_table, by_curvature = solve(problem, "--loss", table), solve(problem)
    assert by_table["types"] == by_curvature["types"]
    assert by_table["loss"] == "table loss.csv"
    assert solve(problem, "--curvature", CURVATURE) == by_curvature
    assert solve(problem, "--curvature", 300)["mean_strength"] == pytest.approx(0.1)


def test_a_curved_loss_couples_players(problem: Path, solve: Solve, tmp_path: Path) -> None:
    table = tmp_path / "loss.csv"
    strengths = np.linspace(0, 3, 301)
    losses = 0.4 * strengths**2
    pairs = zip(strengths, losses, strict=True)
    table.write_text("strength,loss\n" + "".join(f"{s},{loss}\n" for s, loss in pairs))
    found = solve(problem, "--loss", table, "-c", "mean-field.coupling=residual")
    effective = GRID + found["mean_strength"] / 5
    betas = np.array([kind["beta"] for kind in found["types"]])
    interpolated = np.interp(effective, strengths, losses)
    utility = interpolated + betas[:, None] * COST * reference_epsilons(GRID)
    excess = utility - utility.min(axis=1, keepdims=True)
    assert excess[probabilities(found) > 0].max() < 1e-9
    assert not any("does not depend on theirs" in note for note in found["notes"])


def test_no_data_are_loaded(problem: Path, solve: Solve, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> None:
        raise AssertionError("data were loaded")

    monkeypatch.setattr(Quadratic, "load", load)
    solve(problem)


def test_the_demo_is_solved_without_a_file(solve: Solve) -> None:
    found = solve()
    assert (found["num_clients"], found["num_examples"]) == (10, 143)
    # the demo's grid of noise multipliers, at the client with the fewest examples
    assert [row["noise_multiplier"] for row in found["grid"]] == pytest.approx([2, 3, 4.5, 7, 10])


def test_the_preset_shows_a_trade_off_and_free_riding(solve: Solve) -> None:
    local = solve(PRESET)
    assert sum(row["share"] > 0 for row in local["grid"]) >= 3
    seen = solve(PRESET, "--release", "aggregate")
    assert seen["price_of_anarchy"]["anarchy"] > 1.2
    assert seen["price_of_anarchy"]["anarchy"] > local["price_of_anarchy"]["anarchy"]


def test_a_person_gets_tables(problem: Path, call: Call) -> None:
    code, out, err = call(problem, "--release", "aggregate")
    assert (code, err) == (0, "")
    assert "mean-field equilibrium, 5 clients, release aggregate" in out
    for text in ("NashConv", "price of anarchy", "the only equilibrium", "note: Only the sum"):
        assert text in out
    assert "…" not in out, "a table is cut"


def test_files(problem: Path, solve: Solve, tmp_path: Path) -> None:
    found = solve(problem, "--release", "aggregate", "--output", tmp_path / "new" / "here")
    with (tmp_path / "new" / "here" / "mfne.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    played = [
        (kind["beta"], float(GRID[j]), probability)
        for kind in found["types"]
        for j, probability in enumerate(kind["probabilities"])
        if probability
    ]
    read = [(float(r["beta"]), float(r["strength"]), float(r["probability"])) for r in rows]
    assert read == played
    page = (tmp_path / "new" / "here" / "mfne.html").read_text()
    assert page.count('class="plot"') == 2


def test_a_search_cut_short_fails_with_its_residual(problem: Path, refused: Any) -> None:
    text = refused(problem, "--release", "aggregate", "--iterations", 0, code=1)
    assert text.startswith("no equilibrium after 0 bisection steps: at mean strength ")
    assert "the residual is " in text


def test_one_strength_leaves_nothing_to_choose(problem: Path, refused: Any) -> None:
    text = refused(problem, "-c", "mean-field.strength-grid=0.3")
    assert text == (
        "mean-field.strength-grid = 0.3: one strength leaves nothing to choose: give at least two"
    )
    text = refused("-c", "mean-field.noise-multiplier-grid=3")
    assert text.startswith("mean-field.noise-multiplier-grid = 3: one strength leaves nothing")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", "mean-field.loss=measured"], "mean-field.loss = 'measured': must be \"quadratic\""),
        (["-c", "cell=mfep"], "game.name = 'none': must be \"mean-field\""),
        (["-c", "strategy=aggregative"], "strategy = 'aggregative': must be 'mfpg'"),
        (["-c", "mean-field.grid=1"], "mean-field.grid = 1: unknown key"),
        (["-c", "population.beta-max=0.1"], "population.beta-max = 0.1: must be at least beta-min"),
        (["-c", "mean-field.cost=nan"], "mean-field.cost = nan: "),
        (["-c", "mean-field.strength-grid=1e-30,1"], "mean-field.strength-grid = '1e-30,1': gives"),
        (["--release", "all"], "--release = 'all': allowed: local, aggregate"),
        (["-c", "num-clients=1"], "num-clients = 1: must be at least 2: one client plays against"),
        (["--clients", "1"], "--clients = 1: must be an integer >= 2"),
        (["--clients", "many"], "--clients = 'many': must be an integer >= 2"),
        (["--curvature", "0"], "--curvature = 0: must be a finite number > 0"),
        (["--curvature", "inf"], "--curvature = inf: must be a finite number > 0"),
        (["--iterations", "-1"], "--iterations = -1: must be an integer >= 0"),
        (["--examples", "0.5"], "--examples = 0.5: must be an integer >= 1"),
        (["--loss", "no.csv"], "--loss = 'no.csv': cannot be read"),
        (["--loss", "no.csv", "--curvature", "1"], "--curvature = 1: excludes --loss"),
    ],
)
def test_wrong_values_are_named(
    problem: Path, refused: Any, arguments: list[str], said: str
) -> None:
    assert refused(problem, *arguments).startswith(said)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("jko.sinkhorn=true", "jko.sinkhorn = True: must be false where only the sum is seen"),
        ("training.local-steps=2", "training.local-steps = 2: must be 1 where only the sum"),
        ("mean-field.privacy=lsi", "mean-field.privacy = 'lsi': the claim does not speak of it"),
    ],
)
def test_what_the_sum_does_not_protect_is_refused(
    problem: Path, refused: Any, override: str, said: str
) -> None:
    assert refused(problem, "--release", "aggregate", "-c", override).startswith(said)


def test_examples_that_nothing_tells_are_asked_for(refused: Any, solve: Solve) -> None:
    text = refused("-c", "num-clients=2000")
    assert text == "--examples is missing: give the number of examples of each client"
    assert solve("-c", "num-clients=2000", "--examples", 50)["num_examples"] == 50
    # it is the client that is protected, however many examples it has
    client = ["-c", "training.neighbours=client", "-c", "num-clients=2000"]
    assert solve(*client)["num_examples"] is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s,l\n1,2\n", "must begin with the line strength,loss"),
        ("", "must begin with the line strength,loss"),
        ("strength,loss\n1,2\n", "must have at least two lines, with rising strengths"),
        ("strength,loss\n2,2\n1,2\n", "must have at least two lines, with rising strengths"),
        ("strength,loss\n1,nan\n2,2\n", "line 2 must be two finite numbers"),
        ("strength,loss\n1,1e31\n2,2\n", "line 2 must be two finite numbers"),
        ("strength,loss\n1,1\n2,2,3\n", "line 3 must be two finite numbers"),
        ("strength,loss\n1,1\n2,2\n", "must reach from strength 0.12 to 2.4, what a client can"),
    ],
)
def test_wrong_tables_are_refused(
    problem: Path, refused: Any, tmp_path: Path, text: str, said: str
) -> None:
    table = tmp_path / "loss.csv"
    table.write_text(text)
    assert refused(problem, "--loss", table).startswith(f"--loss = '{table}': {said}")


def test_a_folder_that_cannot_be_written(problem: Path, refused: Any) -> None:
    text = refused(problem, "--output", problem)
    assert text.startswith(f"--output = '{problem}': must be a folder that can be written")


def test_a_file_that_is_not_there(tmp_path: Path, refused: Any) -> None:
    assert "cannot be read" in refused(tmp_path / "none.toml")
