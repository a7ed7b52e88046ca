"""The staged app: Flower itself is the judge of whether it is one."""

from __future__ import annotations

import io
import tomllib
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate

import fedgame
from fedgame.cli.app_folder import stage_app

KEYS = 'rounds = 3\noutput-dir = ""\njko.tau = 0.1\n'


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return stage_app(tmp_path / "app", KEYS)


def test_flower_accepts_it_without_a_warning(app: Path) -> None:
    config, warnings = load_and_validate(app / "pyproject.toml")
    assert warnings == []
    assert config["tool"]["flwr"]["app"]["config"] == tomllib.loads(KEYS)


# Flower's own use of a deprecated name
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_the_bundle_has_every_module_of_the_package(app: Path) -> None:
    package = Path(fedgame.__file__).parent
    modules = {f"fedgame/{path.relative_to(package)}" for path in package.rglob("*.py")}
    with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(app))) as bundle:
        assert modules <= set(bundle.namelist())


def test_it_needs_what_the_package_needs_and_no_development_tools(app: Path) -> None:
    project = tomllib.loads((app / "pyproject.toml").read_text())["project"]
    names = {line.split(">")[0].split("<")[0].split("[")[0] for line in project["dependencies"]}
    assert {"flwr", "torch", "numpy"} <= names
    assert not {"pytest", "mypy", "ruff"} & names
