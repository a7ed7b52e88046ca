"""One experiment, one Grid, one run folder: what the ServerApp and the in-process run share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import platformdirs
from flwr.serverapp import Grid

from fedgame import config
from fedgame.audits.transcript import audit_transcript
from fedgame.errors import AccountingError, ConfigError, DiskError, LedgerError
from fedgame.ledger.replay import NODE_LEDGERS
from fedgame.ledger.store import Ledger, merge, missing
from fedgame.local_grid import LocalGrid, ReplyHook
from fedgame.reports.game_folder import append_iteration, write_game_run
from fedgame.reports.interrupted import find_interrupted, owned, rewrite_metrics
from fedgame.reports.run_folder import (
    append_metrics,
    collect_versions,
    create_run_folder,
    write_run,
    write_settings,
)
from fedgame.strategies import SERVERS
from fedgame.strategies.base import Progress, ProgressListener, Result, RoundRecord
from fedgame.strategies.checkpoint import CHECKPOINT, HOSTS
from fedgame.strategies.game_result import GameResult, IterationRecord
from fedgame.strategies.handlers import make_client_app
from fedgame.strategies.journal import JOURNAL
from fedgame.strategies.node import NEEDS_A_FOLDER
from fedgame.strategies.outcome import Accountants
from fedgame.strategies.settings import Experiment, Scalar
from fedgame.strategies.threads import single_thread

SOUND = ("rdp", "pld", "order2")
"""The accountants whose epsilons stand in every client table."""

TIMEOUTS = ("node-timeout", "reply-timeout")
"""Keys that a user may set anew for a run that goes on."""

MAY_CHANGE = ("resume", "output-dir", "run-name", *TIMEOUTS)
"""Keys that a run may go on with other values of."""


@dataclass(frozen=True)
class Finished:
    """Where a run's files are, and its summary."""

    folder: Path
    summary: Mapping[str, Any]


def output_dir(experiment: Experiment) -> tuple[Path, bool]:
    """Return the folder for run folders and whether it is our own default.

    The default is FEDGAME_HOME, else the user's data folder; never the working directory, since a
    SuperLink's is wherever it was first started.
    """
    if experiment.run.output_dir:
        return Path(experiment.run.output_dir).expanduser().absolute(), False
    home = os.environ.get("FEDGAME_HOME")
    if home:
        return Path(home).expanduser().absolute(), True
    return Path(platformdirs.user_data_dir("fedgame")) / "runs", True


def run(experiment: Experiment, grid: Grid, listener: ProgressListener) -> Finished:
    """Run an experiment over a grid and write its folder.

    Args:
        experiment: The experiment.
        grid: Flower's grid.
        listener: Called after each round, and before what takes long.

    Raises:
        FedgameError: Bad input, before any round; or the run could not go on.
    """
    parent, create = output_dir(experiment)
    accountants = _accountants(experiment)
    name, resumed = experiment.run.run_name, experiment.run.resume
    if resumed:
        folder = find_interrupted(parent / name, name)
        check_same(folder, experiment)
    else:
        folder = create_run_folder(parent, name, create_parents=create)
    with owned(folder):
        return _run_in(folder, experiment, grid, accountants, listener)


def _run_in(
    folder: Path,
    experiment: Experiment,
    grid: Grid,
    accountants: Accountants,
    listener: ProgressListener,
) -> Finished:
    """Run an experiment in a folder of its own, from the start or from where it was killed."""
    resumed, versions = experiment.run.resume, collect_versions()
    flat = {**experiment.flat, "resume": False}
    if not resumed:
        write_settings(folder, flat, versions)

    def listen(record: Progress) -> None:
        if isinstance(record, RoundRecord):
            append_metrics(folder, record)
        elif isinstance(record, IterationRecord):
            append_iteration(folder, record)
        listener(record)

    with single_thread(), Ledger(folder / "ledger.sqlite", repeats=resumed) as ledger:
        server_half = SERVERS.get(experiment.run.strategy)
        server = server_half(experiment, grid, folder, ledger, accountants, listen)
        if resumed:
            server.resume()
            rewrite_metrics(folder, server.heard)
        server.train()
        conflict = _merge(folder, ledger)
        result = server.result(ledger.events_by_client())
    if conflict:
        # what was trained and recorded is kept; who spent what is not certain, and is said so
        result = replace(result, status="failed", reason=conflict)
    summary = _write(folder, result, flat, versions)
    _tidy(folder, keep_nodes=bool(conflict))
    return Finished(folder, summary)


