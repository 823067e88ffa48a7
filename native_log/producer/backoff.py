"""How long to wait before another attempt (Kafka: ExponentialBackoff)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_BASE = 2
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Delays that double with each attempt.

    Attributes:
        initial_ms: the delay after the first failed attempt.
        max_ms: the greatest delay.
        uniform: returns a random number between two numbers, for jitter of 20 %.
    """

    initial_ms: int
    max_ms: int
    uniform: Callable[[float, float], float] = random.uniform

    def delay_ms(self, failed_attempts: int) -> int:
        """Return how long to wait after so many failed attempts; 0 after none."""
        if failed_attempts < 1:
            return 0
        delay = min(self.initial_ms * _BASE ** min(failed_attempts - 1, 62), self.max_ms)
        jitter = 1.0 if self.initial_ms >= self.max_ms else self.uniform(1 - _JITTER, 1 + _JITTER)
        return int(min(delay * jitter, self.max_ms))
