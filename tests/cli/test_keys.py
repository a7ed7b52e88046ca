"""The keys, and the table of them in a pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedgame.cli.app import app
from fedgame.cli.keys import with_config_keys
from fedgame.config import config_keys_toml

BEFORE = """\
[project]
name = "x"

[tool.flwr.app]
publisher = "me"

[tool.flwr.app.config]
old = 1

[tool.ruff]
line-length = 100
"""


def test_keys_prints_every_key_with_its_default() -> None:
    result = CliRunner().invoke(app, ["keys"])
    assert result.exit_code == 0
    assert result.stdout == config_keys_toml()


def test_the_table_is_replaced_and_the_rest_kept() -> None:
    after = with_config_keys(BEFORE, "new = 2\njko.tau = 0.1\n")
    tree = tomllib.loads(after)
    assert tree["tool"]["flwr"]["app"]["config"] == {"new": 2, "jko": {"tau": 0.1}}
    expected = tomllib.loads(BEFORE)
    del expected["tool"]["flwr"]["app"]["config"], tree["tool"]["flwr"]["app"]["config"]
    assert tree == expected


@pytest.mark.parametrize("table", ["new = 2\n", 'path = "a\\\\b \\\\1"\n'])
def test_writing_twice_changes_nothing_more(table: str) -> None:
    once = with_config_keys(BEFORE, table)
    assert with_config_keys(once, table) == once
    assert table in once


def test_a_table_at_the_end_is_replaced_too() -> None:
    text = '[project]\nname = "x"\n\n[tool.flwr.app.config]\nold = 1\n'
    after = with_config_keys(text, "new = 2\n")
    assert after == '[project]\nname = "x"\n\n[tool.flwr.app.config]\nnew = 2\n'


def test_a_missing_table_is_added() -> None:
    after = with_config_keys('[project]\nname = "x"\n', "new = 2\n")
    assert tomllib.loads(after)["tool"]["flwr"]["app"]["config"] == {"new": 2}


def test_check_says_what_to_do_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(BEFORE)
    result = CliRunner().invoke(app, ["keys", "--pyproject", str(path), "--check"])
    assert result.exit_code == 1
    assert "make config-keys" in result.stderr
    assert path.read_text() == BEFORE


def test_a_written_file_passes_the_check(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(BEFORE)
    assert CliRunner().invoke(app, ["keys", "--pyproject", str(path)]).exit_code == 0
    assert CliRunner().invoke(app, ["keys", "--pyproject", str(path), "--check"]).exit_code == 0
