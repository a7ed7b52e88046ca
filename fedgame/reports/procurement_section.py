"""What the report of a run shows where privacy was bought: sentences, table, figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from fedgame.reports import figures, procurement_run_figures
from fedgame.reports.deals import Deal, deals, draws, participants
from fedgame.reports.guarantees import format_bound, format_floor, format_number
from fedgame.reports.sortable_table import (
    Column,
    bound_column,
    largest,
    number_column,
    sortable_table,
)
from fedgame.reports.summary import Config
from fedgame.strategies.base import ProcurementRecord, RunResult

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FIGURES: tuple[tuple[str, Callable[[RunResult], Figure | None], str], ...] = (
    (
        "Selection and budgets",
        procurement_run_figures.selection_and_budgets,
        "Each client's probability of being drawn (circles) and the privacy budget bought from it "
        "(diamonds): of clients drawn as often, the dearer one sells the smaller budget; grey "
        "crosses are clients from which nothing is bought.",
    ),
    (
        "Payments",
        procurement_run_figures.payments_and_costs,
        "What each client is paid (circles) and what the budget costs it (diamonds); the gap is "
        "its information rent, what the server pays for being told the truth.",
    ),
    (
        "Bought and spent",
        procurement_run_figures.bought_and_spent,
        "One mark for each client that sold a budget: on the dashed line it spent all of it, below "
        "the line less, and above the line it would have spent too much.",
    ),
    (
        "Scheduled and released",
        procurement_run_figures.selection_counts,
        "For each client that can be drawn: how often it was, before training (circles), how often "
        "it then released an update (crosses), and how often its probability lets one expect "
        "(bars). A cross below its circle means that updates are missing.",
    ),
    (
        "Accuracy against money",
        procurement_run_figures.accuracy_by_money,
        "The broadcast model on the public test set against the money that pays for what was "
        "released so far, each client's payment spread evenly over its draws; a client that is "
        "never drawn keeps a payment that never shows here.",
    ),
    (
        "Accuracy and loss",
        figures.accuracy_and_loss,
        "The same model by round; a curve that still climbs could gain from a larger budget.",
    ),
)


def purchase_section(record: ProcurementRecord) -> str:
    """Return the section that says what was bought, for how much, and how good a choice it was."""
    paragraphs = (_trade(record), _certificate(record), _implied_q(record))
    text = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs if paragraph)
    return f"<section><h2>What was bought</h2>{text}</section>"


def _trade(record: ProcurementRecord) -> str:
    purchases = record.purchases
    scheduled, released = sum(purchase.scheduled for purchase in purchases), draws(record)
    sellers = sum(purchase.budget > 0 for purchase in purchases)
    missing = "" if released == scheduled else f" of {scheduled:,} scheduled"
    return (
        f"{_count(len(purchases))} reported what a unit of ε costs them. The mechanism "
        f"{record.mechanism} bought privacy from {sellers:,} of them and pays "
        f"{format_number(record.total_payment)} in all (expected cost: "
        f"{format_number(record.expected_cost)}). {_count(participants(record))} took part, with "
        f"{released:,}{missing} updates. A payment is for the budget that was bought, whatever is "
        "spent of it."
    )


def _certificate(record: ProcurementRecord) -> str:
    text = (
        f"The server's objective, at η = {format_number(record.eta)} and "
        f"Q = {format_number(record.q)}, is {format_number(record.objective)}. Its certificate: "
        "the first-order conditions of what the mechanism may choose hold up to a relative "
        f"residual of {format_bound(record.kkt_residual, 2)}"
    )
    gap = record.brute_force_gap
    if gap is None:
        return f"{text}."
    side = "above" if gap > 0 else "below"
    distance = f"{format_bound(abs(gap), 2)}, relatively, {side}" if gap else "equal to"
    return f"{text}, and the objective is {distance} the best of a brute-force search."


def _implied_q(record: ProcurementRecord) -> str:
    if record.implied_q is None:
        return ""
    low, median, high = map(format_number, record.implied_q)
    return (
        "The objective takes z²ε²/(q²T) for one number, up to a factor (noise multiplier z, bought "
        f"ε, sampling rate q, T draws); over the clients that were drawn it is {low} to {high}, "
        f"median {median}."
    )


def key_numbers(record: ProcurementRecord) -> list[tuple[str, str, str]]:
    """Return the key numbers of a purchase: name, value, detail."""
    count = len(record.purchases)
    return [
        ("Participants", f"{participants(record):,}", f"of {count:,} that reported"),
        ("Total payment", format_number(record.total_payment), "to all clients"),
        ("Expected cost", format_number(record.expected_cost), "Σ v ε"),
    ]


def deals_section(result: RunResult, config: Config) -> str:
    """Return the section with the table of what was bought from each client and what it spent."""
    sold = deals(result)
    if not sold:
        return ""
    text = (
        "The budget bought from a client is what all its updates may cost it together: its noise "
        "was calibrated to its number of draws before the first round. What it spent is computed "
        f"from the ledger. {_overspent(sold)}"
    )
    shown, which = largest(sold, lambda deal: deal.purchase.budget, "budgets", "purchases.csv")
    return (
        f"<section><h2>Guarantees, client by client</h2><p>{escape(text)}</p>"
        f"{sortable_table(shown, COLUMNS, basis=_basis(config) + which, label='Purchases')}"
        "</section>"
    )


def _overspent(sold: Sequence[Deal]) -> str:
    clients = [str(deal.client.id) for deal in sold if deal.overspent]
    if not clients:
        return "No client spent more than was bought from it."
    some = ", ".join(clients[:10]) + (", ..." if len(clients) > 10 else "")
    return f"{_count(len(clients))} spent more than was bought, or an unknown amount: {some}."


def _basis(config: Config) -> str:
    delta = config.get("accountant.delta")
    at_delta = "" if delta is None else f"ε at δ = {format_number(float(delta))}. "
    return (
        f"{at_delta}Spent is by PLD and rounded up, bought is rounded down: where all was spent "
        "they can differ in the last digit. A click on a header sorts."
    )


def _draws(deal: Deal) -> str:
    scheduled, released = deal.purchase.scheduled, deal.purchase.released
    return f"{released:,}" if released == scheduled else f"{released:,} of {scheduled:,}"


COLUMNS: tuple[Column[Deal], ...] = (
    Column("Client", lambda deal: deal.client.id, lambda deal: str(deal.client.id)),
    number_column("Report", lambda deal: deal.purchase.report),
    number_column("Virtual cost", lambda deal: deal.purchase.virtual_cost),
    number_column("Probability", lambda deal: deal.purchase.probability),
    Column(
        "Bought ε",
        lambda deal: deal.purchase.budget,
        lambda deal: format_floor(deal.purchase.budget),
        "strong",
    ),
    bound_column("Spent ε", lambda deal: deal.spent, flagged=lambda deal: deal.overspent),
    number_column("Payment", lambda deal: deal.purchase.payment),
    Column("Draws", lambda deal: deal.purchase.released, _draws),
)
"""The columns of the table of purchases."""


def _count(clients: int) -> str:
    return f"{clients:,} client{'' if clients == 1 else 's'}"
