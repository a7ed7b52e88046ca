"""From the folder of a run that was killed to the experiment that goes on with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedgame.config import load, parse_override, read_toml
from fedgame.errors import ConfigError
from fedgame.reports.interrupted import find_interrupted
from fedgame.runner import TIMEOUTS, check_same, refuse_own_secret
from fedgame.strategies.settings import Experiment, Scalar


def prepare_resumed(
    run: str,
    path: Path | None,
    overrides: Sequence[str],
    *,
    superlink: str | None,
    deployed: bool = False,
) -> Experiment:
    """Return the experiment of an interrupted run, to go on from its last checkpoint.

    Args:
        run: The run's folder. Where a SuperLink's ServerApp has a file system of its own, the
            run's name, and `path` must be given.
        path: The run's experiment file, where its folder is not here.
        overrides: `key=value` texts, for the few keys that may change.
        superlink: The user's SuperLink, None for one of our own.
        deployed: Whether each node is a process of its own that hosts one client.

    Raises:
        ConfigError: There is no such run, it came to its end, or a key may not change.
    """
    changed = dict(parse_override(text) for text in overrides)
    folder = Path(run).expanduser().absolute()
    if path is not None and superlink is None:
        allowed = "--resume takes all settings from the run's folder: leave the file out"
        raise ConfigError("EXPERIMENT.toml", str(path), allowed)
    if path is not None:
        flat: dict[str, Scalar] = {**read_toml(path), **changed, "run-name": Path(run).name}
        return load({**flat, "resume": True})
    find_interrupted(folder, folder.name)
    flat = {**read_toml(folder / "config.toml"), "output-dir": str(folder.parent)}
    flat["run-name"] = folder.name
    for key, value in changed.items():
        if key not in TIMEOUTS:
            allowed = f"a run that goes on keeps its settings, but for {', '.join(TIMEOUTS)}"
            raise ConfigError(key, value, allowed)
    experiment = load({**flat, **changed, "resume": True})
    check_same(folder, experiment)
    if not deployed:
        if superlink is None:
            refuse_own_secret(experiment)
    elif experiment.run.nodes != experiment.run.num_clients:
        allowed = "was begun in a simulation: fedgame run --resume"
        raise ConfigError("--resume", run, allowed)
    return experiment
