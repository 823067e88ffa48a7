"""What a report calls attention to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from native_log.reporting.figures import (
    CompactionFigures,
    CoordinatorFigures,
    Failure,
    GroupFigures,
    OpenTransaction,
    PartitionFigures,
    ProblemKind,
    ReportFigures,
    RetentionFigures,
)
from native_log.reporting.findings import EXAMPLES, HANGING_MS, SKEW_BYTES, Finding, decide_findings
from tests.reporting.examples import DAY_MS, DIRECTORY, HOUR_MS, NOW_MS, partition, report


def only_finding(figures: ReportFigures) -> Finding:
    (finding,) = decide_findings(figures)
    return finding


def test_nothing_is_wrong() -> None:
    assert decide_findings(report()) == []


@pytest.mark.parametrize(
    ("figures", "severity", "title"),
    [
        (report(failures=(Failure("a-0", "no"),)), "error", "1 partition cannot be opened"),
        (report(problems=(ProblemKind("crc", 2, ("x", "y")),)), "error", "2 problems of kind crc"),
        (report(partition(damaged_ranges=1)), "error", "1 partition with damaged batches"),
        (report(partition(missing_end="torn")), "warning", "1 log with a damaged or missing end"),
        (report(partition(missing_segments="gone")), "error", "1 log without some of their segments"),
        (report(partition(missing_start="gone")), "note", "1 log without their first records"),
        (report(metadata_unreadable="why"), "warning", "The cluster's metadata cannot be read"),
        (
            report(coordinators=CoordinatorFigures((), (), undecodable=3)),
            "warning",
            "3 records of internal topics cannot be decoded",
        ),
        (report(directories=(replace(DIRECTORY, lock_holder=7),)), "note", "1 log directory in use"),
        (
            report(directories=(replace(DIRECTORY, clean_shutdown=False),)),
            "warning",
            "1 log directory not shut down cleanly",
        ),
        (
            report(directories=(replace(DIRECTORY, has_interrupted_write=True),)),
            "warning",
            "1 log directory with an unfinished write",
        ),
        (
            report(directories=(DIRECTORY, replace(DIRECTORY, cluster_id="b"))),
            "warning",
            "The directories belong to 2 clusters",
        ),
        (
            report(directories=(replace(DIRECTORY, set_aside={"stray": (2, 2048)}),)),
            "note",
            "2.0 KiB in partition directories that are set aside",
        ),
        (
            report(partition(last_timestamp_ms=NOW_MS + 2 * DAY_MS)),
            "warning",
            "1 partition with timestamps in the future",
        ),
        (
            report(compaction=(CompactionFigures("t", failed=(Failure("t-0", "damaged"),)),)),
            "error",
            "1 partition cannot be compacted",
        ),
        (
            report(compaction=(CompactionFigures("t", null_keys=2),)),
            "warning",
            "2 records without a key in compacted topics",
        ),
        (
            report(retention=(RetentionFigures("a", 1, 2, 2048), RetentionFigures("b", 1, 1, 1024))),
            "note",
            "Retention would delete 3.0 KiB in 3 segments",
        ),
        (
            report(retention=(RetentionFigures("a", failed=(Failure("a-0", "no"),)),)),
            "error",
            "1 partition without a decision about retention",
        ),
        (
            report(coordinators=CoordinatorFigures((GroupFigures("g", below_start=1),), ())),
            "warning",
            "1 group with offsets below the start of the log",
        ),
        (
            report(coordinators=CoordinatorFigures((GroupFigures("g", beyond_end=1),), ())),
            "warning",
            "1 group with offsets above the end of the log",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_finding(figures: ReportFigures, severity: str, title: str) -> None:
    finding = only_finding(figures)
    assert (finding.severity, finding.title) == (severity, title)
    assert finding.advice


def test_a_partition_that_cannot_be_opened_is_reported_once() -> None:
    unread = (Failure("a-0", "no"),)
    finding = only_finding(report(failures=unread, retention=(RetentionFigures("a", failed=unread),)))
    assert finding.title == "1 partition cannot be opened"


def test_a_broker_that_runs_is_not_an_unclean_shutdown() -> None:
    running = replace(DIRECTORY, clean_shutdown=False, lock_holder=0)
    assert only_finding(report(directories=(running,))).title == "1 log directory in use"


def test_an_unfinished_write_is_reported_once() -> None:
    """It is one of the problems if the logs were verified."""
    interrupted = replace(DIRECTORY, has_interrupted_write=True)
    problem = ProblemKind("unfinished-write", 1, ("x",))
    finding = only_finding(report(directories=(interrupted,), problems=(problem,)))
    assert finding.title == "1 problem of kind unfinished-write"


def test_a_copy_of_partitions_has_no_shutdown() -> None:
    copy = replace(DIRECTORY, clean_shutdown=False, node_id=None, cluster_id=None)
    assert decide_findings(report(directories=(copy,))) == []


def transaction(age_ms: int) -> PartitionFigures:
    started_ms = NOW_MS - HOUR_MS - age_ms  # the newest record of the directory is an hour old
    return partition(open_transactions=(OpenTransaction(9, 0, 5, started_ms),))


def test_a_long_transaction_hangs() -> None:
    finding = only_finding(report(transaction(HANGING_MS + 1)))
    assert finding.title == "1 transaction open for more than 15 min"
    assert "producer 9, from offset 5" in finding.examples[0]
    assert decide_findings(report(transaction(HANGING_MS))) == []


def cleanable(age_ms: int, is_cleanable: bool = True) -> PartitionFigures:
    since_ms = NOW_MS - HOUR_MS - age_ms
    return partition(
        is_compacted=True, is_cleanable=is_cleanable, dirty_ratio=0.9, cleanable_since_ms=since_ms
    )


def test_an_old_dirty_log_is_not_being_compacted() -> None:
    finding = only_finding(report(cleanable(DAY_MS + 1)))
    assert finding.title == "1 compacted partition not compacted for more than a day"
    assert decide_findings(report(cleanable(DAY_MS))) == []
    assert decide_findings(report(cleanable(2 * DAY_MS, is_cleanable=False))) == []


@pytest.mark.parametrize(
    ("largest", "others", "is_skewed"),
    [(SKEW_BYTES, 1, True), (SKEW_BYTES - 1, 1, False), (SKEW_BYTES, 2**30, False)],
)
def test_skew(largest: int, others: int, is_skewed: bool) -> None:
    sizes = [largest, others, others, others]
    figures = report(*(partition(number=number, size_bytes=size) for number, size in enumerate(sizes)))
    assert [finding.title for finding in decide_findings(figures)] == (
        ["1 topic with skewed partitions"] if is_skewed else []
    )


def test_the_most_severe_come_first() -> None:
    figures = report(partition(missing_start="s", missing_end="e"), failures=(Failure("a-0", "no"),))
    assert [finding.severity for finding in decide_findings(figures)] == ["error", "warning", "note"]


def test_examples_are_limited() -> None:
    failures = tuple(Failure(f"topic-{number}", "no") for number in range(10_000))
    finding = only_finding(report(failures=failures))
    assert len(finding.examples) == EXAMPLES
    assert finding.more == 10_000 - EXAMPLES
