"""The clock, the processor cores that this process may use, and its garbage collector."""

from __future__ import annotations

import gc
import math
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from native_log.cpu_quota import cpu_quota

if TYPE_CHECKING:
    from collections.abc import Iterator


def current_ms() -> int:
    """Return the current time in epoch ms."""
    return time.time_ns() // 1_000_000


def available_cores() -> int:
    """Return how many processor cores this process may use. The limit of a container is rounded up."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else min(cores, math.ceil(quota))


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable the cyclic garbage collector.

    Opening many logs creates millions of objects but no cycles. The collector would scan them again and
    again, which takes up to a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
