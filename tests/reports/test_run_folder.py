from __future__ import annotations

import csv
import json
import math
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from fedgame.errors import ConfigError, RunFailed
from fedgame.reports import run_folder
from fedgame.reports.run_folder import (
    append_metrics,
    collect_versions,
    create_run_folder,
    model_sha256,
    to_toml,
    write_run,
    write_settings,
)

FILES = {
    "clients.csv",
    "config.toml",
    "metrics.csv",
    "model.safetensors",
    "report.html",
    "strengths.csv",
    "summary.json",
    "versions.json",
}


def flatten(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        flat |= flatten(value, name) if isinstance(value, dict) else {name: value}
    return flat


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_names_are_unique(tmp_path: Path) -> None:
    names = [create_run_folder(tmp_path / "runs", "demo").name for _ in range(3)]
    assert names == ["demo", "demo-2", "demo-3"]
    assert all(list((tmp_path / "runs" / name).iterdir()) == [] for name in names)


def test_empty_name_is_the_time(tmp_path: Path) -> None:
    first, second = create_run_folder(tmp_path, ""), create_run_folder(tmp_path, "")
    made = datetime.strptime(first.name, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - made).total_seconds()) < 60
    assert first != second


@pytest.mark.parametrize("name", ["..", "a/b", "/tmp/x", "a\\b", "a\n", ".hidden", "x" * 201, "\0"])
def test_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"^run-name = .*plain folder name"):
        create_run_folder(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["file", "file/runs", "absent/runs", "nul\0"])
def test_folder_that_cannot_be_written_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught:
        create_run_folder(tmp_path / below, "demo")
    assert caught.value.key == "output-dir"
    assert str(caught.value).startswith(f"output-dir = {str(tmp_path / below)!r}: ")
    assert "must be a folder that can be written (" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def test_failing_write_probe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ConfigError, match=r"can be written \(No space left on device\)"):
        create_run_folder(tmp_path, "demo")


def test_absent_parents_are_made_on_demand(tmp_path: Path) -> None:
    folder = create_run_folder(tmp_path / "a" / "b", "demo", create_parents=True)
    assert folder == tmp_path / "a" / "b" / "demo"
    assert folder.is_dir()


def test_all_files_are_there_and_nothing_else(
    tmp_path: Path, make_result: Any, config: Any
) -> None:
    summary = write_run(tmp_path, make_result(), config)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert json.loads((tmp_path / "versions.json").read_text()) == collect_versions()


def test_config_can_be_fed_back(tmp_path: Path, config: Any) -> None:
    write_settings(tmp_path, config, {})
    back = flatten(tomllib.loads((tmp_path / "config.toml").read_text()))
    assert back == config
    assert {key: type(value) for key, value in back.items()} == {
        key: type(value) for key, value in config.items()
    }


@pytest.mark.filterwarnings("ignore:'click.utils:DeprecationWarning")  # flwr imports typer
def test_config_can_be_fed_back_to_flower(tmp_path: Path, config: Any) -> None:
    from flwr.common.config import parse_config_args

    write_settings(tmp_path, config, {})
    assert parse_config_args([str(tmp_path / "config.toml")]) == config


KEYS = st.lists(st.text("ab-_3 é\"'#]", min_size=1, max_size=4), min_size=2, max_size=3)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = TEXT | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans()


@given(st.dictionaries(KEYS.map(tuple), VALUES))
def test_any_flat_config_survives_toml(values: dict[tuple[str, ...], Any]) -> None:
    # One depth at a time: a key cannot be a value and a table at once.
    for depth in (2, 3):
        config = {".".join(key): value for key, value in values.items() if len(key) == depth}
        back = flatten(tomllib.loads(to_toml(config)))
        assert back == config
        assert all(type(back[key]) is type(config[key]) for key in config)


def test_numpy_numbers_survive_toml() -> None:
    text = to_toml({"tau": np.float64(0.1), "off": math.inf})
    assert tomllib.loads(text) == {"tau": 0.1, "off": math.inf}


def test_versions_name_what_sets_the_bits() -> None:
    versions = collect_versions()
    assert set(versions) == {"python", "platform", "fedgame", "flwr", "torch", "numpy"}
    assert versions["numpy"] == np.__version__
    assert re.match(r"3\.\d+\.\d+", versions["python"])


