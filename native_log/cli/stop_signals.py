"""Stop between two records at SIGINT or SIGTERM."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Note the first SIGINT or SIGTERM, so that the work in progress ends in order.

    A signal interrupts a block of `interruptible` with a KeyboardInterrupt. A second signal interrupts
    everything. Outside the main thread, signals keep their handlers.

    Attributes:
        received: the signals, in order.
    """

    def __init__(self) -> None:
        self.received: list[signal.Signals] = []
        self._is_interruptible = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal interrupt the block, which may wait for a long time."""
        self._is_interruptible = True
        try:
            if self.received:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_interruptible = False

    def _handle(self, number: int, _: object) -> None:
        self.received.append(signal.Signals(number))
        if self._is_interruptible or len(self.received) > 1:
            raise KeyboardInterrupt
