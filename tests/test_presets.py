"""The paper's presets: its claims to the printed digits, and beside them what is sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from fedgame import config
from fedgame.accountants.pld import PldAccountant
from fedgame.games.privacy.mapg import Mapg
from fedgame.games.privacy.mean_field import MeanField
from fedgame.ledger.events import PureDPChoice, SampledGaussian
from fedgame.ledger.replay import read_events
from fedgame.mechanisms.gaussian import Gaussian
from fedgame.strategies.settings import Experiment
from tests.support import Run

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
PAPER, SOUND = EXPERIMENTS / "paper", EXPERIMENTS / "sound"
CELLS = ("dp-sgd", "mfep", "mapg-dp", "mfpg")


def _preset(name: str, images: Path) -> dict[str, Any]:
    flat: dict[str, Any] = config.read_toml(PAPER / f"{name}.toml")
    if flat["task.name"] == "mnist":
        # accounting does not depend on the images, so a few made-up ones do
        small = {"task.data-dir": str(images), "task.verify-checksums": False}
        flat.update({**small, "task.train-size": 0})
    return flat


def _attained_delta(noise_multiplier: float, steps: int) -> float:
    """Delta at epsilon 1 of `steps` Gaussian releases, attained by constant gradients."""
    mu = np.sqrt(steps) / noise_multiplier
    return float(norm.cdf(mu / 2 - 1 / mu) - np.e * norm.cdf(-mu / 2 - 1 / mu))


@pytest.mark.parametrize(
    ("task", "claimed", "rounds"),
    [
        ("quadratic", 0.0909090909, 10),
        ("logistic", 0.0988211769, 15),
        ("mnist", 0.1505846505, 20),
    ],
)
def test_mfep_claims_what_the_paper_prints(
    run: Run, mnist_like: Path, task: str, claimed: float, rounds: int
) -> None:
    summary = run(_preset(f"{task}-mfep", mnist_like)).summary
    assert summary["mode"] == "paper"
    for client in summary["clients"]:
        assert client["claimed_delta"] == pytest.approx(claimed, abs=1e-9)
        # strength 1, tau .1, C = 1: z = sqrt(20), at the level of a whole client
        assert client["noise_multiplier"] == pytest.approx(np.sqrt(20))
        sound = _attained_delta(np.sqrt(20), rounds)
        assert client["sound_delta_at_epsilon_1"] == pytest.approx(sound, rel=1e-3)


@pytest.mark.parametrize("strength", [0.1, 0.3, 0.5, 1.0, 2.0])
def test_the_sound_delta_of_each_strength(run: Run, mnist_like: Path, strength: float) -> None:
    expected = {0.1: 0.5891, 0.3: 0.2372, 0.5: 0.1269, 1.0: 0.0396, 2.0: 0.00683}[strength]
    flat = {**_preset("quadratic-mfep", mnist_like), "jko.strength": strength}
    for client in run(flat).summary["clients"]:
        assert client["sound_delta_at_epsilon_1"] == pytest.approx(expected, abs=6e-5)


def test_the_report_says_that_a_claim_is_not_covered(run: Run, mnist_like: Path) -> None:
    flat = {**_preset("quadratic-mfep", mnist_like), "jko.strength": 0.1}
    report = (run(flat).folder / "report.html").read_text()
    assert "not covered" in report


@pytest.mark.parametrize(("task", "expected"), [("quadratic", 11.938962), ("logistic", 12.151981)])
def test_dp_sgd_by_the_papers_own_accountant(
    run: Run, mnist_like: Path, task: str, expected: float
) -> None:
    summary = run(_preset(f"{task}-dp-sgd", mnist_like)).summary
    for client in summary["clients"]:
        assert client["noise_multiplier"] == pytest.approx(4.8448052626, abs=1e-9)
        assert client["epsilon"]["order2"] == pytest.approx(expected, abs=1e-6)
        assert client["epsilon"]["pld"] < client["epsilon"]["rdp"] < client["epsilon"]["order2"]


@pytest.mark.parametrize("task", ["quadratic", "logistic"])
def test_the_papers_mfpg_clients_take_one_of_the_two_largest_strengths(
    run: Run, mnist_like: Path, task: str
) -> None:
    """Both terms of the paper's surrogate fall in the strength there, for every preference.

    The envelope below the activation does not depend on the strength and jumps up at it, so a
    client compares the largest strength with the largest one below the activation.
    """
    finished = run(_preset(f"{task}-mfpg", mnist_like))
    chosen = {
        event.strength
        for events in read_events(finished.folder).values()
        for event in events
        if isinstance(event, SampledGaussian)
    }
    assert chosen <= {1.0, 2.0}
    assert any("argmin choice" in note for note in finished.summary["notes"])


@pytest.mark.parametrize("task", ["quadratic", "logistic", "mnist"])
@pytest.mark.parametrize("cell", ["dp-sgd", "mapg-dp", "mfpg"])
def test_every_paper_preset_runs(run: Run, mnist_like: Path, task: str, cell: str) -> None:
    flat = {**_preset(f"{task}-{cell}", mnist_like), "rounds": 2}
    summary = run(flat).summary
    assert summary["status"] == "finished"
    assert summary["neighbours"] == "client"


def test_mfpg_claims_what_the_paper_prints_where_all_choose_2(run: Run, mnist_like: Path) -> None:
    """Its 6.1e-1 on the quadratic task is the claim at the largest strength of the grid."""
    only = {"mean-field.strength-grid": "2"}
    summary = run({**_preset("quadratic-mfpg", mnist_like), **only}).summary
    for client in summary["clients"]:
        assert client["claimed_delta"] == pytest.approx(0.6095709073, abs=1e-9)
        assert f"{client['claimed_delta']:.1e}" == "6.1e-01"


def _sound(task: str, cell: str) -> Experiment:
    return config.load(config.read_toml(SOUND / f"{task}-{cell}.toml"))


@pytest.mark.parametrize("task", ["quadratic", "logistic", "mnist"])
@pytest.mark.parametrize("cell", CELLS)
def test_every_sound_preset_is_sound(task: str, cell: str) -> None:
    experiment = _sound(task, cell)
    assert (experiment.run.cell, experiment.run.mode) == (cell, "sound")
    training, accounting = experiment.training, experiment.accounting
    assert (training.neighbours, training.clip) == ("example", "per-example")
    assert training.sampling_rate < 1
    assert (accounting.name, accounting.delta) == ("pld", 1e-5)
    if isinstance(experiment.game, MeanField):
        assert experiment.game.selection == "exponential"
    if isinstance(experiment.game, Mapg):
        assert experiment.game.curvature == "public"


@pytest.mark.parametrize("task", ["quadratic", "logistic", "mnist"])
def test_the_cells_of_a_task_differ_in_their_own_sections_only(task: str) -> None:
    common = ("task", "mnist", "quadratic", "logistic", "training", "accountant", "population")
    shared = []
    for cell in CELLS:
        flat = config.read_toml(SOUND / f"{task}-{cell}.toml")
        own = {key: flat[key] for key in flat if key.partition(".")[0] in common}
        shared.append({**own, "rounds": flat["rounds"], "clients": flat["num-clients"]})
    assert all(each == shared[0] for each in shared)


@pytest.mark.parametrize("task", ["quadratic", "logistic"])
def test_dp_sgd_is_calibrated_to_the_worst_guarantee_of_mfpg(task: str) -> None:
    experiment = _sound(task, "mfpg")
    game = experiment.game
    assert isinstance(game, MeanField)
    least, rounds = min(game.noise_multiplier_grid), experiment.run.rounds
    choices = sum(game.chooses_in(round_) for round_ in range(1, rounds + 1))
    choice = PureDPChoice(game.selection_epsilon, "example", "choice")
    update = SampledGaussian(least, experiment.training.sampling_rate, rounds, "example", "jko")
    worst = PldAccountant().epsilon([choice] * choices + [update], experiment.accounting.delta)
    target = _sound(task, "dp-sgd").mechanism
    assert isinstance(target, Gaussian)
    assert worst - 2e-3 <= target.target_epsilon <= worst


@pytest.mark.parametrize("task", ["quadratic", "logistic"])
def test_sound_mfpg_runs_and_charges_its_choices(run: Run, task: str) -> None:
    finished = run({**config.read_toml(SOUND / f"{task}-mfpg.toml"), "rounds": 2})
    events = [event for each in read_events(finished.folder).values() for event in each]
    assert any(isinstance(event, PureDPChoice) for event in events)
    assert finished.summary["unaccounted"] == []
