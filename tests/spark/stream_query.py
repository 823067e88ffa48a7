"""Run a streaming reader as Spark runs it (MicroBatchExecution), without Spark."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kafkalog_spark import KafkaLogDataSource
from kafkalog_spark.read import stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

LOCATION = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)


class Clock:
    """The time that readers see, in ms."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 1_700_000_000_000
        monkeypatch.setattr(stream, "current_ms", lambda: self.now_ms)


@dataclass
class MicroBatch:
    """A micro-batch: its offsets as JSON text, and what each task read, by topic and partition.

    That is the last column of the schema of the query: offsets by default.
    """

    start: str | None
    end: str
    tasks: list[dict[tuple[str, int], list[Any]]]

    @property
    def rows(self) -> dict[tuple[str, int], list[Any]]:
        rows: dict[tuple[str, int], list[Any]] = defaultdict(list)
        for task in self.tasks:
            for key, read in task.items():
                rows[key] += read
        return dict(rows)


@dataclass
class Checkpoint:
    """The offsets and commits that Spark keeps of a query."""

    offsets: list[str] = field(default_factory=list)
    commits: int = 0


class StreamQuery:
    """One run of a query. The next run continues from the same checkpoint.

    Attributes:
        before_tasks: called after a micro-batch was planned.
    """

    def __init__(
        self, checkpoint: Checkpoint | None = None, *, schema: StructType = LOCATION, **options: str
    ) -> None:
        source = KafkaLogDataSource(CaseInsensitiveDict(options))
        self.schema = source.schema()
        source = pickle.loads(pickle.dumps(source))
        self.reader = source.streamReader(schema)
        # A task gets a copy of another reader.
        self._task_reader = pickle.loads(pickle.dumps(source.streamReader(schema)))
        self.checkpoint = checkpoint or Checkpoint()
        self.before_tasks: Callable[[], object] = lambda: None

    def trigger(self, *, once: bool = False) -> MicroBatch | None:
        """Run one trigger. Return its micro-batch; None if there is nothing new."""
        batch = self.plan(once=once)
        if batch is not None:
            self.checkpoint.commits += 1
        return batch

    def plan(self, *, once: bool = False) -> MicroBatch | None:
        """Run a micro-batch, but do not commit it."""
        return self._run(len(self.checkpoint.offsets) - 1) if self.log_offsets(once=once) else None

    def log_offsets(self, *, once: bool = False) -> bool:
        """Write the offsets of the next micro-batch to the checkpoint. Return whether there is one to run."""
        offsets = self.checkpoint.offsets
        if self.checkpoint.commits < len(offsets):
            return True  # it was not committed: it is run again
        if offsets:
            start = offsets[-1]
            self.reader.commit(json.loads(start))
        else:
            start = json.dumps(self.reader.initialOffset())
        end = json.dumps(self.reader.latestOffset(json.loads(start), self._limit(once)))
        self.reader.reportLatestOffset()
        if offsets and end == start:
            return False
        offsets.append(end)
        return True

    def available_now(self) -> Iterator[MicroBatch]:
        """Run with Trigger.AvailableNow."""
        self.reader.prepareForTriggerAvailableNow()
        while (batch := self.trigger()) is not None:
            yield batch

    def _limit(self, once: bool) -> Any:
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        return ReadAllAvailable() if once else self.reader.getDefaultReadLimit()

    def _run(self, number: int) -> MicroBatch:
        offsets = self.checkpoint.offsets
        start = offsets[number - 1] if number else json.dumps(self.reader.initialOffset())
        splits = self.reader.partitions(json.loads(start), json.loads(offsets[number]))
        self.before_tasks()
        tasks = []
        for split in pickle.loads(pickle.dumps(splits)):
            tasks.append(defaultdict(list))
            for batch in self._task_reader.read(split):
                for topic, partition, read in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    tasks[-1][topic, partition].append(read)
        return MicroBatch(start if number else None, offsets[number], [dict(task) for task in tasks])
