"""The page of a purchase of privacy, apart from any training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from fedgame.games.best_response import FloatArray
from fedgame.games.procurement.base import Allocation, Terms
from fedgame.games.procurement.calibration import Calibration
from fedgame.reports.page import Plot, key_numbers, render_page
from fedgame.reports.procurement_figures import payments_and_costs, selection_and_budgets


@dataclass(frozen=True)
class SolvedPurchase:
    """What a mechanism did at the reports of named clients.

    Attributes:
        clients: Names of the clients.
        sensitivities: c_k as reported, shape (clients,).
        prior: Name of the prior.
        terms: The server's terms.
        allocation: What the mechanism did.
        standard_errors: Of each payment, shape (clients,); None where payments are exact or absent.
        calibration: How eta was found; None where it was given.
    """

    clients: list[str]
    sensitivities: FloatArray
    prior: str
    terms: Terms
    allocation: Allocation
    standard_errors: FloatArray | None = None
    calibration: Calibration | None = None

    @property
    def total_payment(self) -> float | None:
        """The sum of the payments, None without payments."""
        payments = self.allocation.payments
        return None if payments is None else float(payments.sum())


def notes(purchase: SolvedPurchase) -> list[str]:
    """Return what a reader of the numbers must know, as sentences."""
    bought = purchase.allocation
    found = [
        "Budgets and payments reveal the clients' sensitivities: these numbers are as confidential "
        "as the reports."
    ]
    if bought.ironed:
        found.append(
            "The prior is not regular: virtual costs were ironed, and clients with equal ones are "
            "ordered as in the file."
        )
    if bought.cap_binds:
        found.append(f"The cap binds: some budgets are at {purchase.terms.epsilon_max:.4g}.")
    if bought.mechanism == "jsam-ci":
        found.append("A client is paid its cost: it would gain by reporting another sensitivity.")
    if bought.mechanism == "bbm":
        found.append(
            "Who has the largest losses depends on the clients' data: a release that no budget "
            "covers."
        )
    return found


def render_purchase(purchase: SolvedPurchase) -> str:
    """Return the page as one self-contained HTML file that makes no network request."""
    bought = purchase.allocation
    count = len(purchase.clients)
    title = f"{bought.mechanism.upper()}: {count:,} clients, prior {purchase.prior}"
    items = "".join(f"<li>{escape(note)}</li>" for note in notes(purchase))
    body = (
        '<header><p class="kicker">fedgame solve jsam</p>'
        f'<h1>{escape(title)}</h1><p class="lead">{escape(_headline(purchase))}</p></header>'
        f'<aside aria-label="Notes"><h2>What to know</h2><ul>{items}</ul></aside>'
        f"{key_numbers(_numbers(purchase))}"
    )
    return render_page(title, body, _plots(purchase), after="", numbers="allocation.csv")


def _headline(purchase: SolvedPurchase) -> str:
    bought = purchase.allocation
    total = purchase.total_payment
    selected = f"{bought.threshold:,} of {len(purchase.clients):,} clients can be selected"
    cost = f"the expected cost is {bought.expected_cost:.4g}"
    paid = "" if total is None else f", and the payments sum to {total:.4g}"
    return f"{selected}; {cost}{paid}."


def _numbers(purchase: SolvedPurchase) -> list[tuple[str, str, str]]:
    bought, terms = purchase.allocation, purchase.terms
    total, gap = purchase.total_payment, bought.certificate.brute_force_gap
    cap = "" if math.isinf(terms.epsilon_max) else f"{terms.epsilon_max:.4g}"
    found = purchase.calibration
    return [
        ("Objective", f"{bought.objective:.4g}", "training and money"),
        ("Expected cost B", f"{bought.expected_cost:.4g}", "Σ v ε"),
        ("Total payment", "" if total is None else f"{total:.4g}", "Σ π"),
        ("Threshold", f"{bought.threshold:,}", "clients with p > 0"),
        ("η", f"{terms.eta:.4g}", "given" if found is None else "calibrated on the prior"),
        ("Q", f"{terms.q:.4g}", ""),
        ("Cap on ε", cap, "binds" if bought.cap_binds else "does not bind"),
        ("KKT residual", f"{bought.certificate.kkt_residual:.2g}", "relative"),
        ("Gap to brute force", "" if gap is None else f"{gap:.2g}", "relative"),
    ]


def _plots(purchase: SolvedPurchase) -> list[Plot]:
    bought = purchase.allocation
    cost = "Cost c" if bought.mechanism == "jsam-ci" else "Virtual cost v"
    plots = [
        Plot(
            "Selection and budgets",
            selection_and_budgets(
                bought.virtual_costs,
                bought.probabilities,
                bought.budgets,
                purchase.clients,
                cost=cost,
            ),
            "Each client's probability of selection (circles) and the privacy budget bought from "
            "it (diamonds): the dearer its privacy, the smaller its budget. A cross at the bottom "
            "is a client that is not selected.",
        )
    ]
    if bought.payments is not None:
        gap = "the gap is its information rent, which makes the truth its best report."
        if bought.mechanism == "jsam-ci":
            gap = "a server that knows the costs leaves no gap."
        plots.append(
            Plot(
                "Payments",
                payments_and_costs(
                    purchase.sensitivities, bought.budgets, bought.payments, purchase.clients
                ),
                "What each client is paid (circles) and what its loss of privacy costs it "
                f"(diamonds); {gap}",
            )
        )
    return plots