def test_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "PACKAGES", ("no-such-package",))
    assert collect_versions()["no-such-package"] == "not installed"


def test_metrics_have_one_row_a_round(tmp_path: Path, make_result: Any, config: Any) -> None:
    result = make_result(game=False)
    write_run(tmp_path, result, config)
    rows = read_csv(tmp_path / "metrics.csv")
    assert [int(row["round"]) for row in rows] == [1, 2, 3]
    assert [float(row["loss"]) for row in rows] == [record.loss for record in result.rounds]
    assert {row["exploitability"] for row in rows} == {""}


def test_appended_metrics_equal_written_ones(tmp_path: Path, make_result: Any, config: Any) -> None:
    result = make_result()
    for count, record in enumerate(result.rounds, start=1):
        append_metrics(tmp_path, record)
        assert len(read_csv(tmp_path / "metrics.csv")) == count
    appended = (tmp_path / "metrics.csv").read_bytes()
    write_run(tmp_path, result, config)
    assert (tmp_path / "metrics.csv").read_bytes() == appended


def test_clients_table_reads_back(tmp_path: Path, make_result: Any, config: Any) -> None:
    result = make_result()
    write_run(tmp_path, result, config)
    rows = read_csv(tmp_path / "clients.csv")
    assert list(rows[0]) == [
        "id",
        "num_examples",
        "beta",
        "strength",
        "noise_multiplier",
        "guarantee",
        "realised",
        "epsilon_order2",
        "epsilon_pld",
        "claimed_delta",
        "sound_delta_at_epsilon_1",
    ]
    for row, client in zip(rows, result.clients, strict=True):
        assert int(row["id"]) == client.id
        assert float(row["guarantee"]) == client.guarantee
        assert float(row["epsilon_pld"]) == client.epsilon["pld"]
        assert float(row["sound_delta_at_epsilon_1"]) == client.sound_delta_at_epsilon_1


def test_numbers_of_numpy_are_plain_in_tables(
    tmp_path: Path, make_result: Any, config: Any
) -> None:
    result = make_result()
    client = replace(result.clients[0], guarantee=np.float64(1.25), beta=None)
    write_run(tmp_path, replace(result, clients=(client,)), config)
    (row,) = read_csv(tmp_path / "clients.csv")
    assert (row["guarantee"], row["beta"]) == ("1.25", "")


def test_strengths_read_back(tmp_path: Path, make_result: Any, config: Any) -> None:
    strengths = np.arange(12, dtype=np.float64).reshape(3, 4) / 7
    strengths[1, 2] = math.nan
    write_run(tmp_path, make_result(strengths=strengths), config)
    rows = read_csv(tmp_path / "strengths.csv")
    assert list(rows[0]) == ["round", "client_0", "client_1", "client_2", "client_3"]
    assert [row["round"] for row in rows] == ["1", "2", "3"]
    back = [[float(row[f"client_{k}"] or "nan") for k in range(4)] for row in rows]
    np.testing.assert_array_equal(back, strengths)
    assert rows[1]["client_2"] == ""


def test_strengths_of_a_run_that_skipped_rounds_keep_their_numbers(
    tmp_path: Path, make_result: Any, make_jsam: Any, config: Any
) -> None:
    game = make_result(rounds=6)
    write_run(tmp_path, replace(game, rounds=game.rounds[2::3]), config)
    assert [row["round"] for row in read_csv(tmp_path / "strengths.csv")] == list("123456")
    assert [row["round"] for row in read_csv(tmp_path / "metrics.csv")] == ["3", "6"]
    write_run(tmp_path, make_jsam(rounds=2, every=5), config)
    for name in ("strengths.csv", "metrics.csv"):
        assert [row["round"] for row in read_csv(tmp_path / name)] == ["5", "10"]


