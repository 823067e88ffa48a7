"""Read files that a broker may replace or remove meanwhile."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from native_log.errors import LogTruncatedError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

ATTEMPTS = 5
"""How often work is tried that fails because a file has changed."""


def retry_changed(work: Callable[[], Result]) -> Result:
    """Return the result of `work`, which is called again if a file was replaced or removed meanwhile.

    The cleaner of a broker replaces files one after the other, so that this may happen more than once.

    Raises FileNotFoundError, LogTruncatedError: `work` fails each time.
    """
    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError, LogTruncatedError):
            return work()
    return work()
