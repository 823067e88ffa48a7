"""What a report is made of: plain values that were read from log directories.

Sizes are in bytes and times in epoch ms. Nothing here contains keys or values of records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Extent:
    """What to examine in addition to what each report examines.

    Attributes:
        batches: the headers of all batches; otherwise those of samples.
        verification: all batches, records, indexes and snapshots are checked.
        compaction: a dry run of compaction.
        retention: a dry run of retention.
    """

    batches: bool = False
    verification: bool = False
    compaction: bool = False
    retention: bool = False


@dataclass(frozen=True, slots=True)
class DirectoryFigures:
    """A log directory.

    Attributes:
        lock_holder: the pid of the process that uses the directory; 0: unknown; None: no process uses it.
        has_interrupted_write: whether a commit of a Spark job was interrupted.
        set_aside: number and size of the directories of other kinds (`delete`, `stray`, `future`), by kind.
    """

    path: str
    cluster_id: str | None
    node_id: int | None
    clean_shutdown: bool
    lock_holder: int | None
    has_interrupted_write: bool
    set_aside: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without a marker.

    Attributes:
        first_offset: the offset of its first record.
        started_ms: the time of its first batch; None: unknown.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    started_ms: int | None


@dataclass(frozen=True, slots=True)
class CodecFigures:
    """The batches of one codec.

    Attributes:
        batches, stored_bytes: the number of examined batches, and their size.
        decoded_bytes: the size of keys, values and headers in the batches that were decoded; None: none were.
        decoded_stored_bytes: the size of those batches as stored.
    """

    batches: int = 0
    stored_bytes: int = 0
    decoded_bytes: int = 0
    decoded_stored_bytes: int = 0

    def __add__(self, other: CodecFigures) -> CodecFigures:
        return CodecFigures(
            self.batches + other.batches,
            self.stored_bytes + other.stored_bytes,
            self.decoded_bytes + other.decoded_bytes,
            self.decoded_stored_bytes + other.decoded_stored_bytes,
        )

    @property
    def ratio(self) -> float | None:
        """Bytes of keys, values and headers for each byte stored; None if no batch was decoded."""
        return self.decoded_bytes / self.decoded_stored_bytes if self.decoded_stored_bytes else None


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """A partition whose log could be opened.

    Attributes:
        log_start_offset: the first offset of the log; it may be in tiered storage.
        local_log_start_offset: the first offset in local segments.
        high_watermark: the checkpointed one; None: no entry.
        lag_end_offset: where the lag of groups ends: see LogDir.lag_end_offset.
        first_timestamp_ms, last_timestamp_ms: of its first batch and of its last one; None: unknown.
        segment_sizes: the size of each segment, in the order of their offsets. The last one is the active
            segment.
        segment_times_ms: the largest timestamp of the records of each segment; None: unknown.
        remote_segments, remote_bytes: number and size of the segments that are read from remote storage.
        unread_indexes: the number of segments whose time index was not read. They have the time of the next
            segment.
        policy: its cleanup.policy; None: unknown.
        is_compacted: whether `kafkalog compact` compacts it without being asked by name.
        dirty_ratio: None if it is not compacted.
        is_cleanable: whether a broker would compact it now.
        cleanable_since_ms: the last timestamp of its oldest segment with dirty records; None: unknown, or
            there is none that can be compacted.
        missing_start, missing_end, missing_segments: see LocalLog.
        open_transactions: None if they were not searched for.
        codecs: by codec, from the headers of all batches; None if they were not read.
        damaged_ranges: the number of byte ranges without valid headers; None if headers were not read.
    """

    topic: str
    partition: int
    log_dir: str
    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    lag_end_offset: int
    size_bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    segment_sizes: tuple[int, ...]
    segment_times_ms: tuple[int | None, ...]
    remote_segments: int = 0
    remote_bytes: int = 0
    unread_indexes: int = 0
    policy: str | None = None
    is_compacted: bool = False
    dirty_ratio: float | None = None
    is_cleanable: bool = False
    cleanable_since_ms: int | None = None
    missing_start: str | None = None
    missing_end: str | None = None
    missing_segments: str | None = None
    open_transactions: tuple[OpenTransaction, ...] | None = None
    codecs: Mapping[str, CodecFigures] | None = None
    damaged_ranges: int | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def offsets(self) -> int:
        """The number of offsets in the segments that are read: at least the number of records."""
        return self.log_end_offset - self.local_log_start_offset

    @property
    def known_times_ms(self) -> list[int]:
        """The known times of the first batch, the last batch and the segments."""
        times = (self.first_timestamp_ms, self.last_timestamp_ms, *self.segment_times_ms)
        return [time for time in times if time is not None]


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """One of several copies of a partition.

    Attributes:
        high_watermark: the checkpointed one; None: no entry.
        leader_epoch: the last one; -1: batches have none.
        is_leading: whether it is the leading copy.
        is_read: whether the figures of the partition are from this copy.
        problems: how many `verify` found; None: the logs were not verified.
    """

    name: str
    log_dir: str
    log_end_offset: int
    high_watermark: int | None
    leader_epoch: int
    size_bytes: int
    is_leading: bool
    is_read: bool
    problems: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A partition, or a part of the report, that could not be read, and why."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A group, and how far it is behind the logs in these directories.

    Attributes:
        type: "classic", "consumer", "share" or "streams"; None: unknown.
        partitions: the number of partitions with an offset: a committed one, or the start offset of a share
            group.
        known: the number of those whose logs are in the directories.
        lag: the sum of their positive lags, in offsets.
        largest_lag: the largest lag of a partition, and its name.
        below_start: the number of offsets below the start of their log: those records are lost to the group.
        beyond_end: the number of offsets above the end of their log.
        expired: the number of commits that a broker would delete.
        last_commit_ms: the time of the newest commit, or of the newest state of a share group; None: unknown.
    """

    name: str
    type: str | None = None
    state: str | None = None
    members: int = 0
    partitions: int = 0
    known: int = 0
    lag: int = 0
    largest_lag: tuple[int, str] | None = None
    below_start: int = 0
    beyond_end: int = 0
    expired: int = 0
    last_commit_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """A transactional id whose transaction has not ended, from __transaction_state."""

    name: str
    producer_id: int
    state: str
    started_ms: int | None
    timeout_ms: int
    partitions: int


