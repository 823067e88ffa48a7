"""Which records of a round survive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from native_log.compaction.rewrite import gather
from native_log.compaction.rounds import plan_round
from native_log.compaction.survey import PlainSurvey, Survey, TransactionMetError, survey
from native_log.errors import KafkaLogError
from native_log.records import OffsetMap

if TYPE_CHECKING:
    from collections.abc import Callable

    from native_log.compaction.eligibility import Cleanable
    from native_log.compaction.rounds import Round
    from native_log.config import LogConfig
    from native_log.log import PartitionLog
    from native_log.records import MapProgress
    from native_log.records.compaction import PutBatches, Survivors


def _no_one(_: int) -> None:
    pass


def plan_and_find_survivors(
    log: PartitionLog,
    found: Cleanable,
    config: LogConfig,
    now_ms: int,
    max_bytes: int,
    advance: Callable[[int], None] = _no_one,
    *,
    most_maps: int | None = None,
) -> tuple[Round, Survivors, int]:
    """The round over `log`, the offsets that survive in it, and how many dirty records have no key.

    As a rule there are no transactions, and one map has room: then one pass tells both. Where not, the log is
    surveyed first. Raises TooManyKeysError: they take more than `most_maps`.
    """
    bases = [segment.base_offset for segment in log.segments]
    dirty, clean = PlainSurvey(), PlainSurvey()
    plain = plan_round(log, found, config, now_ms, Survey())
    try:
        with_one_map = _with_one_map(plain, max_bytes, advance, dirty, clean)
    except TransactionMetError:
        with_one_map = None
    if with_one_map is None:
        round = plan_round(log, found, config, now_ms)
        return round, *find_survivors(round, max_bytes, advance, most_maps=most_maps)
    whole = Survey()
    for part in (clean.survey, dirty.survey, survey(log, bases.index(found.end_offset))):
        whole.add(part)
    return plan_round(log, found, config, now_ms, whole), *with_one_map


def find_survivors(
    round: Round,
    max_bytes: int,
    advance: Callable[[int], None] = _no_one,
    *,
    most_maps: int | None = None,
) -> tuple[Survivors, int]:
    """The offsets that survive, and how many dirty records have no key.

    Where the keys take more than `max_bytes`, one map after the other takes a part of the dirty records each;
    what survived before is passed over again, and what a later map shadows goes. (A broker cleans that far,
    rewrites, and goes on in another round: to the same survivors.)

    Args:
        advance: told the bytes gone over.

    Raises:
        TooManyKeysError: they take more than `most_maps`.
    """
    survivors: Survivors | None = None
    null_keys, start, maps = 0, round.first_dirty_offset, 0
    while start < round.end_offset or survivors is None:
        if maps == most_maps:
            raise TooManyKeysError
        offsets, maps = OffsetMap(max_bytes), maps + 1
        dirty = gather(
            round.part(start, round.end_offset), round.aborted, _told(advance, offsets.put_batches)
        )
        end = round.end_offset if dirty.full_at is None else dirty.full_at
        if not len(offsets) and dirty.full_at is not None:
            raise KafkaLogError(
                f"one key takes more than the map's {max_bytes} bytes: raise log.cleaner.dedupe.buffer.size",
                path=round.path,
                offset=start,
            )
        found = offsets.survivors()
        gather(round.part(0, start), round.aborted, _told(advance, partial(_mark, offsets, found)))
        if survivors is not None:  # below `start` only what survived the maps before
            found = found.difference(found.between(0, start).difference(survivors))
        survivors, start = found, end
        null_keys += dirty.null_keys
    return survivors, null_keys


class TooManyKeysError(Exception):
    """For as many maps as are allowed."""


def _with_one_map(
    round: Round, max_bytes: int, advance: Callable[[int], None], dirty: PlainSurvey, clean: PlainSurvey
) -> tuple[Survivors, int] | None:
    """None: it has no room for all keys. Raises TransactionMetError."""
    offsets = OffsetMap(max_bytes)
    put = _told(advance, offsets.put_batches)
    start = round.first_dirty_offset
    gathered = gather(round.part(start, round.end_offset), b"", put, dirty)
    if gathered.full_at is not None:
        return None
    found = offsets.survivors()
    gather(round.part(0, start), b"", _told(advance, partial(_mark, offsets, found)), clean)
    return found, gathered.null_keys


def _mark(offsets: OffsetMap, survivors: Survivors, buffer: memoryview, **where: Any) -> MapProgress:
    return offsets.mark(buffer, survivors, **where)


def _told(advance: Callable[[int], None], put: PutBatches) -> PutBatches:
    def call(buffer: memoryview, *, base_position: int, **where: Any) -> MapProgress:
        found = put(buffer, base_position=base_position, **where)
        advance(found.position - base_position)
        return found

    return call
