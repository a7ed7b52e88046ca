"""README and docs say what is there: links, files, commands, keys, tables, examples, numbers."""

from __future__ import annotations

import csv
import importlib.util
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import typer
from scipy.stats import norm

from fedgame import config
from fedgame.cli.app import app
from fedgame.runner import run_in_process
from fedgame.tasks import TASKS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
IDS = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"^```[a-z]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(r"\b(?:docs|experiments|fedgame|results|scripts|tests)/[\w./-]+\.[a-z]{2,4}\b")
KEY = re.compile(r"(?<!`)`([a-z0-9-]+\.[a-z0-9-]+)(?: = [^`]+)?`(?!`)")
SUFFIXES = {"toml", "md", "py", "csv", "html", "npz", "json", "sqlite", "safetensors", "png"}
SUFFIXES |= {"yml", "crt", "key", "pub"}


def words(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def commands(page: Path, program: str) -> list[list[str]]:
    """Return the arguments of every line in a code block that starts with a program."""
    blocks = FENCE.findall(page.read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.splitlines()]
    return [words(line)[1:] for line in lines if line.startswith(f"{program} ")]


def script(name: str) -> ModuleType:
    """Import a file of scripts/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run_script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_and_images_resolve(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        target, _, fragment = link.partition("#")
        if target.startswith(("http:", "https:")):
            continue
        path = page.parent / target if target else page
        assert path.exists(), f"{link}: no such file"
        if fragment:
            headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}
            assert fragment in slugs, f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_named_files_exist(page: Path) -> None:
    for name in FILE.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), f"{name}: no such file"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_named_keys_exist(page: Path) -> None:
    for key in KEY.findall(page.read_text(encoding="utf-8")):
        if key.rpartition(".")[2] not in SUFFIXES and not key.startswith("fedgame."):
            assert key in config.defaults(), f"{key}: no such key"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_named_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"(?:^|`)make ([a-z][a-z0-9 -]*)", text, re.MULTILINE):
        assert set(line.split("  ")[0].split()) <= targets, f"make {line}: no such target"


def command_of(name: str, *rest: str) -> click.Command:
    root = typer.main.get_command(app)
    assert isinstance(root, click.Group)
    command = root.commands[name]
    if not isinstance(command, click.Group):
        return command
    # `audit` alone means its first command
    named = command.commands.get(rest[0]) if rest else None
    return named or command.commands["ledger"]


def options_of(command: click.Command) -> set[str]:
    return {"--help"} | {name for option in command.params for name in option.opts}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_have_the_options_that_are_named(page: Path) -> None:
    for verb, *rest in commands(page, "fedgame"):
        known = options_of(command_of(verb, *rest))
        for word in rest:
            if word.startswith("-"):
                assert word in known, f"fedgame {verb} has no option {word}"


def test_options_named_in_the_text_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    known = options_of(command_of("run"))
    named = re.findall(r"`(--?[a-z][a-z-]*)[ `]", text)
    assert named
    # the one option of Flower's own command that the text names
    assert set(named) - {"--federation-config"} <= known


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_experiments_and_overrides_are_valid(page: Path) -> None:
    for verb, *rest in commands(page, "fedgame"):
        if verb != "run" or "breast-cancer" in " ".join(rest):
            continue
        flat: dict[str, Any] = {}
        for word in rest:
            if word.endswith(".toml"):
                flat |= config.read_toml(ROOT / word)
        for option, value in pairwise(rest):
            if option == "-c":
                key, parsed = config.parse_override(value)
                flat[key] = parsed
        config.load(flat)


def test_the_bare_flower_command_overrides_a_key_that_exists() -> None:
    values = [
        value
        for rest in commands(ROOT / "README.md", "flwr")
        for option, value in pairwise(rest)
        if option == "--run-config"
    ]
    assert values
    for value in values:
        config.load(dict([config.parse_override(value)]))


def test_the_tables_are_up_to_date() -> None:
    done = run_script("tables", "--check")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy what the scripts read into a folder that may be changed."""
    for name in ("docs", "results", "experiments"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def test_a_stale_table_is_found_and_rewritten(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = script("tables")
    page = checkout / "docs" / "fidelity.md"
    before = page.read_text(encoding="utf-8")
    page.write_text(before.replace("| 0.09091 |", "| 0.08 |"), encoding="utf-8")
    assert tables.main(["--check", "--root", str(checkout)]) == 1
    assert "docs/fidelity.md: stale tables" in capsys.readouterr().err
    assert tables.main(["--root", str(checkout)]) == 0
    assert page.read_text(encoding="utf-8") == before
    assert tables.main(["--check", "--root", str(checkout)]) == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<!-- begin nonsense -->\n<!-- end nonsense -->\n", "unknown block nonsense"),
        ("<!-- begin demo -->\n", "no `end` of the same name"),
    ],
)
def test_a_broken_block_is_named(
    checkout: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "docs" / "new.md").write_text(text, encoding="utf-8")
    assert script("tables").main(["--root", str(checkout)]) == 1
    error = capsys.readouterr().err
    assert "docs/new.md" in error
    assert says in error


def test_missing_results_are_named(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "results" / "demo.csv").unlink()
    assert script("tables").main(["--root", str(checkout)]) == 1
    assert "make results" in capsys.readouterr().err


def test_results_of_runs_that_cannot_be_made_here_stay(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = script("results")
    monkeypatch.setattr(results, "ROOT", checkout)
    monkeypatch.delenv("FEDGAME_DATA_DIR", raising=False)
    path = checkout / "results" / "paper_mfep.csv"
    before = results.read_rows(path)
    assert results.main(["--only", "paper_mfep"]) == 0
    assert "mnist-mfep mfep seed 42: skipped, set FEDGAME_DATA_DIR" in capsys.readouterr().err
    after = results.read_rows(path)
    mnist = ("paper/mnist-mfep", "mfep", 42)
    assert after.keys() == before.keys()
    assert after[mnist] == before[mnist]
    with path.open(encoding="utf-8") as stream:
        claims = [float(row["claimed_delta"]) for row in csv.DictReader(stream)]
    assert sorted(claims) == pytest.approx([0.0909090909, 0.0988211769, 0.1505846505])


def test_a_picture_without_a_browser_or_a_report_is_one_line(tmp_path: Path) -> None:
    for environment, says in (({"PATH": ""}, "no Chromium on PATH"), ({}, "no report.html")):
        done = run_script("picture", str(tmp_path), **environment)
        if says == "no report.html" and "no Chromium" in done.stderr:
            pytest.skip("there is no Chromium here")
        assert done.returncode == 1
        assert says in done.stderr
        assert done.stderr.count("\n") == 1


def fenced_after(marker: str) -> str:
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    block = FENCE.search(text, text.index(f"<!-- {marker} -->"))
    assert block is not None
    return block[1]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install the worked example as its page says: a file and a line."""
    line = fenced_after("registry line").strip()
    found = re.fullmatch(r'"([a-z-]+)": "([\w.]+):(\w+)",', line)
    assert found is not None
    name, module_name, attribute = found.groups()
    path = tmp_path / "example.py"
    path.write_text(fenced_after("example"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module_name, module)
    monkeypatch.setitem(TASKS._table, name, f"{module_name}:{attribute}")
    spec.loader.exec_module(module)
    config._sections.cache_clear()
    config.defaults.cache_clear()
    yield name
    monkeypatch.undo()
    config._sections.cache_clear()
    config.defaults.cache_clear()


def test_the_worked_example_runs(example: str, tmp_path: Path) -> None:
    (_, *rest), *_ = commands(ROOT / "docs" / "extending.md", "fedgame")
    overrides = [value for option, value in pairwise(rest) if option == "-c"]
    flat: dict[str, Any] = dict(config.parse_override(text) for text in overrides)
    assert flat["task.name"] == example
    settings = {"rounds": 16, "output-dir": str(tmp_path), "num-clients": 3}
    summary = run_in_process(config.load({**flat, **settings}), 2, lambda _: None).summary
    assert summary["status"] == "finished"
    assert summary["accuracy"] > 0.7


def test_total_variation_is_not_bounded_as_the_paper_says() -> None:
    """The counterexample to (C.2) in docs/fidelity.md, in one dimension, so that C_d = 1."""
    shift, deviation = 0.05, math.sqrt(1e-4)
    total_variation = 2 * norm.cdf(shift / (2 * deviation)) - 1
    bound = math.sqrt(shift)
    assert total_variation == pytest.approx(0.988, abs=5e-4)
    assert bound == pytest.approx(0.224, abs=5e-4)
