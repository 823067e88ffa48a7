"""The errors of the Spark side. What is wrong with a log itself is an error of native_log."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Iterator


class OptionError(ValueError):
    """An option, or options together, that cannot be meant. Spark shows it at load()."""


class DataLossError(KafkaLogError):
    """The log does not hold all offsets that were asked for (Spark: KAFKA_DATA_LOSS)."""


class WriteAbortedError(KafkaLogError):
    """A task of a write that was given up meanwhile."""


class PathNotVisibleError(KafkaLogError):
    """A directory that the driver sees and an executor does not."""

    @classmethod
    def on_host(cls, host: str, path: str) -> PathNotVisibleError:
        """Of a partition's directory, and the executor's host."""
        return cls(
            f"the executor on host {host} does not see this directory as the driver does (or it was removed "
            "meanwhile): mount it there under the same path, or run where it lies",
            path=path,
        )


@contextmanager
def visibility_check(path: str) -> Iterator[None]:
    """What a task does in a partition's directory. Raises PathNotVisibleError where that is not there."""
    try:
        yield
    except FileNotFoundError as error:
        folder = Path(error.filename).parent if error.filename else Path(path)
        if folder.is_dir() and Path(path).is_dir():
            raise
        raise PathNotVisibleError.on_host(socket.gethostname(), path) from None
