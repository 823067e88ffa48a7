"""The producer's clock. Tests replace it, so that they do not wait."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from native_log.system import current_ms


class Clock(Protocol):
    """What a producer needs of time (Kafka: Time)."""

    def now_ms(self) -> int:
        """Return the current time in epoch ms."""

    def now_ns(self) -> int:
        """Return the current time in epoch ns."""

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        """Wait for `condition`, whose lock the caller holds. Return False after the timeout.

        Args:
            condition: the condition to wait for.
            timeout_ms: None: no timeout.
        """


class SystemClock:
    """The clock of this machine."""

    now_ms = staticmethod(current_ms)
    now_ns = staticmethod(time.time_ns)

    def wait(self, condition: threading.Condition, timeout_ms: float | None) -> bool:
        """Wait for `condition`. Return False after the timeout."""
        if timeout_ms is not None:
            timeout_ms = min(timeout_ms / 1000, threading.TIMEOUT_MAX)
        return condition.wait(timeout_ms)
