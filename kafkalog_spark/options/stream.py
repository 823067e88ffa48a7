"""Parse and validate the options of a streaming read (Spark: KafkaSourceProvider, KafkaMicroBatchStream)."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.raw import RawOptions
from kafkalog_spark.options.read import ENDING_OPTIONS, ReadOptions, parse_read_options
from kafkalog_spark.read.offsets import Latest
from native_log.java_numbers import parse_int

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger("kafkalog")

_UNIT_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a streaming read.

    Attributes:
        read: the options that streams share with batch reads.
        max_offsets: about how many offsets a trigger reads; None: no limit.
        min_offsets: how many new offsets a trigger waits for; None: it does not wait.
        max_delay_ms: how long a trigger waits for them.
        max_bytes: about how many bytes of logs a trigger reads; None: no limit.
        state_location: the folder for the offsets at which the query started; None: they are not kept.
    """

    read: ReadOptions
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    max_bytes: int | None
    state_location: str | None


def parse_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Parse the options of a streaming read. The case of names does not matter.

    Raises:
        OptionError: an option or a combination of options is invalid.
    """
    raw = RawOptions(options)
    for name in ENDING_OPTIONS:
        if raw.get(name) is None:
            continue
        if name != "endingTimestamp":
            raise OptionError(f"{name} is not supported in a stream, which has no end; remove it")
        logger.warning("endingTimestamp is ignored, as by Spark's kafka source: a stream has no end")
    view = raw.get("view") or "records"
    if view.lower() != "records":
        raise OptionError(f"view={view} cannot be read as a stream; use spark.read")
    if raw.get("remote") is not None and not raw.has_path:
        raise OptionError(
            "expected a log directory with remote, found none: new records are in log directories first"
        )
    read = parse_read_options(options, default_start=Latest())
    delay = raw.get("maxTriggerDelay")
    return StreamOptions(
        read,
        raw.long("maxOffsetsPerTrigger"),
        raw.long("minOffsetsPerTrigger"),
        _parse_duration_ms("maxTriggerDelay", "15m" if delay is None else delay),
        raw.size_bytes("maxBytesPerTrigger", 0) or None,
        raw.get("offsetStateLocation"),
    )


def _parse_duration_ms(name: str, text: str) -> int:
    """Parse a duration such as 500ms, 10s or 15m; without a unit in ms (Spark: JavaUtils.timeStringAs)."""
    match = re.fullmatch(r"(-?[0-9]+)([a-z]+)?", text.strip().lower())
    if match and (match[2] or "ms") in _UNIT_MS:
        try:
            return int(parse_int(match[1], 64) * _UNIT_MS[match[2] or "ms"])
        except ValueError:
            pass
    raise OptionError(f"{name}: expected a duration such as 500ms, 10s, 15m or 1h, found {text!r}")
