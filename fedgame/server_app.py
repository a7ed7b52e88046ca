"""Flower's ServerApp: run configuration -> experiment -> runner.

Lines that start with `fedgame-` are for programs: progress, the summary, or why there is none.
They are all that comes back from a remote SuperLink.
"""

from __future__ import annotations

import dataclasses
import json

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedgame import config, runner
from fedgame.errors import FedgameError
from fedgame.strategies.base import Progress, Stage

app = ServerApp()


def _say(marker: str, content: object) -> None:
    print(f"fedgame-{marker} {json.dumps(content)}", flush=True)  # noqa: T201  (the run's log)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment of the run configuration over the grid.

    A failure is said in one line and then raised, so that Flower marks the run as failed.
    """
    try:
        experiment = config.load(context.run_config)

        def listen(record: Progress) -> None:
            if isinstance(record, Stage):
                _say("stage", dataclasses.asdict(record))
                return
            run = experiment.run
            where = {"total_rounds": run.rounds, "strategy": run.strategy}
            _say("progress", dataclasses.asdict(record) | where)

        finished = runner.run(experiment, grid, listen)
    except FedgameError as error:
        _say("error", {"message": str(error)})
        raise
    _say("summary", {**finished.summary, "run_dir": str(finished.folder)})
