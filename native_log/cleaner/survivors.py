"""Which records of a round survive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from native_log.cleaner.checks import OffsetCheck
from native_log.cleaner.plan import plan_round
from native_log.cleaner.rewriting import gather
from native_log.cleaner.survey import Survey, survey
from native_log.errors import KafkaLogError
from native_log.log.producers.open_transactions import has_transactions
from native_log.records import OffsetMap

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from native_log.cleaner.eligibility import Cleanable
    from native_log.cleaner.plan import Round
    from native_log.config import LogConfig
    from native_log.log import PartitionLog
    from native_log.log.pieces import Piece
    from native_log.records import MapProgress
    from native_log.records.cleaning import PutBatches, Survivors


def _no_one(_: int) -> None:
    pass


def plan_and_find(
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
    headers = _Headers(log, found)
    plain = plan_round(log, found, config, now_ms, Survey())
    try:
        survivors, null_keys = _with_one_map(plain, max_bytes, advance, headers)
    except _NotPlain:
        round = plan_round(log, found, config, now_ms)
        return round, *find_survivors(round, max_bytes, advance, most_maps=most_maps)
    return plan_round(log, found, config, now_ms, headers.surveyed()), survivors, null_keys


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


class _NotPlain(Exception):  # noqa: N818 (no error)
    """A transaction was met, or the map is full."""


class _Headers:
    """What the headers of a round tell while its records are gathered, those of the dirty part first."""

    def __init__(self, log: PartitionLog, found: Cleanable) -> None:
        self._log = log
        bases = [segment.base_offset for segment in log.segments]
        self._end = bases.index(found.end_offset)
        self._following = dict(zip(bases, [*bases[1:], None], strict=True))
        self._segments = {segment.base_offset: segment for segment in log.segments}
        self._clean, self._dirty = Survey(), Survey()

    def of_dirty(self) -> Callable[[Piece, pa.RecordBatch], None]:
        return partial(self._apply, self._dirty, {})

    def of_clean(self) -> Callable[[Piece, pa.RecordBatch], None]:
        return partial(self._apply, self._clean, {})

    def _apply(
        self, into: Survey, checks: dict[int, OffsetCheck], piece: Piece, batches: pa.RecordBatch
    ) -> None:
        base = piece.base_offset
        if base not in checks:
            checks[base] = OffsetCheck(self._segments[base], self._following[base])
        checks[base].apply(batches)
        into.apply(batches)
        if has_transactions(batches):
            raise _NotPlain

    def surveyed(self) -> Survey:
        """Of the whole log."""
        whole = Survey()
        for part in (self._clean, self._dirty, survey(self._log, self._end)):
            whole.add(part)
        return whole


def _with_one_map(
    round: Round, max_bytes: int, advance: Callable[[int], None], headers: _Headers
) -> tuple[Survivors, int]:
    offsets = OffsetMap(max_bytes)
    put = _told(advance, offsets.put_batches)
    start = round.first_dirty_offset
    dirty = gather(round.part(start, round.end_offset), b"", put, headers.of_dirty())
    if dirty.full_at is not None:
        raise _NotPlain
    found = offsets.survivors()
    gather(round.part(0, start), b"", _told(advance, partial(_mark, offsets, found)), headers.of_clean())
    return found, dirty.null_keys


def _mark(offsets: OffsetMap, survivors: Survivors, buffer: memoryview, **where: Any) -> MapProgress:
    return offsets.mark(buffer, survivors, **where)


def _told(advance: Callable[[int], None], put: PutBatches) -> PutBatches:
    def call(buffer: memoryview, *, base_position: int, **where: Any) -> MapProgress:
        found = put(buffer, base_position=base_position, **where)
        advance(found.position - base_position)
        return found

    return call
