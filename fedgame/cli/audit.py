"""`fedgame audit RUN`: ask any accountant about a finished run, offline, from its ledger."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from typer.core import TyperGroup

from fedgame.cli import audit_transcript
from fedgame.cli.flags import AsJson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fedgame.accountants.base import Accountant
    from fedgame.ledger.events import PrivacyEvent
    from fedgame.ledger.purchases import Purchase

_DEFAULT = "ledger"

EX_POST = (
    "what the ledger adds up to; where strengths were chosen along the way this is ex post, and "
    "the guarantee is the one in summary.json"
)


class _DefaultCommand(TyperGroup):
    """A group whose first command may go unnamed: `audit RUN` means `audit ledger RUN`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command first unless a command or help was asked for."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


OF_A_GAME = (
    "each player's own messages, if its cost function is replaced by another candidate; how far "
    "candidates are apart follows from the messages, so this is ex post"
)

app = typer.Typer(cls=_DefaultCommand, no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Audit a run: its ledger (`fedgame audit RUN --accountant NAME`), or a game's transcript."""


@app.command(_DEFAULT)
def ledger(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    *,
    accountant: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="pld, rdp, order2, contraction, flow, or the paper's claim lsi."
        ),
    ] = "pld",
    delta: Annotated[
        float | None, typer.Option(help="Delta of the epsilons.", show_default="the run's")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Re-audit a run's ledger: each client's epsilon at delta, and its delta at epsilon 1.

    Where the run bought privacy budgets, what was bought stands beside what was spent.
    """
    from fedgame import config
    from fedgame.errors import ConfigError
    from fedgame.ledger.replay import read_events, read_purchases

    purchases = read_purchases(run)
    # who sold a budget and was never drawn has no event
    histories = {**dict.fromkeys(purchases, ()), **read_events(run)}
    experiment = config.load(config.read_toml(run / "config.toml"))
    at = experiment.accounting.delta if delta is None else delta
    if not 0 < at < 1:
        raise ConfigError("--delta", at, "must be in (0, 1)")
    judge = config.accountant(accountant, experiment)
    answers = {events: _answer(judge, events, at) for events in map(tuple, histories.values())}
    result = {
        "run_dir": str(run.absolute()),
        "accountant": judge.name,
        "sound": judge.sound,
        "delta": at,
        "neighbours": _relation(histories, experiment.training.neighbours),
        "note": "; ".join([_basis(histories), *_deltas_of(purchases)]),
        "clients": [
            {"id": k, **answers[tuple(histories[k])], **_deal(purchases, k)}
            for k in sorted(histories)
        ],
    }
    if as_json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        _print(result)


app.command("transcript")(audit_transcript.transcript)


def _relation(histories: Mapping[int, Sequence[PrivacyEvent]], configured: str) -> str:
    """Return the relation of the releases themselves, where there are any."""
    found = {event.neighbours for events in histories.values() for event in events}
    return ", ".join(sorted(found)) if found else configured


def _basis(histories: Mapping[int, Sequence[PrivacyEvent]]) -> str:
    """Return the remark that says what kind of number this is."""
    from fedgame.ledger.events import LaplaceVector

    kinds = {type(event) for events in histories.values() for event in events}
    return OF_A_GAME if LaplaceVector in kinds else EX_POST


def _answer(judge: Accountant, events: Sequence[PrivacyEvent], delta: float) -> dict[str, Any]:
    from fedgame.accountants.base import accountable

    return {
        "releases": len(events),
        "unaccounted": len(events) - len(accountable(events)),
        # the paper's claim is a delta alone
        "epsilon": judge.epsilon(events, delta) if judge.sound else None,
        "delta_at_epsilon_1": judge.delta(events, 1.0),
    }


def _deal(purchases: Mapping[int, Purchase], client: int) -> dict[str, float | None]:
    """Return what a client sold, for how much; nothing in a run that buys no budgets."""
    if not purchases:
        return {}
    deal = purchases.get(client)
    return {
        "bought": deal.epsilon if deal else None,
        "payment": deal.payment if deal else None,
    }


def _deltas_of(purchases: Mapping[int, Purchase]) -> list[str]:
    """Return the remark that says at which delta the bought budgets are stated."""
    deltas = sorted({deal.delta for deal in purchases.values()})
    if not deltas:
        return []
    return [
        f"bought: epsilon at delta {', '.join(map(str, deltas))}, by the accountant of the run: a "
        "looser one finds more for the same releases"
    ]


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from fedgame.cli.progress import bound, number

    kind = "sound accountant" if result["sound"] else "a claim, not a guarantee"
    table = Table(title=f"{result['accountant']} ({kind}), neighbours {result['neighbours']}")
    epsilon = f"epsilon at delta {number(result['delta'])}"
    bought = ["bought"] if any("bought" in client for client in result["clients"]) else []
    for head in ("client", "releases", "not covered", *bought, epsilon, "delta at epsilon 1"):
        table.add_column(head, justify="right")
    for client in result["clients"]:
        counts = (client["id"], client["releases"], client["unaccounted"])
        values = (client["epsilon"], client["delta_at_epsilon_1"])
        table.add_row(
            *map(str, counts),
            *(bound(client[column]) for column in bought),  # rounded as what was spent is
            *map(bound if result["sound"] else number, values),
        )
    table.caption = result["note"]
    Console().print(table)
