"""The guarantee table: for each client, what was claimed, guaranteed and realised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from fedgame.reports.summary import Config
from fedgame.strategies.base import ClientRecord, RunResult

NO_CLAIM = "no claim"
CLAIMED_DELTA = "δ at ε = 1"
CLAIMED_EPSILON = "ε by order 2"
NOT_COVERED = "not covered"
LOOSER = "looser"
EQUAL = "equal"
NO_GUARANTEE = "no finite guarantee"

PHRASES = {
    NOT_COVERED: "not covered by the guarantee",
    LOOSER: "looser than the guarantee",
    EQUAL: "equal to the guarantee",
    NO_GUARANTEE: "without a finite guarantee to hold it against",
}

ORDER_TWO_CELLS = ("dp-sgd", "mapg-dp")
"""The cells that the MFPG paper accounts by RDP at order 2; for the others it claims a delta."""

RELATIVE_ACCURACY = 1e-4
"""Values closer than this are called equal: numerical accountants are no more accurate."""


@dataclass(frozen=True)
class GuaranteeRow:
    """One client's line of the guarantee table.

    Attributes:
        client: What the run recorded about the client.
        quantity: What the paper claims, "δ at ε = 1" or "ε by order 2"; "no claim" where nothing.
        claimed_value: The claimed delta at epsilon = 1, or the claimed epsilon; None without claim.
        sound_value: The guarantee's value of the same quantity: an upper bound, not necessarily
            attained.
        verdict: How claim and guarantee compare: a key of PHRASES, or "no claim".
    """

    client: ClientRecord
    quantity: str
    claimed_value: float | None
    sound_value: float
    verdict: str


def guarantee_rows(result: RunResult, config: Config) -> tuple[GuaranteeRow, ...]:
    """Return one row a client, in the order of the result.

    The claim is the delta at epsilon = 1 where the run recorded one (MFPG paper, Theorem C.2), else
    the order-2 epsilon for the Gaussian cells (section 7), else none.
    """
    cell = str(config.get("cell", "")).lower()
    return tuple(_row(client, cell) for client in result.clients)


def _row(client: ClientRecord, cell: str) -> GuaranteeRow:
    if client.claimed_delta is not None:
        claimed, sound = client.claimed_delta, client.sound_delta_at_epsilon_1
        quantity = CLAIMED_DELTA
    elif cell in ORDER_TWO_CELLS and "order2" in client.epsilon:
        claimed, sound = client.epsilon["order2"], client.guarantee
        quantity = CLAIMED_EPSILON
    else:
        return GuaranteeRow(client, NO_CLAIM, None, client.guarantee, NO_CLAIM)
    return GuaranteeRow(client, quantity, claimed, sound, compare(claimed, sound))


def compare(claimed: float, sound: float) -> str:
    """Return how a claimed delta or epsilon relates to the guaranteed value of the same quantity.

    The guaranteed value is an upper bound on the leakage of the worst data set. A claim below it
    is therefore not shown to be false, only not supported; a claim above it follows from the
    guarantee and is needlessly weak.

    >>> compare(0.0909, 0.5891)
    'not covered'
    """
    if not math.isfinite(sound) or not math.isfinite(claimed):
        return NO_GUARANTEE
    if math.isclose(claimed, sound, rel_tol=RELATIVE_ACCURACY):
        return EQUAL
    return NOT_COVERED if claimed < sound else LOOSER


def verdict_summary(rows: Sequence[GuaranteeRow], config: Config) -> tuple[str, ...]:
    """Return sentences that say, over all clients, what becomes of the paper's claim."""
    claims = [row for row in rows if row.claimed_value is not None]
    if not claims:
        return ("The paper makes no claim about this run that could be compared.",)
    sentences = [
        f"The paper's claim is {phrase} for {_count(claims, verdict)}."
        for verdict, phrase in PHRASES.items()
        if any(row.verdict == verdict for row in claims)
    ]
    uncovered = [row for row in claims if row.verdict == NOT_COVERED]
    if uncovered:
        sentences += _explain(uncovered, config)
    return tuple(sentences)


def _count(rows: Sequence[GuaranteeRow], verdict: str) -> str:
    matching = sum(row.verdict == verdict for row in rows)
    return f"{matching:,} of {len(rows):,} client{'s' if len(rows) > 1 else ''}"


def _explain(uncovered: Sequence[GuaranteeRow], config: Config) -> list[str]:
    worst = max(uncovered, key=lambda row: row.sound_value - (row.claimed_value or 0.0))
    claimed, sound = format_number(worst.claimed_value), format_bound(worst.sound_value)
    sentences = [
        f"The gap is largest for client {worst.client.id}: for {worst.quantity}, {claimed} is "
        f"claimed and {sound} is guaranteed.",
        "The guaranteed value is an upper bound, so a smaller claim is unsupported here, which "
        "does not by itself prove it false.",
    ]
    by_delta = worst.quantity == CLAIMED_DELTA
    if by_delta and config.get("training.neighbours") == "client":
        sentences.append(
            "Where every noisy state is sent as it is and every step uses the strength behind the "
            "guarantee, constant gradients at the clipping norm attain the bound, and there a "
            "smaller claim is false."
        )
    return sentences


def format_number(value: float | None, digits: int = 4) -> str:
    """Return a number to `digits` significant digits, a dash for None.

    >>> format_number(3.472e-05), format_number(26.832815)
    ('3.472e-5', '26.83')
    """
    return _format(value, digits, ROUND_HALF_EVEN)


def format_bound(value: float | None, digits: int = 4) -> str:
    """Return an upper bound rounded up, so that what is printed is still a bound.

    >>> format_bound(4.96801)
    '4.969'
    """
    return _format(value, digits, ROUND_CEILING)


def format_floor(value: float | None, digits: int = 4) -> str:
    """Return a lower bound, or a budget, rounded down, so that what is printed is not too much.

    >>> format_floor(4.96899)
    '4.968'
    """
    return _format(value, digits, ROUND_FLOOR)


def _format(value: float | None, digits: int, rounding: str) -> str:
    if value is None or math.isnan(value):
        return "\N{EN DASH}"
    if math.isinf(value):
        return "∞" if value > 0 else "\N{MINUS SIGN}∞"
    # From the shortest decimal that names the float, so that 0.1 is not rounded up to 0.1001.
    exact = Decimal(repr(float(value)))
    if exact == 0:
        return "0"
    rounded = Context(prec=digits, rounding=rounding).plus(exact)
    if not -4 <= rounded.adjusted() < 7:
        mantissa = format(rounded.scaleb(-rounded.adjusted()).normalize(), "f")
        return f"{mantissa}e{rounded.adjusted()}"
    return format(rounded.normalize(), "f")
