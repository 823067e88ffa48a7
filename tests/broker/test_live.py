"""Read the log directory of a running broker."""

from __future__ import annotations

import pytest

from .cluster import ROW_COLUMNS, Cluster, eventually, rows, run_during

pytestmark = pytest.mark.broker
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_every_record_is_read_as_a_consumer_reads_it(cluster: Cluster, codec: str) -> None:
    topic = cluster.create(f"codec-{codec}")
    cluster.send(topic, 5000, compression_type=codec, batch_size=4000)
    consumed = cluster.consume(topic)
    assert len(consumed.rows) == 5000
    assert rows(cluster.log_up_to(topic, consumed.end).read(columns=ROW_COLUMNS)) == consumed.rows


def test_log_append_time_is_read_as_a_consumer_reads_it(cluster: Cluster) -> None:
    topic = cluster.create("append-time", message_timestamp_type="LogAppendTime")
    cluster.send(topic, 500)
    consumed = cluster.consume(topic)
    assert {row.timestamp_type for row in consumed.rows} == {1}
    assert rows(cluster.log_up_to(topic, consumed.end).read(columns=ROW_COLUMNS)) == consumed.rows


def test_a_log_that_grows_and_rolls_is_read_up_to_its_high_watermark(cluster: Cluster) -> None:
    """Each read returns a prefix of the final log: no record is lost, repeated or torn."""
    topic = cluster.create("growing", segment_bytes=1024 * 1024)
    counts: list[int] = []

    def read() -> None:
        records = rows(cluster.log(topic).read(columns=ROW_COLUMNS))
        assert [row.offset for row in records] == list(range(len(records)))
        assert all(row.value is None or int(row.value.split(b":")[0]) == row.offset for row in records)
        counts.append(len(records))

    total = 60_000

    def work() -> None:
        for first in range(0, total, 15_000):
            cluster.send(topic, 15_000, first=first, value_bytes=100, batch_size=4000)
            # On a busy machine, the broker may be much faster than the reader.
            eventually(lambda: max(counts, default=0), lambda count, first=first: count > first)

    run_during(work, read)
    assert counts == sorted(counts)
    assert len(set(counts)) > 2, "the log never grew while it was read"
    consumed = cluster.consume(topic)
    log = cluster.log_up_to(topic, total)
    assert len(log.segments) > 4
    assert rows(log.read(columns=ROW_COLUMNS)) == consumed.rows


def test_a_log_that_is_compacted_under_the_reader_keeps_every_latest_value(cluster: Cluster) -> None:
    keys, total = 500, 60_000
    topic = cluster.create(
        "compacted",
        cleanup_policy="compact",
        segment_bytes=1024 * 1024,
        min_cleanable_dirty_ratio=0.01,
        file_delete_delay_ms=0,
    )

    def read() -> None:
        log = cluster.log(topic)
        records = rows(log.read(columns=ROW_COLUMNS))
        offsets = [row.offset for row in records]
        assert offsets == sorted(set(offsets)), "a record was read twice, or out of order"
        latest = {}
        for row in records:
            assert row.value is not None
            assert int(row.value.split(b":")[0]) == row.offset
            latest[row.key] = row.offset
        # Compaction keeps the last value of a key below the high watermark until there is a newer one.
        end, now = log.high_watermark, cluster.log(topic).high_watermark
        for n in range(max(0, end - keys), end):
            assert latest.get(b"k%d" % (n % keys)) == n or n + keys < now

    def work() -> None:
        cluster.send(topic, total, keys=keys, plain=True, value_bytes=100, batch_size=4000)
        eventually(lambda: len(cluster.consume(topic).rows), lambda count: count < total // 2)

    run_during(work, read)
    # The active segment is never compacted, so at some point the log no longer changes.
    final = eventually(
        lambda: (
            cluster.consume(topic).rows,
            rows(cluster.log_up_to(topic, total).read(columns=ROW_COLUMNS)),
        ),
        lambda both: both[0] == both[1],
    )
    assert len(final[0]) < total // 2


def test_records_deleted_under_the_reader_are_missing_at_the_start_only_or_reported(cluster: Cluster) -> None:
    total = 60_000
    topic = cluster.create("deleted", segment_bytes=1024 * 1024, file_delete_delay_ms=0)
    cluster.send(topic, total, value_bytes=100, batch_size=4000)
    cluster.log_up_to(topic, total)
    complete_reads = 0

    def delete() -> None:
        for before in range(1000, total, 1000):
            cluster.delete_records(topic, before)
        eventually(lambda: cluster.log(topic).log_start_offset, lambda start: start == total - 1000)

    def read() -> None:
        nonlocal complete_reads
        log = cluster.log(topic)
        try:
            records = rows(log.read(columns=ROW_COLUMNS))
        except FileNotFoundError as error:  # a segment was deleted before it was read
            assert "Plan the read again" in str(error)
            return
        offsets = [row.offset for row in records]
        assert offsets == list(range(total - len(offsets), total))
        complete_reads += 1

    run_during(delete, read)
    assert complete_reads
    consumed = cluster.consume(topic)
    log = cluster.log(topic)
    assert (log.log_start_offset, log.log_end_offset) == (consumed.start, consumed.end)
    assert rows(log.read(columns=ROW_COLUMNS)) == consumed.rows


def test_offsets_by_time_equal_those_of_a_broker(cluster: Cluster) -> None:
    topic = cluster.create("times", segment_bytes=1024 * 1024)
    cluster.send(topic, 20_000, value_bytes=200, batch_size=4000)
    log = cluster.log_up_to(topic, 20_000)
    for timestamp in [0, 1, 4321, 10_000, 19_999, 20_000, 10**12]:
        assert log.offset_for_timestamp(timestamp) == cluster.offset_for_timestamp(topic, timestamp)
