"""Tasks that rewrite: a group of segments each, with the offsets that survive in it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_spark.compaction.looking import staging
from kafkalog_spark.compaction.values import Staged
from kafkalog_spark.spreading import row, rows
from native_log.cleaner.rewriting import rewrite_group
from native_log.cleaner.statistics import GroupStatistics
from native_log.errors import KafkaLogError
from native_log.records import Survivors
from native_log.segment.files import CLEANED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafkalog_spark.compaction.values import Note, Settings
    from native_log.cleaner.plan import Round

_UNITED_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class GroupResult:
    stats: GroupStatistics
    staged: Staged | None
    null_keys: int
    error: str | None


@dataclass(slots=True)
class _Group:
    """What has come for a group so far."""

    round: Round | None = None
    found: list[Survivors] = field(default_factory=list)
    null_keys: int = 0
    error: str | None = None

    def take(self, part: int, payload: memoryview | None, note: memoryview | None) -> None:
        if note is not None:
            noted: Note = pickle.loads(note)  # noqa: S301 (of our own tasks)
            self.null_keys += noted.null_keys
            self.error = self.error or noted.error
        if payload is not None and part == 0:
            self.round = pickle.loads(payload)  # noqa: S301 (the driver's own)
        elif payload is not None:
            self.found.append(Survivors.from_bytes(payload))
            if len(self.found) >= _UNITED_AT_ONCE:
                self.found = [self.survivors()]

    def survivors(self) -> Survivors:
        return self.found[0].union(*self.found[1:]) if self.found else Survivors()

    def rewritten(self, settings: Settings) -> GroupResult:
        assert self.round is not None
        if self.error is not None:
            return GroupResult(GroupStatistics(), None, self.null_keys, self.error)
        (group,) = self.round.groups
        try:
            attempt = staging(self.round.path, settings)
            stats = rewrite_group(
                self.round, group, self.survivors(), self.round.end_offset, attempt, CLEANED
            )
        except (KafkaLogError, OSError) as error:
            return GroupResult(GroupStatistics(), None, self.null_keys, str(error))
        staged = None if attempt is None else Staged(group, attempt.name)
        return GroupResult(stats, staged, self.null_keys, None)


def rewrite_groups(batches: Iterator[pa.RecordBatch], settings: Settings) -> Iterator[pa.RecordBatch]:
    """By number of group, its round with that group alone (part 0) and its survivors (the other parts), all
    in one task -> a GroupResult each."""
    groups: dict[int, _Group] = {}
    for number, part, payload, note in rows(batches):
        groups.setdefault(number, _Group()).take(part, payload, note)
    while groups:
        number, group = groups.popitem()
        yield row(number, pickle.dumps(group.rewritten(settings)))
