"""Decide what in a report needs attention. These functions are pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from native_log.reporting.summaries import by_topic, is_future
from native_log.reporting.text import count, duration, number, time
from native_log.sizes import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from native_log.reporting.figures import PartitionFigures, ReportFigures

Severity = Literal["error", "warning", "note"]

EXAMPLES = 5
"""How many partitions, groups or problems a finding names."""
HANGING_MS = 15 * 60_000
"""Brokers abort a transaction after transaction.max.timeout.ms at the latest, by default 15 minutes."""
STALE_MS = 86_400_000
"""Dirty records that are this much older than the newest record of the directories should be compacted."""
SKEW = 3.0
"""A topic is skewed if its largest partition has this many times the mean size of its partitions."""
SKEW_BYTES = 100 << 20
"""Smaller partitions are not worth a finding."""

_ORDER = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that an operator should know.

    Attributes:
        severity: "error": data is damaged, lost or unreadable. "warning": something is likely wrong, or will
            be. "note": good to know.
        title: what was found.
        advice: what it means and what to do.
        examples: the first places where it was found.
        more: the number of other places.
    """

    severity: Severity
    title: str
    advice: str
    examples: tuple[str, ...] = ()
    more: int = 0


def decide_findings(figures: ReportFigures) -> list[Finding]:
    """Return the findings, the most severe first."""
    findings = [
        *_unreadable(figures),
        *_problems(figures),
        *_log_ends(figures),
        *_directories_in_use(figures),
        *_unclean_shutdowns(figures),
        *_unfinished_writes(figures),
        *_several_clusters(figures),
        *_set_aside(figures),
        *_timestamps(figures),
        *_compaction(figures),
        *_retention(figures),
        *_transactions(figures),
        *_groups(figures),
        *_skew(figures),
    ]
    return sorted(findings, key=lambda finding: _ORDER.index(finding.severity))


def _finding(severity: Severity, title: str, advice: str, places: Iterable[str] = ()) -> Finding:
    all_places = list(places)
    return Finding(
        severity,
        title,
        advice,
        tuple(all_places[:EXAMPLES]),
        max(0, len(all_places) - EXAMPLES),
    )


def _unreadable(figures: ReportFigures) -> Iterator[Finding]:
    if figures.failures:
        yield _finding(
            "error",
            f"{count(len(figures.failures), 'partition')} cannot be opened",
            "They are missing from all figures below. Make the files readable, or take them from another "
            "replica.",
            (f"{failure.name}: {failure.message}" for failure in figures.failures),
        )
    if figures.metadata_unreadable is not None:
        yield _finding(
            "warning",
            "The cluster's metadata cannot be read",
            "The configurations of topics are unknown. So policies and dirty ratios are missing, or "
            "inferred from the checkpoint of the log cleaner.",
            [figures.metadata_unreadable],
        )
    if figures.coordinators.undecodable:
        yield _finding(
            "warning",
            f"{count(figures.coordinators.undecodable, 'record')} of internal topics cannot be decoded",
            "They are damaged, or a newer version of Kafka wrote them. Groups and transactional ids below "
            "may be incomplete. kafkalog groups lists such records of __consumer_offsets and "
            "__share_group_state.",
        )


def _problems(figures: ReportFigures) -> Iterator[Finding]:
    for kind in figures.problems or ():
        yield Finding(
            "error",
            f"{count(kind.count, 'problem')} of kind {kind.kind}",
            "kafkalog verify prints each one with advice.",
            tuple(kind.examples[:EXAMPLES]),
            kind.count - len(kind.examples[:EXAMPLES]),
        )
    damaged = [partition for partition in figures.partitions if partition.damaged_ranges]
    if damaged and figures.problems is None:
        yield _finding(
            "error",
            f"{count(len(damaged), 'partition')} with damaged batches",
            "Some bytes are not valid batches. kafkalog verify shows where, and what to do.",
            (f"{partition.name}: {count(partition.damaged_ranges or 0, 'range')}" for partition in damaged),
        )


def _log_ends(figures: ReportFigures) -> Iterator[Finding]:
    ended = [partition for partition in figures.partitions if partition.missing_end]
    if ended and figures.problems is None:  # verification reports each of them
        yield _finding(
            "warning",
            f"{count(len(ended), 'log')} with a damaged or missing end",
            "A crash can leave an incomplete last batch. kafkalog recover truncates it, as a broker does "
            "when it starts. A log that ends before its high watermark has lost records: copy them from "
            "another replica.",
            (f"{partition.name}: {partition.missing_end}" for partition in ended),
        )
    incomplete = [partition for partition in figures.partitions if partition.missing_segments]
    if incomplete and figures.problems is None:  # so are these
        yield _finding(
            "error",
            f"{count(len(incomplete), 'log')} without some of their segments",
            "Indexes are there, but not their .log files. Consumers skip the offsets without an error. Copy "
            "the segments from another replica.",
            (f"{partition.name}: {partition.missing_segments}" for partition in incomplete),
        )
    started = [partition for partition in figures.partitions if partition.missing_start]
    if started:
        yield _finding(
            "note",
            f"{count(len(started), 'log')} without their first records",
            "If the topics use tiered storage, these records are in it. Otherwise they are lost in this "
            "copy.",
            (f"{partition.name}: {partition.missing_start}" for partition in started),
        )


