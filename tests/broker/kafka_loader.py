"""Load log directories with Kafka's own classes, in a JVM (see LogLoader.java)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.jvm import Jvm, compile_java
from tests.class_sharing import OPTIONS

SOURCE = Path(__file__).parent / "LogLoader.java"


@dataclass(frozen=True)
class LoadedLog:
    """What Kafka makes of a log, unless it rejects it.

    Attributes:
        start_offset, end_offset: of the log.
        base_offsets: of its segments.
        epochs: (epoch, start offset).
        offsets: of the records that a consumer gets.
        consumer_error: what stops the consumer before the end; None if nothing does.
    """

    start_offset: int
    end_offset: int
    base_offsets: list[int]
    epochs: list[tuple[int, int]]
    offsets: list[int]
    consumer_error: str | None


class LoadError(Exception):
    """Kafka rejects the log."""


class KafkaLoader:
    """A JVM that loads log directories as a broker does when it starts, and closes them again."""

    def __init__(self, directory: Path) -> None:
        """Compile the loader into `directory` and start it."""
        options = [*OPTIONS, "-Xmx512m", "-Dlog.level=off"]
        self._jvm = Jvm(compile_java([SOURCE], directory), "LogLoader", options=options)

    def load(self, log_dir: Path, index_interval_bytes: int) -> LoadedLog:
        """Load the log and change its files as a broker does. Raises LoadError."""
        config = {"index.interval.bytes": index_interval_bytes, "segment.index.bytes": 1 << 20}
        answer: dict[str, Any] = json.loads(
            self._jvm.ask(json.dumps({"path": str(log_dir), "config": config}))
        )
        if "error" in answer:
            raise LoadError(answer["error"])
        return LoadedLog(
            answer["start"],
            answer["end"],
            answer["segments"],
            [(epoch, offset) for epoch, offset in answer["epochs"]],
            answer["offsets"],
            answer.get("stopped"),
        )

    def close(self) -> None:
        self._jvm.close()
