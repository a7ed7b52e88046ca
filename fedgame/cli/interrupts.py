"""Signals that ask the command to end, as a flag instead of an exception.

An exception that a signal raises can hit any line, also the ones that clean up. Here a signal is
noted, and whoever waits looks at the note: the first one asks to stop, a second one to stop at
once.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_POLL_SECONDS = 0.05
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupts:
    """A context that notes SIGINT, SIGTERM and SIGHUP; it needs the main thread.

    Attributes:
        signals: The signals that came, in order.
        on_signal: Called from the handler after each signal.
    """

    def __init__(self) -> None:
        """Start with no signals."""
        self.signals: list[int] = []
        self.on_signal: Callable[[], None] = lambda: None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for name in _NAMES:
            number = getattr(signal, name, None)
            # whoever started us with nohup wants the hang-up ignored
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signals.append(number)
        self.on_signal()

    @property
    def stop(self) -> bool:
        """Whether a signal came."""
        return bool(self.signals)

    @property
    def hurry(self) -> bool:
        """Whether more than one signal came: waiting politely is over."""
        return len(self.signals) > 1

    @property
    def exit_code(self) -> int:
        """The shell's exit code for the first signal: 128 + its number; 0 without one."""
        return 128 + self.signals[0] if self.signals else 0

    def wait(
        self, done: Callable[[], bool], seconds: float, give_up: Callable[[], bool] | None = None
    ) -> bool:
        """Wait until `done()`, at most `seconds`, or until `give_up()`; return whether it is done.

        Without `give_up`, a second signal ends the waiting.
        """
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end or (give_up() if give_up else self.hurry):
                return False
            time.sleep(_POLL_SECONDS)
        return True