def _write(
    folder: Path, result: Result, flat: Mapping[str, Scalar], versions: Mapping[str, str]
) -> Mapping[str, Any]:
    """Write what a run recorded, audited where it is a transcript."""
    if isinstance(result, GameResult):
        with single_thread():  # an audit of the same transcript has to find the same numbers
            audit = audit_transcript(result.transcript, result.dynamics, result.prior, result.types)
        return write_game_run(folder, result, audit, flat, versions)
    return write_run(folder, result, flat, versions)


def _accountants(experiment: Experiment) -> Accountants:
    table = {name: config.accountant(name, experiment) for name in SOUND}
    try:
        claim = config.accountant("lsi", experiment)
    except AccountingError:
        claim = None
    return Accountants(table[experiment.accounting.name], table, claim)


def _merge(folder: Path, ledger: Ledger) -> str:
    """Add the rows of simulated nodes to the run's ledger.

    A node may hold rows whose reply was lost or rejected: they count. The server may not hold a
    row that its node lacks. Deployed nodes keep their ledgers to themselves.

    Returns:
        Why the ledgers contradict each other, empty if they do not.

    Raises:
        DiskError: The run's ledger cannot be written.
    """
    sources = sorted(folder.glob(NODE_LEDGERS))
    try:
        merge(ledger, sources)
        lost = missing(ledger, sources) if sources else []
    except DiskError:
        raise
    except LedgerError as error:
        return str(error)
    return f"{len(lost)} releases are in no node's ledger, the first is {lost[0]}" if lost else ""


def _tidy(folder: Path, *, keep_nodes: bool) -> None:
    """Delete what only a run that goes on needs; its summary is there, so this one does not.

    Args:
        folder: The run's folder.
        keep_nodes: Whether the ledgers of simulated nodes stay, which contradict the run's.
    """
    for name in (CHECKPOINT, JOURNAL, HOSTS):
        (folder / name).unlink(missing_ok=True)
    for source in [] if keep_nodes else sorted(folder.glob(NODE_LEDGERS)):
        for file in folder.glob(source.name + "*"):
            file.unlink()


def check_same(folder: Path, experiment: Experiment) -> None:
    """Refuse to go on with other settings than a run was begun with.

    Args:
        folder: The run's folder.
        experiment: What would go on.

    Raises:
        ConfigError: The first key that differs.
    """
    begun = {**config.defaults(), **config.read_toml(folder / "config.toml")}
    for key, value in experiment.flat.items():
        if key not in MAY_CHANGE and begun.get(key) != value:
            allowed = f"must be {begun.get(key)!r}, as when the run was begun"
            raise ConfigError(key, value, allowed)


def refuse_own_secret(experiment: Experiment) -> None:
    """Refuse a simulation in which every node should have a secret of its own.

    Raises:
        ConfigError: `noise-secret` is "own".
    """
    if experiment.run.noise_secret == "own":
        raise ConfigError("noise-secret", "own", NEEDS_A_FOLDER)


def preflight(experiment: Experiment) -> None:
    """Check what only data and a plan can show, before any process is started.

    Raises:
        FedgameError: Data are missing or do not fit, or the noise cannot be calibrated.
    """
    accountant = config.accountant(experiment.accounting.name, experiment)
    with single_thread():
        SERVERS.get(experiment.run.strategy).preflight(experiment, accountant)


def run_in_process(
    experiment: Experiment,
    nodes: int,
    listener: ProgressListener,
    hook: ReplyHook | None = None,
) -> Finished:
    """Run an experiment in this process: no Flower processes, no Ray, the same bits.

    Args:
        experiment: The experiment.
        nodes: How many nodes to spread the clients over.
        listener: Called after each round, and before what takes long.
        hook: Sees every reply before the server does; see `LocalGrid`.
    """
    refuse_own_secret(experiment)
    experiment = replace(experiment, run=replace(experiment.run, nodes=nodes))
    grid = LocalGrid(make_client_app(config.load), nodes, experiment.flat, hook)
    return run(experiment, grid, listener)
