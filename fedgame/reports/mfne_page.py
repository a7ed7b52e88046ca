"""The page of a mean-field equilibrium, apart from any training."""

from __future__ import annotations

from html import escape

from fedgame.reports.guarantees import format_bound
from fedgame.reports.mfne_figures import distribution, strength_by_preference
from fedgame.reports.mfne_result import (
    NEGLIGIBLE,
    SolvedMeanField,
    grouped,
    notes,
    uniqueness,
)
from fedgame.reports.page import Plot, key_numbers, render_page


def render_equilibrium(solved: SolvedMeanField) -> str:
    """Return the page as one self-contained HTML file that makes no network request."""
    rules = solved.rules
    title = f"Mean-field equilibrium: {rules.num_clients:,} clients, release {rules.release}"
    items = "".join(f"<li>{escape(note)}</li>" for note in notes(solved))
    body = (
        '<header><p class="kicker">fedgame solve mfne</p>'
        f'<h1>{escape(title)}</h1><p class="lead">{escape(_headline(solved))}</p></header>'
        f'<aside aria-label="Notes"><h2>What to know</h2><ul>{items}</ul></aside>'
        f"{key_numbers(_numbers(solved))}"
    )
    return render_page(title, body, _plots(solved), after=_table(solved), numbers="mfne.csv")


def _headline(solved: SolvedMeanField) -> str:
    found, rules = solved.equilibrium, solved.rules
    played = solved.epsilons[found.population > NEGLIGIBLE]
    least, most = format_bound(float(played.min())), format_bound(float(played.max()))
    epsilons = f"epsilon {most}" if least == most else f"epsilons from {least} to {most}"
    return (
        f"The population answers the mean strength {found.mean_strength:.4g} with itself. After "
        f"{rules.steps:,} steps that gives {epsilons} at delta {rules.delta:g}, neighbours "
        f"{rules.neighbours}, by {rules.accountant}."
    )


def _numbers(solved: SolvedMeanField) -> list[tuple[str, str, str]]:
    found, rules, price = solved.equilibrium, solved.rules, solved.price
    anarchy = "" if price.anarchy is None else f"{price.anarchy:.4g}"
    examples = "" if rules.num_examples is None else f"{rules.num_examples:,}"
    return [
        (
            "Mean strength s̄",
            f"{found.mean_strength:.4g}",
            f"the only one: {uniqueness(solved)}",
        ),
        ("Exploitability", f"{found.exploitability.largest:.2g}", "largest gain of a client"),
        ("NashConv", f"{solved.nash_conv:.2g}", "all gains together"),
        ("Residual", f"{found.residual:.2g}", "from mean answer to s̄"),
        ("Price of anarchy", anarchy, f"{price.worst:.4g} over {price.optimum.disutility:.4g}"),
        ("Optimal mean strength", f"{price.optimum.mean_strength:.4g}", "least average disutility"),
        ("Price of privacy", f"{rules.cost:.4g}", f"of one unit of {rules.privacy}"),
        ("Examples per client", examples, f"coupling {rules.coupling}; loss {rules.loss}"),
    ]


def _plots(solved: SolvedMeanField) -> list[Plot]:
    claim = "" if solved.claimed_deltas is None else ", beside the delta that the paper claims"
    return [
        Plot(
            "Equilibrium strength by preference",
            strength_by_preference(solved),
            "What clients of each preference play; two marks one above the other are strengths "
            "between which a client is indifferent, the larger mark the likelier one. The dashed "
            "line is the mean of all, the dotted one the mean at the social optimum.",
        ),
        Plot(
            "Distribution over the grid",
            distribution(solved),
            "Share of the clients at each strength, and below it the sound delta at epsilon 1 that "
            f"the strength gives after all steps{claim}. A claim below the sound delta is one that "
            "no accountant here confirms.",
        ),
    ]


def _table(solved: SolvedMeanField) -> str:
    heads = (
        "β", "Share of type", "Strength", "Probability", "Noise multiplier", "Sound ε",
        "Sound δ at ε = 1", "Claimed δ",
    )  # fmt: skip
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = ""
    for betas, row in grouped(solved):
        cells = (
            betas,
            f"{row.share:.4g}",
            f"{row.strength:.4g}",
            f"{row.probability:.4g}",
            f"{row.noise_multiplier:.4g}",
            format_bound(row.epsilon),
            format_bound(row.sound_delta_at_epsilon_1),
            "\N{EN DASH}" if row.claimed_delta is None else f"{row.claimed_delta:.4g}",
        )
        body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    return (
        '<section><h2>What is played</h2><div class="scroll" role="region" '
        'aria-label="What is played" tabindex="0"><table class="plain">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )
