"""The time zone of a session, in which Spark takes times that have none (timestamp_ntz)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog_spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark import TaskContext

_SETTING = "spark.sql.session.timeZone"


def session_time_zone(context: TaskContext | None) -> str:
    """In a task. Spark sends the settings of a session along where they are set; else it is Java's zone."""
    setting = context.getLocalProperty(_SETTING) if context is not None else None
    return setting or _local_zone()


def _local_zone() -> str:
    """By its name, as Java finds it."""
    named = os.environ.get("TZ", "").lstrip(":")
    _, _, linked = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")
    return named or linked or "UTC"


def in_zone(times: pa.Array, time_zone: str) -> pa.Array:
    """Timestamps that have no zone, taken for those of one: an hour that comes twice as the first, one that
    is left out as its end.

    Raises OptionError for a zone that Arrow does not know.
    """
    if times.type.tz is not None:
        return times
    try:
        return pc.assume_timezone(times, time_zone, ambiguous="earliest", nonexistent="latest")
    except pa.ArrowInvalid as error:
        raise OptionError(
            f"column timestamp is timestamp_ntz, and its time zone is not known ({_SETTING}): {error}; cast "
            "it to timestamp"
        ) from None
