"""From a file and options to one validated experiment, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedgame.cli.experiment import prepare
from fedgame.errors import ConfigError
from fedgame.strategies.settings import Experiment


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGAME_HOME", str(tmp_path / "home"))


def ready(
    *overrides: str,
    path: Path | None = None,
    nodes: int | None = None,
    superlink: str | None = None,
) -> Experiment:
    return prepare(path, overrides, nodes=nodes, superlink=superlink)


def test_an_option_wins_over_an_override_and_an_override_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(
        "rounds = 3\nseed = 7\nnodes = 3\nnum-clients = 6\n[training]\nlocal-steps = 2\n"
    )
    experiment = ready("rounds=4", "rounds=5", "nodes=4", path=path, nodes=5)
    run = experiment.run
    assert (run.rounds, run.seed, run.nodes, run.num_clients) == (5, 7, 5, 6)
    assert experiment.training.local_steps == 2
    assert experiment.flat["nodes"] == 5


@pytest.mark.parametrize(
    ("overrides", "nodes"), [((), 2), (("nodes=4",), 4), (("num-clients=1",), 1)]
)
def test_default_number_of_nodes(overrides: tuple[str, ...], nodes: int) -> None:
    assert ready(*overrides).run.nodes == nodes


def test_a_superlink_of_the_users_has_the_nodes_that_it_has() -> None:
    assert ready(superlink="mine").run.nodes == 0
    assert ready(superlink="mine", nodes=3).run.nodes == 3


def test_the_run_folder_is_absolute_and_named_after_the_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my exp.toml").write_text("rounds = 3\n")
    monkeypatch.chdir(tmp_path)
    run = ready("output-dir=out", path=Path("my exp.toml")).run
    assert run.output_dir == str(tmp_path / "out")
    assert "-my-exp-" in run.run_name


def test_two_runs_have_two_names() -> None:
    assert ready().run.run_name != ready().run.run_name


def test_a_chosen_name_is_kept() -> None:
    assert ready("run-name=mine").run.run_name == "mine"


def test_without_a_choice_runs_go_to_the_home(tmp_path: Path) -> None:
    assert ready().run.output_dir == str(tmp_path / "home")


def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"output-dir = .*must be a folder that can be written"):
        ready(f"output-dir={tmp_path / 'file'}")


def test_a_mistyped_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="output-dir"):
        ready(f"output-dir={tmp_path / 'absent' / 'runs'}")
    assert not (tmp_path / "absent").exists()


def test_a_far_superlink_wants_an_absolute_folder() -> None:
    with pytest.raises(ConfigError, match="must be absolute with --superlink"):
        ready("output-dir=out", superlink="mine")
    assert ready("output-dir=/out", superlink="mine").run.output_dir == "/out"
    assert ready(superlink="mine").run.output_dir == ""


def test_a_wrong_key_is_named_with_a_close_one() -> None:
    with pytest.raises(ConfigError, match=r"roundz = 3.*did you mean rounds\?"):
        ready("roundz=3")


def test_more_nodes_than_clients_are_refused() -> None:
    with pytest.raises(ConfigError, match="nodes = 11"):
        ready(nodes=11)


def deployed(nodes: int | None, *overrides: str, path: Path | None = None) -> Experiment:
    return prepare(path, overrides, nodes=nodes, superlink=None, deployed=True)


def test_in_a_deployment_a_node_is_one_client(tmp_path: Path) -> None:
    path = tmp_path / "ten.toml"
    path.write_text("num-clients = 10\nnodes = 2\n")
    for nodes, overrides, expected in (
        (3, (), 3),
        (None, (), 10),
        (None, ("num-clients=4",), 4),
        (4, ("num-clients=4",), 4),
    ):
        run = deployed(nodes, *overrides, path=path).run
        assert (run.num_clients, run.nodes) == (expected, expected)
    assert deployed(None).run.nodes == 10


def test_numbers_of_nodes_and_clients_that_differ_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"num-clients = 5: --nodes 3: a node is one client"):
        deployed(3, "num-clients=5")
    with pytest.raises(ConfigError, match="num-clients"):
        deployed(None, "num-clients=many")


def test_deployed_nodes_may_have_secrets_of_their_own() -> None:
    assert deployed(2, "noise-secret=own").run.noise_secret == "own"
