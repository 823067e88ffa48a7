"""The clock, and the processor cores that this process may use."""

from __future__ import annotations

import os
import time


def current_ms() -> int:
    """Return the current time in epoch ms."""
    return time.time_ns() // 1_000_000


def available_cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
