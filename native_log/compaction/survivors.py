"""Find the offsets that survive a round, within a memory limit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from native_log.compaction.rewrite import put_keys
from native_log.compaction.rounds import plan_round
from native_log.compaction.survey import OptimisticSurvey, Survey, UnexpectedTransactionError, survey_log
from native_log.errors import KafkaLogError
from native_log.records import OffsetMap

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from native_log.compaction.eligibility import CleanableRange
    from native_log.compaction.rounds import Round
    from native_log.config import LogConfig
    from native_log.log import PartitionLog
    from native_log.records import InputOptions, MapProgress, OffsetOrder, Survivors
    from native_log.records.compaction import PutBatches


def _ignore_progress(_: int) -> None:
    pass


def plan_and_find_survivors(
    log: PartitionLog,
    cleanable: CleanableRange,
    config: LogConfig,
    now_ms: int,
    max_bytes: int,
    on_bytes: Callable[[int], None] = _ignore_progress,
    *,
    max_maps: int | None = None,
) -> tuple[Round, Survivors, int]:
    """Plan the round over `log` and find the offsets that survive it.

    Most logs have no transactions, and their keys fit into one map. Then one pass reads both headers and
    keys. Otherwise the log is surveyed first, and read again for the keys.

    Args:
        max_bytes: the memory limit of a map.
        on_bytes: called with the number of bytes processed since the last call.
        max_maps: how many maps the keys may take; None: any number.

    Returns:
        The round, the offsets that survive, and the number of dirty records without a key.

    Raises:
        TooManyKeysError: the keys take more than `max_maps` maps.
        CorruptRecordError: a batch is damaged.
    """
    bases = [segment.base_offset for segment in log.segments]
    dirty, clean = OptimisticSurvey(), OptimisticSurvey()
    provisional = plan_round(log, cleanable, config, now_ms, Survey())
    try:
        result = _find_with_one_map(provisional, max_bytes, on_bytes, dirty, clean)
    except UnexpectedTransactionError:
        result = None
    if result is None:
        round = plan_round(log, cleanable, config, now_ms)
        return round, *find_survivors(round, max_bytes, on_bytes, max_maps=max_maps)
    survey = Survey()
    for part in (clean.survey, dirty.survey, survey_log(log, bases.index(cleanable.end_offset))):
        survey.extend(part)
    return plan_round(log, cleanable, config, now_ms, survey), *result


def find_survivors(
    round: Round,
    max_bytes: int,
    on_bytes: Callable[[int], None] = _ignore_progress,
    *,
    max_maps: int | None = None,
) -> tuple[Survivors, int]:
    """Find the offsets that survive the round.

    If the keys take more than `max_bytes`, several maps are filled in turn, each with the keys of a part of
    the dirty range. For each map the records before its part are read again, and those with a key in the map
    do not survive. (A broker compacts up to where its map is full, and compacts the rest in another round.
    The survivors are the same.)

    Args:
        max_bytes: the memory limit of a map.
        on_bytes: called with the number of bytes processed since the last call.
        max_maps: how many maps the keys may take; None: any number.

    Returns:
        The offsets that survive, and the number of dirty records without a key.

    Raises:
        TooManyKeysError: the keys take more than `max_maps` maps.
        KafkaLogError: one key takes more than `max_bytes`.
        CorruptRecordError: a batch is damaged.
    """
    survivors: Survivors | None = None
    null_keys, start, maps = 0, round.first_dirty_offset, 0
    while start < round.end_offset or survivors is None:
        if maps == max_maps:
            raise TooManyKeysError
        offsets, maps = OffsetMap(max_bytes), maps + 1
        dirty = put_keys(
            round.log_range(start, round.end_offset),
            round.aborted,
            _with_progress(offsets.put_batches, on_bytes),
        )
        end = round.end_offset if dirty.full_at is None else dirty.full_at
        if not len(offsets) and dirty.full_at is not None:
            raise KafkaLogError(
                f"one key takes more than the map's {max_bytes} bytes: raise log.cleaner.dedupe.buffer.size",
                path=round.source.path,
                offset=start,
            )
        newest = offsets.survivors()
        mark = _with_progress(partial(_mark, offsets, newest), on_bytes)
        put_keys(round.log_range(0, start), round.aborted, mark)
        if survivors is not None:  # below `start`, only offsets that survived the earlier maps survive
            newest = newest.difference(newest.between(0, start).difference(survivors))
        survivors, start = newest, end
        null_keys += dirty.null_keys
    return survivors, null_keys


class TooManyKeysError(Exception):
    """The keys of a round take more maps than allowed."""


def _find_with_one_map(
    round: Round,
    max_bytes: int,
    on_bytes: Callable[[int], None],
    dirty_survey: OptimisticSurvey,
    clean_survey: OptimisticSurvey,
) -> tuple[Survivors, int] | None:
    """Find the survivors as `find_survivors` does, and survey the headers in the same pass.

    Returns None if one map cannot hold all keys. Raises UnexpectedTransactionError.
    """
    offsets = OffsetMap(max_bytes)
    put = _with_progress(offsets.put_batches, on_bytes)
    start = round.first_dirty_offset
    dirty = put_keys(round.log_range(start, round.end_offset), b"", put, dirty_survey)
    if dirty.full_at is not None:
        return None
    survivors = offsets.survivors()
    mark = _with_progress(partial(_mark, offsets, survivors), on_bytes)
    put_keys(round.log_range(0, start), b"", mark, clean_survey)
    return survivors, dirty.null_keys


def _mark(
    offsets: OffsetMap, survivors: Survivors, buffer: Buffer, options: InputOptions, **position: Any
) -> MapProgress:
    return offsets.mark(buffer, survivors, options, **position)


def _with_progress(put: PutBatches, on_bytes: Callable[[int], None]) -> PutBatches:
    """Return `put`, extended to report the number of bytes it processed."""

    def put_and_report(
        buffer: Buffer, options: InputOptions, *, base_position: int, order: OffsetOrder | None
    ) -> MapProgress:
        progress = put(buffer, options, base_position=base_position, order=order)
        on_bytes(progress.position - base_position)
        return progress

    return put_and_report
