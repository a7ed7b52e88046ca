"""Bad input gets one line that names the key, the value and what is allowed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedgame import config
from fedgame.accountants.lsi import LsiAccountant
from fedgame.errors import AccountingError, ConfigError
from fedgame.strategies import SERVERS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"cell": "mfgp"}, "cell = 'mfgp'"),
        ({"clients": 3}, "clients = 3"),
        ({"jko.tua": 3}, "jko.tua = 3.*did you mean jko.tau"),
        ({"task.name": "cifar11"}, "task.name = 'cifar11'.*digits"),
        ({"mechanism.name": "laplace"}, "mechanism.name = 'laplace'.*gaussian"),
        ({"mean-field.noise-multiplier-grid": ""}, "mean-field.noise-multiplier-grid"),
        ({"mean-field.strength-grid": "0.3, 0.1"}, "mean-field.strength-grid"),
        ({"mean-field.strength-grid": "0, 0.1"}, "mean-field.strength-grid"),
        ({"mean-field.strength-grid": "0.1, nan"}, "mean-field.strength-grid"),
        ({"mean-field.strength-grid": "0.1, inf"}, "mean-field.strength-grid"),
        ({"mean-field.noise-multiplier-grid": "1, 1e200"}, "mean-field.noise-multiplier-grid"),
        ({"mean-field.strength-grid": "a, b"}, "mean-field.strength-grid"),
        # a disutility or a charge would be infinite, or its weight not a number
        ({"mean-field.loss-cap": 1e308}, r"mean-field.loss-cap = 1e\+308"),
        ({"mean-field.loss-cap": 1e-320}, "mean-field.loss-cap = 1e-320"),
        ({"mean-field.offset": 1e-300}, "mean-field.offset = 1e-300"),
        ({"mean-field.curvature-cap": 1e308}, r"mean-field.curvature-cap = 1e\+308"),
        ({"mean-field.selection-epsilon": 1e308}, r"mean-field.selection-epsilon = 1e\+308"),
        ({"accountant.delta": 0}, "accountant.delta = 0"),
        ({"accountant.delta": 1.0}, "accountant.delta = 1.0"),
        ({"accountant.delta": float("nan")}, "accountant.delta = nan"),
        ({"accountant.name": "lsi"}, "accountant.name = 'lsi'"),
        ({"training.sampling-rate": 0.0}, "training.sampling-rate = 0.0"),
        ({"training.sampling-rate": 1.5}, "training.sampling-rate = 1.5"),
        ({"training.clipping-norm": float("inf")}, "training.clipping-norm = inf"),
        ({"training.local-steps": 0}, "training.local-steps = 0"),
        ({"num-clients": 0}, "num-clients = 0"),
        ({"rounds": "many"}, "rounds = 'many'"),
        ({"seed": -1}, "seed = -1"),
        ({"min-clients": 11}, "min-clients = 11.*num-clients = 10"),
        ({"nodes": 11}, "nodes = 11"),
        ({"population.beta-min": 0.0}, "population.beta-min = 0.0"),
        ({"population.beta-min": -1}, "population.beta-min = -1"),
        ({"population.beta-max": 0.1}, "population.beta-max"),
        ({"gaussian.target-epsilon": -1}, "gaussian.target-epsilon = -1"),
        ({"jko.tau": 0}, "jko.tau = 0"),
        ({"run-name": "../up"}, "run-name = '../up'"),
        ({"run-name": ".."}, "run-name = '..'"),
        ({"rounds": True}, "rounds = True"),
        ({"training.clipping-norm": True}, "training.clipping-norm = True"),
        ({"accountant.delta": 1e-13}, "accountant.delta = 1e-13"),
        ({"num-clients": 10**20}, "num-clients = 1"),
        ({"jko.prior-std": 1e-200}, "jko.prior-std = 1e-200"),
        ({"training.clip": "average"}, "training.clip = 'average'"),
        (
            {"training.neighbours": "client", "mean-field.choice-sampling-rate": 0.5},
            "mean-field.choice-sampling-rate = 0.5",
        ),
    ],
)
def test_bad_values_are_named(overrides: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        config.load(overrides)
    assert "\n" not in str(caught.value)


def test_the_defaults_are_the_demo() -> None:
    demo = config.read_toml(ROOT / "experiments" / "demo.toml")
    written, default = config.load(demo), config.load({})
    for part in ("run", "training", "accounting", "source", "task", "mechanism", "game"):
        assert getattr(written, part) == getattr(default, part), part


def test_pyproject_lists_every_key_with_its_default() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    table = project["tool"]["flwr"]["app"]["config"]
    expected = tomllib.loads(config.config_keys_toml())
    assert table == expected


@pytest.mark.parametrize(
    ("cell", "mechanism", "game"),
    [
        ("dp-sgd", "gaussian", "none"),
        ("mfep", "jko", "none"),
        ("mapg-dp", "gaussian", "mapg"),
        ("mfpg", "jko", "mean-field"),
    ],
)
def test_a_cell_is_a_choice_of_mechanism_and_game(cell: str, mechanism: str, game: str) -> None:
    experiment = config.load({"cell": cell})
    assert (experiment.mechanism.name, experiment.game.name) == (mechanism, game)


def test_an_off_diagonal_combination_can_be_named() -> None:
    experiment = config.load({"cell": "mfpg", "mechanism.name": "gaussian"})
    assert (experiment.mechanism.name, experiment.game.name) == ("gaussian", "mean-field")


# what `fedgame solve` reads has keys of its own, and its own tests
@pytest.mark.parametrize(
    "preset",
    [p for p in sorted(ROOT.glob("experiments/**/*.toml")) if p.parent.name != "games"],
    ids=lambda p: p.stem,
)
def test_every_preset_is_valid_and_flat(preset: Path) -> None:
    flat = config.read_toml(preset)
    experiment = config.load(flat)
    run = experiment.run
    if preset.parent.name == "flow":
        assert (run.cell, experiment.source.name) == ("mfep", preset.stem)
    elif preset.parent.name in SERVERS:
        assert run.strategy == preset.parent.name
    else:
        # a preset that is named for what it shows is a game's
        assert run.cell in preset.stem or run.cell == "mfpg"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rounds=3", ("rounds", 3)),
        ("jko.tau = 0.5", ("jko.tau", 0.5)),
        ('cell="mfep"', ("cell", "mfep")),
        ("cell=mfep", ("cell", "mfep")),
        ("task.download=true", ("task.download", True)),
        ("mean-field.strength-grid=[0.1, 1]", ("mean-field.strength-grid", "0.1, 1")),
        ("run-name=a=b", ("run-name", "a=b")),
    ],
)
def test_overrides(text: str, expected: tuple[str, object]) -> None:
    assert config.parse_override(text) == expected


@pytest.mark.parametrize("text", ["rounds", "=3", ""])
def test_an_override_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        config.parse_override(text)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        config.read_toml(tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("cell = ")
    with pytest.raises(ConfigError, match="not valid TOML"):
        config.read_toml(broken)
    deep = tmp_path / "deep.toml"
    deep.write_text("rounds = 1979-05-27")
    with pytest.raises(ConfigError, match="rounds"):
        config.read_toml(deep)


def test_flat_toml_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "flat.toml"
    flat = {**config.load({}).flat, "output-dir": 'a "quoted" \\ path'}
    path.write_text(config.to_toml(flat))
    assert config.read_toml(path) == flat


def test_the_claim_exists_for_the_entropic_mechanism_only() -> None:
    claim = config.accountant("lsi", config.load({"cell": "mfep"}))
    assert isinstance(claim, LsiAccountant)
    assert (claim.dimension, claim.num_clients) == (650, 10)
    with pytest.raises(AccountingError, match="entropic"):
        config.accountant("lsi", config.load({"cell": "dp-sgd"}))
