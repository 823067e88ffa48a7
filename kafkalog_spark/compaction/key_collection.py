"""Tasks that gather keys from splits, and what the headers tell on the way."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkalog_spark.cluster import row_batch, rows
from kafkalog_spark.compaction.exchange import PackWriter
from kafkalog_spark.compaction.messages import Part, PartSurvey, Split
from kafkalog_spark.errors import visibility_check
from native_log.compaction.rewrite import gather
from native_log.compaction.survey import PlainSurvey, TransactionMetError, survey
from native_log.errors import KafkaLogError
from native_log.records import KeyBuckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.compaction.exchange import Bundle
    from kafkalog_spark.compaction.messages import Settings
    from native_log.records import MapProgress


def gather_keys(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """Splits, and Parts -> Bundles by their number; for each also a PartSurvey, by number and
    place of the split or part.

    Keys take no more memory than log.cleaner.dedupe.buffer.size; a split that has more makes several of each
    bundle.
    """
    for asked in rows(batches):
        work: Split | Part = pickle.loads(asked.payload)  # noqa: S301 (the driver's own)
        bundles: list[tuple[int, Bundle]] = []
        try:
            if isinstance(work, Part):
                with visibility_check(work.directory.path):
                    told = PartSurvey(survey(work.directory.open(), work.first, work.end))
            else:
                with visibility_check(work.range.path):
                    told, bundles = _gathered(work, settings)
        except TransactionMetError:  # the split was cut as of a log without
            told = PartSurvey(has_transactions=True)
        except (KafkaLogError, OSError) as error:
            told = PartSurvey(error=str(error))
        yield row_batch(work.number, pickle.dumps(told), work.place)
        for number, bundle in bundles:
            yield row_batch(number, pickle.dumps(bundle))


def _gathered(split: Split, settings: Settings) -> tuple[PartSurvey, list[tuple[int, Bundle]]]:
    headers = None if split.aborted is not None else PlainSurvey()
    with PackWriter(None if settings.dry_run else split.range.path, split.buckets) as writer:
        keys = _Keys(split, settings.buffer_bytes, writer)
        gathered = gather(split.range, split.aborted or b"", keys.put, headers)
        keys.write()
    surveyed = None if headers is None else headers.survey
    return PartSurvey(surveyed, gathered.null_keys if split.is_dirty else 0), keys.bundles


class _Keys:
    """Those of a split. They are written where there is no room for more."""

    def __init__(self, split: Split, max_bytes: int, writer: PackWriter) -> None:
        self.bundles: list[tuple[int, Bundle]] = []
        self._split = split
        self._max_bytes = max_bytes
        self._writer = writer
        self._held = KeyBuckets(split.bundles * split.buckets, max_bytes, dirty=split.is_dirty)

    def put(
        self, buffer: memoryview, *, base_position: int, start_offset: int | None, **where: Any
    ) -> MapProgress:
        """As `KeyBuckets.put_batches`, but never "full"."""
        progress = self._held.put_batches(
            buffer, base_position=base_position, start_offset=start_offset, **where
        )
        while progress.status == "full":
            if not len(self._held):
                raise KafkaLogError(
                    f"one key takes more than {self._max_bytes} bytes: raise log.cleaner.dedupe.buffer.size",
                    path=self._split.range.path,
                    offset=start_offset if progress.next_offset is None else progress.next_offset,
                )
            self.write()
            rest = self._held.put_batches(
                buffer[progress.position - base_position :],
                base_position=progress.position,
                start_offset=start_offset if progress.next_offset is None else progress.next_offset,
                **where,
            )
            progress = _together(progress, rest)
        return progress

    def write(self) -> None:
        if len(self._held):
            self.bundles.extend(enumerate(self._writer.bundles(self._held.take()), self._split.first_bundle))


def _together(first: MapProgress, rest: MapProgress) -> MapProgress:
    next_offset = first.next_offset if rest.next_offset is None else rest.next_offset
    return replace(
        rest,
        next_offset=next_offset,
        records=first.records + rest.records,
        null_keys=first.null_keys + rest.null_keys,
    )
