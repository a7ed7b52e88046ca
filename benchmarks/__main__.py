"""`python -m benchmarks [NAME ...]`: run all benchmarks, or those that are named."""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks import leakage, local_step, messages, procurement, transport

BENCHMARKS: dict[str, Callable[[], None]] = {
    "leakage": leakage.main,
    "local-step": local_step.main,
    "messages": messages.main,
    "procurement": procurement.main,
    "transport": transport.main,
}


def main() -> None:
    """Run the named benchmarks, by default all."""
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"error: no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    for name in names:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()
