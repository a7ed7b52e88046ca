"""The command as a user meets it: help, version, and how errors look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedgame.cli import app as cli
from fedgame.errors import ConfigError, FedgameError, LedgerError, RunFailed

FEDGAME = str(Path(sys.executable).parent / "fedgame")


def fedgame(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FEDGAME, *arguments], capture_output=True, text=True, timeout=60)


def test_help_names_every_verb() -> None:
    shown = fedgame("--help").stdout
    assert all(verb in shown for verb in ("run", "keys", "audit", "solve"))


def test_defaults_in_help_are_plain_text() -> None:
    shown = fedgame("run", "--help").stdout
    assert "[default: (2)" in shown
    assert "\\[" not in shown


def test_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert fedgame("--version").stdout == f"fedgame {version('fedgame')}\n"


def test_the_command_line_loads_nothing_heavy() -> None:
    code = "import sys, fedgame.cli; print({'torch', 'flwr', 'numpy', 'ray'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout.strip() == "set()"


def test_unknown_verb_is_refused() -> None:
    result = fedgame("nosuch")
    assert result.returncode == 2
    assert "No such command" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("jko.tau", -1, "must be > 0"), 2),
        (LedgerError("no ledger\nthere"), 2),
        (RunFailed("3 of 10 nodes came"), 1),
    ],
)
def test_an_error_made_on_purpose_is_one_line(
    error: FedgameError,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    captured = capsys.readouterr()
    assert stopped.value.code == code
    assert captured.err == f"error: {' '.join(str(error).split())}\n"
    assert captured.out == ""


def test_an_error_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main()
