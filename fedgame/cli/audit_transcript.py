"""`fedgame audit transcript RUN`: what a game's messages say, from its files again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgame.cli.flags import AsJson

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedgame.games.aggregative.dynamics import Dynamics
    from fedgame.games.aggregative.transcript import Recording
    from fedgame.strategies.settings import Experiment

SAME = 1e-12
"""How far, relatively, another machine's powers may be from those of the schedules in the file."""


def transcript(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a game's run.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Recompute from transcript.npz and config.toml what a game's messages leaked.

    The fields are those of summary.json, and the numbers too, bit for bit on the same machine. What
    the transcript does not hold is left out: DP epsilons, messages by player, notes. The module of
    a python-game must be on PYTHONPATH.
    """
    # before NumPy loads: more threads change sums
    os.environ["OMP_NUM_THREADS"] = "1"
    from rich.console import Console

    from fedgame.cli.game_output import print_game

    content = _audit(run)
    if as_json:
        sys.stdout.write(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
        return
    print_game(Console(), content)
    agrees = content["agrees_with_summary"]
    if agrees is not None:
        text = "the same numbers as in" if agrees else "not the same numbers as in"
        Console().print(f"{text} {run / 'summary.json'}", highlight=False, soft_wrap=True)


def _audit(run: Path) -> dict[str, Any]:
    from dataclasses import replace

    import numpy as np

    from fedgame import config
    from fedgame.audits.transcript import audit_transcript
    from fedgame.errors import DataError
    from fedgame.games.aggregative.transcript import FILE
    from fedgame.reports.game_summary import audit_mapping, public_facts
    from fedgame.strategies.aggregative_public import public_game, simulated_types
    from fedgame.strategies.threads import single_thread

    experiment = config.load(config.read_toml(run / "config.toml"))
    recording = _recording(run, experiment)
    public = public_game(experiment)
    _compare(run, recording, public.dynamics, raised=experiment.pml_filter.action == "raise-noise")
    dynamics = replace(public.dynamics, schedules=recording.schedules)
    summary = _summary(run)
    types = None
    if _types_are_public(run, summary):
        types = simulated_types(experiment, public.prior)
    try:
        with single_thread(), np.errstate(over="ignore", invalid="ignore"):
            found = audit_transcript(recording.transcript, dynamics, public.prior, types)
    except ValueError as error:  # numbers that no run can have sent
        raise DataError(f"{run / FILE}: {error}") from error
    numbers = audit_mapping(found)
    return {
        "run_dir": str(run.absolute()),
        **public_facts(experiment.flat, dynamics, recording.transcript),
        **numbers,
        "agrees_with_summary": None
        if summary is None
        else all(summary.get(key) == value for key, value in numbers.items()),
    }


def _recording(run: Path, experiment: Experiment) -> Recording:
    """Read the transcript.

    Raises:
        ConfigError: The run is one of another system.
        DataError: The file is missing or damaged.
    """
    from fedgame.errors import ConfigError, DataError
    from fedgame.games.aggregative.transcript import FILE, read_recording

    strategy = experiment.run.strategy
    if strategy != "aggregative":
        raise ConfigError("strategy", strategy, f"{run} is no game by messages")
    try:
        return read_recording(run / FILE)
    except OSError as error:
        raise DataError(f"{run / FILE}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise DataError(str(error)) from error


def _compare(run: Path, recording: Recording, dynamics: Dynamics, *, raised: bool) -> None:
    """Hold the file against the configuration.

    Raises:
        DataError: They contradict each other.
    """
    import numpy as np

    from fedgame.errors import DataError
    from fedgame.games.aggregative.transcript import FILE

    def close(found: Any, expected: Any) -> bool:
        return found.shape == expected.shape and np.allclose(found, expected, rtol=SAME, atol=0)

    planned, had = dynamics.schedules, recording.schedules
    # the messages are of as many players and dimensions as x_0
    fits = {
        "initial": np.array_equal(recording.initial, np.asarray(dynamics.initial)),
        "noise": close(had.noise, planned.noise),
        "step": close(had.step, planned.step),
        "gamma": close(had.gamma, planned.gamma),
    }
    if all(fits.values()):
        transcript = recording.transcript
        noise = planned.noise[: len(transcript), None]
        excess = np.where(transcript.sent, transcript.scales / noise - 1, 0.0)
        fits["scales"] = bool((excess >= -SAME).all() and (raised or (excess <= SAME).all()))
    wrong = [name for name, fit in fits.items() if not fit]
    if wrong:
        names = ", ".join(wrong)
        raise DataError(f"{run / FILE}: {names} contradicts {run / 'config.toml'}")


def _summary(run: Path) -> Mapping[str, Any] | None:
    """Return the run's summary, None if it has none since it did not come to its end.

    Raises:
        DataError: The file is damaged.
    """
    from fedgame.errors import DataError

    path = run / "summary.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if not isinstance(content, dict) or "exploitability" not in content:
        raise DataError(f"{path}: is no summary of a game")
    return content


def _types_are_public(run: Path, summary: Mapping[str, Any] | None) -> bool:
    """Return whether all types came from the public seed, so that they can be drawn again.

    If they did, and only then, the run computed the exploitability.
    """
    if summary is None:
        sys.stderr.write(
            f"note: {run} has no summary.json, which says whose types came from the public seed: "
            "nothing that needs the types is computed\n"
        )
        return False
    return summary["exploitability"] is not None