@dataclass(frozen=True, slots=True)
class CoordinatorFigures:
    """What internal topics say.

    Attributes:
        groups: from __consumer_offsets and __share_group_state; None if neither was read.
        transactional_ids: those whose transaction has not ended, from __transaction_state; None if they were
            not read.
        undecodable: the number of records that cannot be decoded.
        unread: why a topic was not read, by its name.
    """

    groups: tuple[GroupFigures, ...] | None = None
    transactional_ids: tuple[TransactionalId, ...] | None = None
    undecodable: int = 0
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """The problems of one kind that `verify` found.

    Attributes:
        examples: the first ones, in words.
    """

    kind: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompactionFigures:
    """What the dry run of a compaction says about the partitions of one topic.

    Attributes:
        partitions: the partitions that would be rewritten.
        bytes_before, bytes_after: the size of the rewritten segments before and after (approximate).
        tombstones: the tombstones in them now.
        null_keys: records without a key, which a compaction removes.
        failed: the partitions that cannot be compacted, and why.
    """

    topic: str
    partitions: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    tombstones: int = 0
    null_keys: int = 0
    failed: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class RetentionFigures:
    """What the dry run of retention says about one topic.

    Attributes:
        partitions, segments, size_bytes: what would be deleted.
        rules: the rules that would delete it, as in RETENTION_SCHEMA.
        kept_by: the rule that keeps size and time from deleting anything, as in RETENTION_SCHEMA; None: the
            topic's settings decide.
        failed: the partitions that cannot be examined, and why.
    """

    topic: str
    partitions: int = 0
    segments: int = 0
    size_bytes: int = 0
    rules: frozenset[str] = frozenset()
    kept_by: str | None = None
    failed: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class CodecSamples:
    """The codecs in samples of the data.

    Attributes:
        codecs: by topic and codec.
        bytes_read: the size of all samples.
        topics_left_out: the number of topics that were not sampled because there are too many.
    """

    codecs: Mapping[tuple[str, str], CodecFigures]
    bytes_read: int
    topics_left_out: int


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """Everything that a report shows.

    Attributes:
        created_ms: the time of the report.
        metadata_unreadable: why the cluster's metadata cannot be read; None if it was read, or is not there.
        problems: by kind; None if the logs were not verified.
        compaction, retention: by topic; None if there was no dry run.
        copies: of partitions that several directories contain.
    """

    created_ms: int
    extent: Extent
    directories: tuple[DirectoryFigures, ...]
    partitions: tuple[PartitionFigures, ...]
    failures: tuple[Failure, ...]
    coordinators: CoordinatorFigures
    samples: CodecSamples
    metadata_unreadable: str | None = None
    problems: tuple[ProblemKind, ...] | None = None
    compaction: tuple[CompactionFigures, ...] | None = None
    retention: tuple[RetentionFigures, ...] | None = None
    copies: tuple[CopyFigures, ...] = ()
