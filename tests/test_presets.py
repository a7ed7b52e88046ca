"""The paper's presets: its claims to the printed digits, and beside them what is sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from fedgame import config
from fedgame.ledger.events import SampledGaussian
from fedgame.ledger.replay import read_events
from tests.support import Run

PAPER = Path(__file__).parents[1] / "experiments" / "paper"


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