def _directories_in_use(figures: ReportFigures) -> Iterator[Finding]:
    used = [directory for directory in figures.directories if directory.lock_holder is not None]
    if used:
        yield _finding(
            "note",
            f"{_directories_text(len(used))} in use",
            "A process, most likely a broker, may have changed files while they were read. So the figures "
            "on this page may not agree with each other.",
            (
                directory.path + (f" (process {directory.lock_holder})" if directory.lock_holder else "")
                for directory in used
            ),
        )


def _unclean_shutdowns(figures: ReportFigures) -> Iterator[Finding]:
    unclean = [
        directory
        for directory in figures.directories
        if not directory.clean_shutdown and directory.lock_holder is None and directory.node_id is not None
    ]
    if unclean:
        yield _finding(
            "warning",
            f"{_directories_text(len(unclean))} not shut down cleanly",
            "The broker crashed, or the files were copied while it ran. A broker recovers such logs when it "
            "starts. kafkalog recover does the same, and --dry-run shows what it would truncate.",
            (directory.path for directory in unclean),
        )


def _unfinished_writes(figures: ReportFigures) -> Iterator[Finding]:
    unfinished = [directory for directory in figures.directories if directory.has_interrupted_write]
    if unfinished and figures.problems is None:  # otherwise it is one of the problems
        yield _finding(
            "warning",
            f"{_directories_text(len(unfinished))} with an unfinished write",
            "A Spark job was interrupted during its commit. Its records are not visible, and the next writer "
            "removes them.",
            (directory.path for directory in unfinished),
        )


def _several_clusters(figures: ReportFigures) -> Iterator[Finding]:
    clusters = sorted({directory.cluster_id for directory in figures.directories if directory.cluster_id})
    if len(clusters) > 1:
        yield _finding(
            "warning",
            f"The directories belong to {len(clusters)} clusters",
            "Partitions with the same name are treated as copies, and only one of them is read. Make a "
            "report for each cluster.",
            clusters,
        )


def _set_aside(figures: ReportFigures) -> Iterator[Finding]:
    set_aside = [
        (directory.path, kind, directories, size_bytes)
        for directory in figures.directories
        for kind, (directories, size_bytes) in sorted(directory.set_aside.items())
    ]
    if set_aside:
        total = sum(size_bytes for *_, size_bytes in set_aside)
        yield _finding(
            "note",
            f"{format_size(total)} in partition directories that are set aside",
            "delete: the partition was deleted, and a broker removes the directory. stray: the partition "
            "is not assigned to this broker; check before you remove the directory. future: an incomplete "
            "copy that a broker moves to another log directory. None of them is in the figures below.",
            (
                f"{path}: {count(directories, f'{kind} directory', f'{kind} directories')}, "
                f"{format_size(size_bytes)}"
                for path, kind, directories, size_bytes in set_aside
            ),
        )


def _directories_text(value: int) -> str:
    return count(value, "log directory", "log directories")


def _timestamps(figures: ReportFigures) -> Iterator[Finding]:
    latest = {partition.name: max(partition.known_times_ms, default=None) for partition in figures.partitions}
    future = {name: last for name, last in latest.items() if is_future(last, figures.created_ms)}
    if future:
        yield _finding(
            "warning",
            f"{count(len(future), 'partition')} with timestamps in the future",
            "A producer's clock was wrong, or its times are not in milliseconds. Retention by time keeps "
            "these segments, and all later ones, at least until then.",
            (f"{name}: {time(last)}" for name, last in future.items()),
        )


def _compaction(figures: ReportFigures) -> Iterator[Finding]:
    newest = newest_time_ms(figures)
    behind = [
        partition
        for partition in figures.partitions
        if partition.is_cleanable
        and newest is not None
        and partition.cleanable_since_ms is not None
        and newest - partition.cleanable_since_ms > STALE_MS
    ]
    if behind:
        yield _finding(
            "warning",
            f"{count(len(behind), 'compacted partition')} not compacted for more than a day",
            "Their dirty ratios are above min.cleanable.dirty.ratio, and the oldest dirty segment is more "
            "than a day older than the newest record. The log cleaner may have stopped: look for its "
            "errors in the broker's log. kafkalog compact compacts them without a broker.",
            (
                f"{partition.name}: dirty ratio {partition.dirty_ratio or 0:.2f}, "
                f"{format_size(partition.size_bytes)}"
                for partition in sorted(behind, key=lambda partition: -partition.size_bytes)
            ),
        )
    failed = [failure for topic in figures.compaction or () for failure in topic.failed]
    if failed:
        yield _finding(
            "error",
            f"{count(len(failed), 'partition')} cannot be compacted",
            "A broker's log cleaner marks such partitions as uncleanable, and they grow without limit.",
            (f"{failure.name}: {failure.message}" for failure in failed),
        )
    without_key = sum(topic.null_keys for topic in figures.compaction or ())
    if without_key:
        yield _finding(
            "warning",
            f"{count(without_key, 'record')} without a key in compacted topics",
            "Brokers reject records without a key in compacted topics. A compaction removes these.",
            (
                f"{topic.topic}: {number(topic.null_keys)}"
                for topic in figures.compaction or ()
                if topic.null_keys
            ),
        )


