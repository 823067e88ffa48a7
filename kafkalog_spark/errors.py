"""Errors of the Spark package. Errors about a log itself are in native_log.errors."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.storage import StorageOptions, scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
def session_settings_note(paths: Iterable[str], options: StorageOptions) -> Iterator[None]:
    """Add advice to an OSError from a URL that was opened without storage options.

    Users expect the settings of the session to apply. FileNotFoundError gets no note: no setting would help.

    Args:
        paths: the paths and URLs that are opened.
        options: the storage options of the read.
    """
    try:
        yield
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        if not is_missing and options == StorageOptions() and any(map(scheme_of, paths)):
            error.add_note(
                "A Python data source does not see the settings of the Spark session. To pass them on, add "
                ".options(**kafkalog_spark.storage_options(spark, path)) to the read."
            )
        raise


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
