"""Tasks that collect the keys of splits, and survey headers in the same pass."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalog_spark.cluster import row_batch, rows
from kafkalog_spark.compaction.exchange import PackWriter
from kafkalog_spark.compaction.messages import CollectionReport, KeySplit, SurveyPart
from kafkalog_spark.errors import visibility_check
from native_log.compaction.rewrite import put_keys
from native_log.compaction.survey import OptimisticSurvey, UnexpectedTransactionError, survey_log
from native_log.errors import KafkaLogError
from native_log.log import PartitionLog
from native_log.records import KeyBuckets

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from typing_extensions import Buffer

    from kafkalog_spark.compaction.exchange import Bundle
    from kafkalog_spark.compaction.messages import RunSettings
    from native_log.records import InputOptions, MapProgress, OffsetOrder


def collect_keys(batches: Iterator[pa.RecordBatch], settings: RunSettings) -> Iterator[pa.RecordBatch]:
    """Collect the keys of the KeySplits in the rows, and survey the SurveyParts.

    Yields a CollectionReport for each of them, in the row with its `row_number` and `row_part`, and the
    Bundles of the splits, numbered through all rounds of the run.

    The keys take no more memory than log.cleaner.dedupe.buffer.size. A split with more keys yields several
    bundles with the same number.
    """
    for row in rows(batches):
        work: KeySplit | SurveyPart = pickle.loads(row.payload)  # noqa: S301 (written by the driver)
        bundles: list[tuple[int, Bundle]] = []
        try:
            if isinstance(work, SurveyPart):
                with visibility_check(work.directory.path):
                    report = CollectionReport(
                        survey_log(PartitionLog(work.directory.open()), work.first, work.end)
                    )
            else:
                with visibility_check(work.range.path):
                    report, bundles = _collect_split(work, settings)
        except UnexpectedTransactionError:
            report = CollectionReport(has_transactions=True)
        except (KafkaLogError, OSError) as error:
            report = CollectionReport(error=str(error))
        yield row_batch(work.row_number, pickle.dumps(report), work.row_part)
        for number, bundle in bundles:
            yield row_batch(number, pickle.dumps(bundle))


def _collect_split(
    split: KeySplit, settings: RunSettings
) -> tuple[CollectionReport, list[tuple[int, Bundle]]]:
    """Return the report, and the bundles with their numbers."""
    headers = None if split.aborted is not None else OptimisticSurvey()
    with PackWriter(None if settings.dry_run else split.range.path, split.buckets) as writer:
        collector = _KeyCollector(split, settings.buffer_bytes, writer)
        gathered = put_keys(split.range, split.aborted or b"", collector.put, headers)
        collector.write()
    survey = None if headers is None else headers.survey
    return CollectionReport(survey, gathered.null_keys if split.is_dirty else 0), collector.bundles


class _KeyCollector:
    """Holds keys of a split in memory, and writes them as bundles when the memory is full.

    Attributes:
        bundles: the bundles written so far, with their numbers.
    """

    def __init__(self, split: KeySplit, max_bytes: int, writer: PackWriter) -> None:
        self.bundles: list[tuple[int, Bundle]] = []
        self._split = split
        self._max_bytes = max_bytes
        self._writer = writer
        self._keys = KeyBuckets(split.bundles * split.buckets, max_bytes, dirty=split.is_dirty)

    def put(
        self, buffer: Buffer, options: InputOptions, *, base_position: int, order: OffsetOrder | None
    ) -> MapProgress:
        """Do the same as `KeyBuckets.put_batches`, but write the keys out instead of becoming "full"."""
        progress = self._keys.put_batches(buffer, options, base_position=base_position, order=order)
        start_offset = options.start_offset
        while progress.status == "full":
            next_offset = start_offset if progress.next_offset is None else progress.next_offset
            if not len(self._keys):
                raise KafkaLogError(
                    f"one key takes more than {self._max_bytes} bytes: raise log.cleaner.dedupe.buffer.size",
                    path=self._split.range.path,
                    offset=next_offset,
                )
            self.write()
            rest = self._keys.put_batches(
                memoryview(buffer)[progress.position - base_position :],
                replace(options, start_offset=next_offset),
                base_position=progress.position,
                order=order,
            )
            progress = _add_progress(progress, rest)
        return progress

    def write(self) -> None:
        """Write the keys in memory as bundles."""
        if len(self._keys):
            self.bundles.extend(enumerate(self._writer.write(self._keys.take()), self._split.first_bundle))


def _add_progress(first: MapProgress, rest: MapProgress) -> MapProgress:
    """Return the progress of two calls. The second one continued the first."""
    return replace(
        rest,
        next_offset=first.next_offset if rest.next_offset is None else rest.next_offset,
        records=first.records + rest.records,
        null_keys=first.null_keys + rest.null_keys,
    )
