"""Virtual costs: what a unit of privacy costs a server that must not be lied to.

A client of privacy sensitivity c, drawn from a public prior with distribution F and density f, has
the virtual cost v = c + F(c)/f(c) (JSAM paper, eq. 17; Myerson 1981): its cost, and what the server
must leave to clients of lower sensitivity so that they do not claim c. The mechanisms need v to
rise in c. Where it does not, it is ironed: with the quantile x = F(c), the integral of v over the
quantiles up to x is x c, and v is replaced by the slope of that function's convex minorant.
"""

from __future__ import annotations

from typing import Any

from fedgame.games.procurement.continuous_prior import ContinuousPrior
from fedgame.games.procurement.prior import Prior
from fedgame.games.procurement.sample_prior import SamplePrior


def make_prior(source: Any, c_max: float | None = None) -> Prior:
    """Return the prior of a frozen scipy.stats distribution, or of samples.

    Args:
        source: A frozen continuous distribution, or a sequence of sensitivities.
        c_max: Where to truncate a distribution; see `ContinuousPrior`.

    Raises:
        ValueError: As for the two kinds of priors.

    >>> from scipy import stats
    >>> make_prior(stats.uniform(0, 1)).virtual_cost([0.1, 0.5]).tolist()
    [0.2, 1.0]
    >>> make_prior([0.1, 0.1, 0.4, 0.4]).virtual_cost([0.1, 0.4]).round(12).tolist()
    [0.1, 0.7]
    """
    if hasattr(source, "pdf") or hasattr(source, "dist"):
        return ContinuousPrior(source, c_max)
    return SamplePrior(source)
