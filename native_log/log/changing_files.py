"""Repeat work that fails because a broker has replaced or removed a file."""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, TypeVar

from native_log.errors import LogTruncatedError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

CHANGED = (FileNotFoundError, LogTruncatedError)
"""What reading raises if a file was replaced or removed."""

MOVED = (*CHANGED, OffsetOutOfRangeError)
"""What a lookup of offsets raises if the records were removed or are in another place."""

ATTEMPTS = 5
"""How often such work is tried."""


def retry_changed(
    work: Callable[[], Result],
    errors: tuple[type[Exception], ...] = CHANGED,
    *,
    first: Callable[[], Result] | None = None,
) -> Result:
    """Return the result of `work`. Call it again if a file was replaced or removed meanwhile.

    A broker's cleaner replaces files one by one, so this may happen several times.

    Args:
        work: what to do.
        errors: what it raises in this case. The last one is raised if it fails each time.
        first: what to do the first time instead, with what is known already.
    """
    for attempt in (first or work, *repeat(work, ATTEMPTS - 2)):
        with suppress(*errors):
            return attempt()
    return work()
