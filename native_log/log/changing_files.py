"""Repeat work that fails because a broker has replaced or removed a file."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from native_log.errors import LogTruncatedError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

ATTEMPTS = 5
"""How often such work is tried."""


def retry_changed(work: Callable[[], Result]) -> Result:
    """Return the result of `work`. Call it again if a file was replaced or removed meanwhile.

    A broker's cleaner replaces files one by one, so this may happen several times.

    Raises FileNotFoundError or LogTruncatedError if `work` fails each time.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError, LogTruncatedError):
            return work()
    return work()
