"""What a node answered last: kept beside its releases, so that a lost reply can be sent again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """A node's last reply to one kind of order.

    The same order gets the same reply, from the file and not computed anew: so nothing is drawn,
    read or charged twice. Any other order of that round is refused, since its noise is used up.

    Attributes:
        action: What was asked for.
        round: The round of the order.
        digest: Of the order's content.
        reply: The reply, as bytes.
    """

    action: str
    round: int
    digest: bytes
    reply: bytes
