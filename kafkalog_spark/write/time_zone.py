"""The session time zone, in which Spark interprets timestamps without a zone (timestamp_ntz)."""

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
    """Return the session time zone in a task.

    Spark sends a session's settings to its tasks if they are set. If not, it is the JVM's default zone.
    """
    setting = context.getLocalProperty(_SETTING) if context is not None else None
    return setting or _default_zone()


def _default_zone() -> str:
    """Return the name of the default time zone, determined as the JVM does: from TZ, then /etc/localtime."""
    from_environment = os.environ.get("TZ", "").lstrip(":")
    _, _, from_link = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")
    return from_environment or from_link or "UTC"


def assume_time_zone(times: pa.Array, time_zone: str) -> pa.Array:
    """Interpret timestamps without a zone as local times of `time_zone`. Return others unchanged.

    A local time that occurs twice, as when daylight saving time ends, means the first occurrence. One that
    does not exist, as when it begins, means the end of the gap.

    Raises OptionError for a zone that Arrow does not know.
    """
    if times.type.tz is not None:
        return times
    try:
        return pc.assume_timezone(times, time_zone, ambiguous="earliest", nonexistent="latest")
    except pa.ArrowInvalid as error:
        raise OptionError(
            f"column timestamp of type timestamp_ntz: expected a known time zone in {_SETTING}, found "
            f"{time_zone!r} ({error}); cast the column to timestamp"
        ) from None
