"""Errors of the Spark package. Errors about a log itself are in native_log.errors."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.storage import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class OptionError(ValueError):
    """An invalid option or combination of options. Spark shows it at load()."""


class DataLossError(KafkaLogError):
    """The log does not hold all requested offsets (Spark: KAFKA_DATA_LOSS)."""


class WriteAbortedError(KafkaLogError):
    """The write to which a task belongs was aborted."""


class PathNotVisibleError(KafkaLogError):
    """A directory that the driver sees does not exist on an executor."""

    @classmethod
    def on_host(cls, host: str, path: str) -> PathNotVisibleError:
        """Return the error for a partition directory that the executor on `host` does not see."""
        return cls(
            f"the executor on host {host} does not see this directory as the driver does (or it was removed "
            "in the meantime); mount it there under the same path, or run the job where the directory is",
            path=path,
        )


@contextmanager
def visibility_check(path: str) -> Iterator[None]:
    """Turn FileNotFoundError into PathNotVisibleError if the local partition directory `path` does not exist.

    If the directory exists, FileNotFoundError is raised unchanged: a file in it was removed.
    """
    try:
        yield
    except FileNotFoundError as error:
        if scheme_of(path):
            raise
        folder = Path(error.filename).parent if error.filename else Path(path)
        if folder.is_dir() and Path(path).is_dir():
            raise
        raise PathNotVisibleError.on_host(socket.gethostname(), path) from None
