"""Options that several commands have, said once."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

RunConfig: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--run-config", "-c", metavar="'KEY=VALUE'", help="Override one key."),
]

Resume: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="Go on with the run of this folder, which was killed."),
]

SummaryAsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the summary as JSON, and nothing else on stdout.")
]

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON, and nothing else on stdout.")
]

Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show Flower's own log as it comes.")
]