def _retention(figures: ReportFigures) -> Iterator[Finding]:
    topics = figures.retention or ()
    unopened = {failure.name for failure in figures.failures}
    failed = [failure for topic in topics for failure in topic.failed if failure.name not in unopened]
    if failed:
        yield _finding(
            "error",
            f"{count(len(failed), 'partition')} without a decision about retention",
            "Their segments could not be read, so kafkalog retain would skip these partitions.",
            (f"{failure.name}: {failure.message}" for failure in failed),
        )
    deleted = sorted((topic for topic in topics if topic.segments), key=lambda topic: -topic.size_bytes)
    if deleted:
        size_bytes = sum(topic.size_bytes for topic in deleted)
        segments = sum(topic.segments for topic in deleted)
        yield _finding(
            "note",
            f"Retention would delete {format_size(size_bytes)} in {count(segments, 'segment')}",
            "A broker deletes these segments within minutes after it starts on these directories. Copy them "
            "first if you need the records. kafkalog retain deletes the segments without a broker.",
            (
                f"{topic.topic}: {count(topic.segments, 'segment')}, {format_size(topic.size_bytes)}"
                for topic in deleted
            ),
        )


def _transactions(figures: ReportFigures) -> Iterator[Finding]:
    newest = newest_time_ms(figures)
    hanging = [
        (transaction.started_ms, partition, transaction)
        for partition in figures.partitions
        for transaction in partition.open_transactions or ()
        if transaction.started_ms is not None and newest is not None
        if newest - transaction.started_ms > HANGING_MS
    ]
    if hanging:
        hanging.sort(key=lambda entry: entry[0])
        yield _finding(
            "warning",
            f"{count(len(hanging), 'transaction')} open for more than {duration(HANGING_MS)}",
            "Consumers with read_committed receive nothing from the first offset of the oldest one on, and "
            "compaction stops there. Ages are measured at the time of the newest record in these "
            "directories. In a running cluster, kafka-transactions find-hanging lists such transactions, "
            "and abort ends them.",
            (
                f"{partition.name}: producer {transaction.producer_id}, from offset "
                f"{transaction.first_offset}, since {time(started_ms)}"
                for started_ms, partition, transaction in hanging
            ),
        )


def _groups(figures: ReportFigures) -> Iterator[Finding]:
    groups = figures.coordinators.groups or ()
    late = [group for group in groups if group.below_start]
    if late:
        yield _finding(
            "warning",
            f"{count(len(late), 'group')} with offsets below the start of the log",
            "Records were deleted before these groups read them. Share groups continue at the start of the "
            "log. For other groups, auto.offset.reset decides where they continue.",
            (f"{group.name}: {count(group.below_start, 'partition')}" for group in late),
        )
    ahead = [group for group in groups if group.beyond_end]
    if ahead:
        yield _finding(
            "warning",
            f"{count(len(ahead), 'group')} with offsets above the end of the log",
            "The logs were truncated or replaced after the commits, the directories are not from the same "
            "time, or the checkpointed high watermark of a running broker is a few seconds old.",
            (f"{group.name}: {count(group.beyond_end, 'partition')}" for group in ahead),
        )


def _skew(figures: ReportFigures) -> Iterator[Finding]:
    skewed = [
        topic
        for topic in by_topic(figures.partitions)
        if len(topic.sizes) > 1 and topic.skew >= SKEW and topic.sizes[-1] >= SKEW_BYTES
    ]
    if skewed:
        yield _finding(
            "note",
            f"{count(len(skewed), 'topic')} with skewed partitions",
            f"The largest partition has at least {SKEW:.0f} times the mean size. Frequent keys, or a "
            "partitioner that does not balance, are the usual reasons.",
            (
                f"{topic.topic}: largest partition {format_size(topic.sizes[-1])}, {topic.skew:.1f} times "
                "the mean"
                for topic in skewed
            ),
        )


def newest_time_ms(figures: ReportFigures) -> int | None:
    """Return the time of the newest record that is not dated in the future, in epoch ms."""
    times = _last_times(figures.partitions, figures.created_ms)
    return max(times, default=None)


def _last_times(partitions: Sequence[PartitionFigures], now_ms: int) -> Iterator[int]:
    for partition in partitions:
        last = partition.last_timestamp_ms
        if last is not None and not is_future(last, now_ms):
            yield last