def test_purchases_read_back(tmp_path: Path, make_jsam: Any, jsam_config: Any) -> None:
    result = make_jsam(clients=6)
    write_run(tmp_path, result, jsam_config)
    assert {path.name for path in tmp_path.iterdir()} == FILES | {"purchases.csv"}
    rows = read_csv(tmp_path / "purchases.csv")
    assert list(rows[0]) == [
        "client",
        "report",
        "virtual_cost",
        "probability",
        "bought",
        "spent_pld",
        "payment",
        "scheduled",
        "released",
    ]
    pairs = zip(result.clients, result.procurement.purchases, strict=True)
    for row, (client, purchase) in zip(rows, pairs, strict=True):
        assert [float(value) for value in row.values()] == [
            client.id,
            purchase.report,
            purchase.virtual_cost,
            purchase.probability,
            purchase.budget,
            client.epsilon["pld"],
            purchase.payment,
            purchase.scheduled,
            purchase.released,
        ]
    assert (rows[0]["scheduled"], rows[0]["released"]) == ("7", "5")


def test_metrics_of_a_purchase_have_the_money_used(
    tmp_path: Path, make_jsam: Any, jsam_config: Any
) -> None:
    result = make_jsam()
    for record in result.rounds:
        append_metrics(tmp_path, record)
    before = read_csv(tmp_path / "metrics.csv")
    write_run(tmp_path, result, jsam_config)
    after = read_csv(tmp_path / "metrics.csv")
    assert [float(row.pop("money_used")) for row in after] == [0.25, 0.5, 0.75]
    assert after == before


def test_model_reads_back_with_its_hash(tmp_path: Path, make_result: Any, config: Any) -> None:
    result = make_result()
    summary = write_run(tmp_path, result, config)
    with safe_open(tmp_path / "model.safetensors", framework="numpy") as model:
        metadata = model.metadata()
        order = json.loads(metadata["order"])
        tensors = [model.get_tensor(name) for name in order]
    assert [(name, tensor.shape) for name, tensor in zip(order, tensors, strict=True)] == list(
        result.tensors
    )
    assert {tensor.dtype for tensor in tensors} == {np.dtype("float32")}
    flat = np.concatenate([tensor.ravel() for tensor in tensors])
    np.testing.assert_array_equal(flat, result.parameters)
    assert metadata["sha256"] == model_sha256(flat) == summary["model_sha256"]


def test_tensors_that_do_not_add_up_are_refused(
    tmp_path: Path, make_result: Any, config: Any
) -> None:
    result = make_result(tensors=(("weight", (2, 3)),))
    with pytest.raises(ValueError, match="tensors of 6 entries, model of 8"):
        write_run(tmp_path, result, config)
    assert not (tmp_path / "summary.json").exists()


def test_failed_run_is_written_too(tmp_path: Path, make_result: Any, config: Any) -> None:
    failed = make_result(
        clients=0,
        rounds=0,
        status="failed",
        reason="no nodes came",
        parameters=np.zeros(0, dtype=np.float32),
        tensors=(),
    )
    assert write_run(tmp_path, failed, config)["status"] == "failed"
    assert {path.name for path in tmp_path.iterdir()} == FILES


def test_failure_before_the_summary_leaves_none(
    tmp_path: Path, make_result: Any, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("broken")

    monkeypatch.setattr(run_folder, "render_report", broken)
    with pytest.raises(RuntimeError, match="broken"):
        write_run(tmp_path, make_result(), config)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == FILES - {"report.html", "summary.json"}


@pytest.mark.parametrize("name", sorted(FILES))
def test_failure_in_the_middle_of_a_file_keeps_the_old_one(
    tmp_path: Path, make_result: Any, config: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_run(tmp_path, make_result(), config)
    before = (tmp_path / name).read_bytes()
    replace_file = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == name:
            raise OSError(28, "No space left on device")
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", full)
    other = make_result(rounds=2, parameters=np.zeros(8, dtype=np.float32))
    with pytest.raises(RunFailed, match=rf"cannot write .*{name}: No space left on device"):
        write_run(tmp_path, other, config | {"seed": 43}, {"python": "4"})
    assert (tmp_path / name).read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == FILES


def test_metrics_in_a_folder_that_is_gone_fail_the_run(tmp_path: Path, make_result: Any) -> None:
    with pytest.raises(RunFailed, match=r"cannot write .*metrics\.csv: No such file"):
        append_metrics(tmp_path / "gone", make_result().rounds[0])


def test_import_is_light() -> None:
    code = (
        "import sys, fedgame.reports.run_folder as f; f.collect_versions(); "
        "print({'torch', 'flwr', 'plotly'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr
