"""The page of a solution of the coupled equations, apart from any training."""

from __future__ import annotations

from html import escape

from fedgame.games.privacy.hjb_fpk import HjbFpkSolution
from fedgame.reports import hjb_fpk_figures as figures
from fedgame.reports.hjb_fpk_summary import notes, settings_table, type_summaries
from fedgame.reports.page import Plot, header, key_numbers, render_page, settings


def render_solution(solution: HjbFpkSolution, numbers: str, version: str) -> str:
    """Return the page as one self-contained HTML file that makes no network request.

    Args:
        solution: A solution, or the last iterate of a failed attempt.
        numbers: Name of the file that has the arrays.
        version: Of fedgame.
    """
    kinds = len(solution.settings.betas)
    title = f"Mean-field equilibrium in time: {kinds} type{'s' if kinds > 1 else ''} of clients"
    items = "".join(f"<li>{escape(note)}</li>" for note in notes(solution))
    body = (
        header("fedgame solve hjb-fpk", title, _lead(solution), failed=not solution.converged)
        + f'<aside aria-label="Notes"><h2>What to know</h2><ul>{items}</ul></aside>'
        + key_numbers(_numbers(solution))
        + _types(solution)
    )
    config = {
        key: ", ".join(f"{item:g}" for item in value) if isinstance(value, list) else value
        for key, value in settings_table(solution).items()
    }
    after = settings(config, {"fedgame": version})
    return render_page(title, body, _plots(solution), after, numbers)


def _lead(solution: HjbFpkSolution) -> str:
    if not solution.converged:
        return (
            f"{solution.message[:1].upper()}{solution.message[1:]}. What is shown is the last "
            "iterate, not a solution."
        )
    return (
        "Each client has a state x and picks its strength s*(t, x) of noise to have the least loss "
        "plus privacy cost; clients meet in their mean state. All checks of the solution passed."
    )


def _numbers(solution: HjbFpkSolution) -> list[tuple[str, str, str]]:
    count = len(solution.residuals)
    loss = solution.settings.loss
    return [
        ("Status", solution.status, f"{count} Picard iteration{'s' if count > 1 else ''}"),
        ("Residual", f"{solution.residuals[-1]:.2g}", "of the mean state's path"),
        ("Mass error", f"{solution.mass_error:.2g}", "of any density"),
        ("Policy residual", f"{solution.policy_residual:.2g}", "gain left by another strength"),
        ("Mean strength, t = 0", f"{solution.mean_strength[0]:.4g}", "s-bar(0)"),
        ("Mean strength, t = T", f"{solution.mean_strength[-1]:.4g}", "s-bar(T)"),
        ("Horizon T", f"{solution.settings.horizon:.4g}", f"{len(solution.t) - 1:,} steps"),
        ("Loss", loss if isinstance(loss, str) else "of one's own", f"{len(solution.x):,} cells"),
    ]


def _types(solution: HjbFpkSolution) -> str:
    names = (
        "β", "Share", "Mean strength, t = 0", "90 % of clients, t = 0", "Mean strength, t = T",
        "Mean state, t = T", "Spread, t = T",
    )  # fmt: skip
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = ""
    for kind in type_summaries(solution):
        cells = (
            f"{kind.beta:.4g}",
            f"{kind.share:.4g}",
            f"{kind.strength_start:.4g}",
            f"{kind.strength_low:.4g} to {kind.strength_high:.4g}",
            f"{kind.strength_end:.4g}",
            f"{kind.state_mean:.4g}",
            f"{kind.state_std:.4g}",
        )
        rows += "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    return (
        "<section><h2>Types</h2>"
        f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _plots(solution: HjbFpkSolution) -> list[Plot]:
    kinds = len(solution.settings.betas)
    few = ", for the lowest, a middle and the highest β" if kinds > figures.PANELS else ""
    return [
        Plot(
            "Optimal strength by time and state",
            figures.strength_maps(solution),
            f"s*(t, x){few}. Nine tenths of a type's clients are between the red lines. A "
            "constant strength would be one colour.",
        ),
        Plot(
            "Optimal strength at the start",
            figures.strengths_at_start(solution),
            "s*(0, x), one line a β. A constant strength would be a flat line.",
        ),
        Plot(
            "Density of the state",
            figures.densities(solution),
            f"μ(t, x){few}. Where s* leaves a bound, μ has a peak or a kink: s* μ is smooth there.",
        ),
        Plot(
            "Mean strength",
            figures.mean_strengths(solution),
            "The population's mean strength s-bar(t), and that of each type.",
        ),
        Plot(
            "Residual of each iteration",
            figures.residuals(solution),
            "By how much the mean state answers differently to its own path, at worst over time. "
            "The dashed line is the tolerance.",
        ),
    ]
