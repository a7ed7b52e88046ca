"""`fedgame solve jsam` as a user meets it: published values, files, and every wrong input."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgame.cli.app import main

Solve = Callable[..., dict[str, Any]]
Refused = Callable[..., str]

COSTS = (0.1, 0.2, 0.4, 0.6, 0.9)
UNIFORM = ("--distribution", "uniform:0:1")


def csv_text(costs: Any, header: str = "client,sensitivity") -> str:
    return "\n".join([header, *(f"client {k},{c!r}" for k, c in enumerate(costs))])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text(csv_text(COSTS))
    return tmp_path


@pytest.fixture
def shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fedgame", "solve", "jsam", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        assert (stopped.value.code or 0, captured.err) == (0, "")
        return captured.out

    return run


@pytest.fixture
def solve(shown: Callable[..., str]) -> Solve:
    def run(*arguments: str) -> dict[str, Any]:
        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is no JSON")

        content: dict[str, Any] = json.loads(shown(*arguments, "--json"), parse_constant=refuse)
        return content

    return run


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fedgame", "solve", "jsam", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        assert stopped.value.code == 2
        assert captured.out == ""
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        return captured.err.removeprefix("error: ").strip()

    return run


def column(content: dict[str, Any], name: str) -> list[Any]:
    return [client[name] for client in content["clients"]]


def test_values_computed_elsewhere(solve: Solve) -> None:
    found = solve("--reports", "r.csv", "--eta", "1", "--q", "1", *UNIFORM)
    assert found["objective"] == pytest.approx(2.5510813432, abs=1e-9)
    assert found["cost"] == pytest.approx(1.0056952291, abs=1e-9)
    assert column(found, "client") == [f"client {k}" for k in range(5)]
    assert column(found, "virtual_cost") == pytest.approx([0.2, 0.4, 0.8, 1.2, 1.8])
    assert column(found, "probability") == pytest.approx([0.4, 0.2, 0.2, 0.2, 0])
    budgets = [0.8872500335, 0.4436250168, 0.3521054091, 0.3075924070, 0]
    assert column(found, "epsilon") == pytest.approx(budgets, abs=1e-9)
    assert found["total_payment"] == pytest.approx(sum(column(found, "payment")))
    assert {key: found[key] for key in ("mechanism", "threshold", "eta", "q", "epsilon_max")} == {
        "mechanism": "jsam", "threshold": 4, "eta": 1, "q": 1, "epsilon_max": None,
    }  # fmt: skip
    assert not found["ironed"]
    assert not found["cap_binds"]
    assert found["certificate"]["kkt_residual"] < 1e-12
    assert found["certificate"]["brute_force_gap"] < 1e-12


def test_uniform_selection_computed_elsewhere(solve: Solve, folder: Path) -> None:
    (folder / "r.csv").write_text(csv_text([0.05, 0.3, 0.35, 0.8, 0.95]))
    found = solve("--reports", "r.csv", "--eta", "10", *UNIFORM, "--no-payments")
    assert found["objective"] == pytest.approx(8.9090199038, abs=1e-9)
    assert found["cost"] == pytest.approx(4.4545099520, abs=1e-9)
    assert column(found, "epsilon")[0] == pytest.approx(2.0785159073, abs=1e-9)
    assert column(found, "payment") == [None] * 5
    assert found["total_payment"] is None


@pytest.mark.parametrize("form", ["ex-post", "interim"])
def test_a_lone_client_is_paid_what_its_integral_says(
    solve: Solve, folder: Path, form: str
) -> None:
    c, eta, q = 0.3, 5.0, 2.0
    (folder / "r.csv").write_text(csv_text([c]))
    found = solve("--reports", "r.csv", "--eta", "5", "--q", "2", *UNIFORM, "--payments", form)
    # epsilon(z) = sqrt(eta/(2 z)) Q^(1/4), and c epsilon(c) + the integral from c to 1
    scale = math.sqrt(eta / 2) * q**0.25
    (client,) = found["clients"]
    assert client["epsilon"] == pytest.approx(scale / math.sqrt(c))
    assert client["payment"] == pytest.approx(scale * (2 - math.sqrt(c)), rel=1e-7)
    if form == "interim":
        assert client["standard_error"] == pytest.approx(0, abs=1e-9)
    else:
        assert "standard_error" not in client


def test_interim_payments_come_with_their_error_and_the_seed_decides(
    solve: Solve, folder: Path
) -> None:
    (folder / "r.csv").write_text(csv_text([0.2, 0.6]))
    arguments = ("--reports", "r.csv", "--eta", "1", *UNIFORM, "--mechanism", "usbm")
    first, again, other = (
        solve(*arguments, "--payments", "interim", "--seed", seed) for seed in ("1", "1", "2")
    )
    assert first == again
    gaps = np.subtract(column(first, "payment"), column(other, "payment"))
    errors = np.hypot(column(first, "standard_error"), column(other, "standard_error"))
    assert (np.abs(gaps) <= 5 * errors).all()
    assert (gaps != 0).any()


def test_knowing_the_costs_saves_a_factor_of_sqrt_2(solve: Solve) -> None:
    arguments = ("--reports", "r.csv", "--eta", "1000", *UNIFORM, "--no-payments")
    usual, knowing = solve(*arguments), solve(*arguments, "--mechanism", "jsam-ci")
    assert column(knowing, "virtual_cost") == list(COSTS)
    assert usual["cost"] / knowing["cost"] == pytest.approx(math.sqrt(2), rel=1e-12)
    # everybody is selected equally at such an eta, so that the baseline is the same
    assert solve(*arguments, "--mechanism", "usbm")["cost"] == pytest.approx(usual["cost"])


def test_a_fixed_number_is_selected_by_cost_or_by_loss(solve: Solve, folder: Path) -> None:
    lines = ["client,loss,sensitivity", "a,1,0.9", "b,-2,0.1", "c,3,0.5", "d,2,0.4"]
    (folder / "r.csv").write_text("\n".join(lines))
    arguments = ("--reports", "r.csv", "--eta", "1", *UNIFORM, "--clients", "2", "--mechanism")
    assert column(solve(*arguments, "fsbm"), "probability") == [0, 0.5, 0, 0.5]
    assert column(solve(*arguments, "bbm"), "probability") == [0, 0, 0.5, 0.5]


def test_a_budget_is_calibrated_on_the_prior_and_not_on_the_reports(
    solve: Solve, folder: Path
) -> None:
    (folder / "r.csv").write_text(csv_text([0.3]))
    (folder / "other.csv").write_text(csv_text([0.8]))
    arguments = ("--budget", "2", *UNIFORM, "--no-payments", "--reports")
    found, other = solve(*arguments, "r.csv"), solve(*arguments, "other.csv")
    assert found["eta"] == other["eta"]
    assert found["calibration"]["expected_cost"] == pytest.approx(2, rel=3e-4)
    # E sqrt(2 eta c) = 2/3 sqrt(2 eta) of one client
    assert found["eta"] == pytest.approx((3 * 2 / 2) ** 2 / 2, rel=0.2)
    assert found["calibration"]["standard_error"] == pytest.approx(0.354 * 2 / 200**0.5, rel=0.2)
    assert solve(*arguments, "r.csv", "--seed", "7")["eta"] != found["eta"]


def test_a_free_client_sells_at_the_cap(solve: Solve, folder: Path) -> None:
    (folder / "r.csv").write_text(csv_text([0.0, 0.5]))
    found = solve("--reports", "r.csv", "--eta", "1", *UNIFORM, "--epsilon-max", "3")
    assert found["cap_binds"]
    assert found["epsilon_max"] == 3
    assert column(found, "epsilon")[0] == 3


def test_client_names_may_be_any_text(solve: Solve, shown: Any, folder: Path) -> None:
    names = ["Müller, K.", "[red]x[/red]", '"quoted"\nline', "\x1b[31m"]
    with (folder / "r.csv").open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\r\n")
        writer.writerows([["note", " sensitivity ", "client"], [], ["", "", ""]])
        writer.writerows(["unused", str(c), name] for c, name in zip(COSTS, names, strict=False))
    arguments = ("--reports", "r.csv", "--eta", "1", *UNIFORM, "--output", "out")
    assert column(solve(*arguments), "client") == names
    with (folder / "out" / "allocation.csv").open(encoding="utf-8", newline="") as stream:
        assert [row["client"] for row in csv.DictReader(stream)] == names
    text = shown(*arguments)
    assert "[red]x[/red]" in text
    assert "\x1b[31m" not in text


def test_files_hold_what_json_holds(solve: Solve, folder: Path) -> None:
    found = solve("--reports", "r.csv", "--eta", "1", *UNIFORM, "--output", "new/out")
    with (folder / "new/out/allocation.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["sensitivity"]) for row in rows] == list(COSTS)
    for name in ("virtual_cost", "probability", "epsilon", "payment"):
        assert [float(row[name]) for row in rows] == column(found, name)
    html = (folder / "new/out/allocation.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert "<script src" not in html
    assert "<link" not in html
    assert html.count('class="plot"') == 2


def test_the_table_shows_the_cheapest_first_and_counts_the_rest(shown: Any, folder: Path) -> None:
    (folder / "r.csv").write_text(csv_text(np.linspace(0.9, 0.1, 27).tolist()))
    text = shown("--reports", "r.csv", "--eta", "1", *UNIFORM)
    listed = [line.split()[2] for line in text.splitlines() if line.startswith("│ client ")]
    assert listed == [str(k) for k in range(26, 6, -1)]
    assert "7 more: --output or --json shows them" in text
    assert "note: Budgets and payments reveal" in text
    assert "objective" in text
    assert "KKT residual" in text


def test_a_toml_file_says_the_same_and_options_win(solve: Solve, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "r.csv").rename(folder / "sub" / "r.csv")
    text = 'reports = "r.csv"\nbudget = 3\nq = 2.0\ndistribution = "uniform:0:1"\n'
    (folder / "sub" / "p.toml").write_text(text + 'payments = "interim"\nepsilon-max = 5\n')
    found = solve("sub/p.toml", "--eta", "1", "--no-payments", "--q", "1")
    direct = solve(
        "--reports", "sub/r.csv", "--eta", "1", *UNIFORM, "--no-payments", "--epsilon-max", "5"
    )
    assert found == direct


def test_reports_and_samples_of_a_toml_file(solve: Solve, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "s.txt").write_text("0.1\n0.1\n0.4\n0.4\n")
    text = 'reports = [0.1, 0.4]\neta = 1\ndistribution = "samples:s.txt"\n'
    (folder / "sub" / "p.toml").write_text(text)
    found = solve("sub/p.toml")
    assert column(found, "client") == ["0", "1"]
    assert column(found, "virtual_cost") == pytest.approx([0.1, 0.7])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "r.csv: is empty"),
        ("client,sensitivity\n\n", "r.csv: a header and nothing below it"),
        ("client;sensitivity\na;1\n", "r.csv: no column client; its columns are: client;sens"),
        ("client,cost\na,1\n", "r.csv: no column sensitivity; its columns are: client, cost"),
        ("client,sensitivity\n\na,.1\nb,abc\n", "r.csv line 4: sensitivity = 'abc': must be a fin"),
        ("client,sensitivity\na,-1\n", "r.csv line 2: sensitivity = '-1': must be a finite number"),
        ("client,sensitivity\na,nan\n", "r.csv line 2: sensitivity = 'nan'"),
        ("client,sensitivity\na,1_0\n", "r.csv line 2: sensitivity = '1_0'"),
        ("client,sensitivity\na\n", "r.csv line 2: sensitivity = ''"),
        ("client,sensitivity\na,.1\na,.2\n", "r.csv line 3: client = 'a': must differ from the cl"),
        ("client,sensitivity\n,.1\n", "r.csv line 2: client = '': must not be empty"),
        ("client,sensitivity\na,.1,.2\n", "r.csv line 2: 3 cells, but the header has 2"),
        ("client,client,sensitivity\na,b,.1\n", "r.csv: two columns are called client"),
        ('client,sensitivity\n"a,.1\n', "r.csv: is no CSV file"),
        ("client,sensitivity\na,.1\nb,1.2\nc,2\n", "r.csv line 3: sensitivity = '1.2': must be fr"),
        ("client,sensitivity\na,.1\nb,0\n", "r.csv line 3: sensitivity = '0': costs the server no"),
        (b"\xff\xfe", "r.csv: is not text in UTF-8"),
    ],
)
def test_a_wrong_file_names_its_line(
    refused: Refused, folder: Path, content: str | bytes, what: str
) -> None:
    (folder / "r.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert refused("--reports", "r.csv", "--eta", "1", *UNIFORM).startswith(what)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ("--eta -1", "--eta = -1: must be a finite number > 0"),
        ("--eta abc", "--eta = 'abc': must be a finite number > 0"),
        ("--eta nan", "--eta = nan: must be"),
        ("--eta 1e200", "--eta = 1e+200: must be from 1e-30 to 1e+30"),
        ("--q 0", "--q = 0: must be"),
        ("--budget 2", "--eta = 1: excludes --budget"),
        ("--epsilon-max 0", "--epsilon-max = 0: must be"),
        ("--c-max -1", "--c-max = -1: must be"),
        ("--c-max 0.5", "r.csv line 5: sensitivity = '0.6': must be from 0.0 to 0.5"),
        ("--seed 1.5", "--seed = 1.5: must be an integer >= 0"),
        ("--mechanism best", "--mechanism = 'best': allowed: jsam, usbm, fsbm, jsam-ci, bbm"),
        ("--mechanism fsbm", "--clients is missing: say how many clients fsbm selects"),
        ("--mechanism fsbm --clients 6", "--clients = 6: must be from 1 to 5"),
        ("--mechanism fsbm --clients 0", "--clients = 0: must be an integer >= 1"),
        ("--mechanism bbm --clients 2", "r.csv: no column loss"),
        ("--clients 2", "--clients = 2: jsam decides itself"),
        ("--payments all", "--payments = 'all': allowed: ex-post, interim, none"),
        ("--payments interim --no-payments", "--no-payments excludes --payments interim"),
        ("--payments interim --mechanism jsam-ci", "--payments = 'interim': jsam-ci pays the cos"),
        ("--distribution betta:2:5", "--distribution = 'betta:2:5': unknown distribution 'betta'"),
        ("--distribution samples:no.csv", "no.csv: cannot be read (No such file"),
        ("--distribution samples:r.csv --c-max 1", "--c-max = 1.0: samples end"),
        ("--reports no.csv", "no.csv: cannot be read (No such file"),
        ("--output r.csv", "--output = 'r.csv': must be a folder that can be written"),
    ],
)
def test_a_wrong_option_is_named(refused: Refused, options: str, what: str) -> None:
    base = ("--reports", "r.csv", "--eta", "1", *UNIFORM)
    assert refused(*base, *options.split()).startswith(what)


@pytest.mark.parametrize("missing", ["reports", "eta", "distribution"])
def test_a_missing_option_is_named(refused: Refused, missing: str) -> None:
    given = {"reports": "r.csv", "eta": "1", "distribution": "uniform:0:1"}
    arguments = [f"--{key}={value}" for key, value in given.items() if key != missing]
    assert refused(*arguments).startswith(f"--{missing} is missing: give")


@pytest.mark.parametrize(
    ("budget", "more", "what"),
    [
        ("0", (), "--budget = 0: must be a finite number > 0"),
        ("50", ("--epsilon-max", "2", "--mechanism", "usbm"), "--budget = 50.0: must be at most"),
        ("1", ("--mechanism", "fsbm", "--clients", "9"), "--clients = 9: must be from 1 to 5"),
    ],
)
def test_an_impossible_budget(
    refused: Refused, budget: str, more: tuple[str, ...], what: str
) -> None:
    assert refused("--reports", "r.csv", "--budget", budget, *UNIFORM, *more).startswith(what)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("etaa = 1", "p.toml: etaa = 1: unknown key; did you mean eta?"),
        ("zzz = 1", "p.toml: zzz = 1: unknown key; allowed: reports, distribution"),
        ("eta = true", "p.toml: eta = True: must be a finite number > 0"),
        ('eta = "1"', "p.toml: eta = '1': must be a finite number > 0"),
        ("eta = 1\nbudget = 1", "p.toml: eta = 1: excludes p.toml: budget"),
        ("eta = 1\nclients = true", "p.toml: clients = True: must be an integer"),
        ("eta = 1\nmechanism = 3", "p.toml: mechanism = 3: must be a text"),
        ("eta = 1\nreports = []", "p.toml: reports = []: one number a client is needed"),
        ("eta = 1\nreports = [0.1, 'x']", "p.toml: reports[1] = 'x': must be a finite number >= 0"),
        ("eta = 1\nreports = [0.1, -1]", "p.toml: reports[1] = -1: must be a finite number >= 0"),
        ("eta = 1\nreports = [0.1, 2]", "p.toml: reports[1] = 2: must be from 0.0 to 1.0"),
        ("eta = 1\nreports = 3", "p.toml: reports = 3: must be a CSV file or a list of numbers"),
        (
            "eta = 1\nreports = [0.1]\nmechanism = 'bbm'\nclients = 1",
            "p.toml: reports = [0.1]: must be a CSV file with a column loss",
        ),
        ("eta = ", "problem = 'p.toml': is not valid TOML"),
    ],
)
def test_a_wrong_toml_file_names_file_and_key(
    refused: Refused, folder: Path, line: str, what: str
) -> None:
    (folder / "p.toml").write_text(f'distribution = "uniform:0:1"\n{line}\n')
    assert refused("p.toml").startswith(what)


def test_a_toml_file_that_is_not_there(refused: Refused) -> None:
    assert refused("p.toml") == "problem = 'p.toml': cannot be read (No such file or directory)"


def test_numbers_beyond_floating_point_are_refused(refused: Refused, folder: Path) -> None:
    (folder / "r.csv").write_text(csv_text([1e299, 3e299]))
    arguments = ("--reports", "r.csv", "--eta", "1", "--distribution")
    text = refused(*arguments, "uniform:0:1e300")
    assert text.startswith("--distribution = 'uniform:0:1e300': virtual costs reach 2e+300 at")
    (folder / "s.csv").write_text("1e299\n3e299\n")
    text = refused(*arguments, "samples:s.csv")
    assert text.startswith("eta = 1.0, q = 1.0: the optimum exceeds what floating-point")


def test_it_loads_nothing_that_it_does_not_need_and_takes_seconds_for_1e5_clients(
    folder: Path,
) -> None:
    costs = np.random.default_rng(0).random(100_000).tolist()
    (folder / "r.csv").write_text(csv_text(costs))
    code = (
        "import sys; from fedgame.cli import main\n"
        "try: main()\n"
        "finally: print({'torch', 'flwr', 'plotly', 'ray'} & set(sys.modules), file=sys.stderr)"
    )
    arguments = ["--reports", "r.csv", "--eta", "20", *UNIFORM, "--no-payments", "--json"]
    # seconds on a quiet machine; the limit is for a busy one
    ran = subprocess.run(
        [sys.executable, "-c", code, "solve", "jsam", *arguments],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0
    assert ran.stderr.strip() == "set()"
    found = json.loads(ran.stdout)
    assert len(found["clients"]) == 100_000
    assert sum(column(found, "probability")) == pytest.approx(1)
    assert found["certificate"]["kkt_residual"] < 1e-9


def test_help_names_the_game() -> None:
    fedgame = str(Path(sys.executable).parent / "fedgame")
    ran = subprocess.run([fedgame, "solve", "--help"], capture_output=True, text=True, timeout=60)
    assert "jsam" in ran.stdout
