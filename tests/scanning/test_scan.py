"""Scans of many partitions: the same rows as partition by partition, whatever reads them."""

from __future__ import annotations

import gc
import inspect
import pickle
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import native_log
from native_log import CorruptRecordError, FilterError, KafkaLogError, LogDir, UnknownTopicOrPartitionError
from native_log.filters import to_filter
from native_log.log.reading import parallel
from native_log.logdir.options import LogDirArguments
from native_log.records import partition_of_key
from tests.builders.copies import batches, damage, write_copy
from tests.builders.golden import golden
from tests.builders.golden_tiered import READABLE, TieredPartition

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 11, 1, tzinfo=UTC)
PARTITIONS = 4
RECORDS = 3000
COLUMNS = ["topic", "partition", "offset", "key", "value", "timestamp"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics; records of `orders` are in the partitions that their keys choose."""
    path = tmp_path_factory.mktemp("logs")
    with LogDir.create(path) as logs:
        for topic, config in (("orders", {"segment.bytes": 60_000}), ("other", {})):
            logs.create_topic(topic, PARTITIONS, config=config)
        keys = [f"k{number}".encode() for number in range(RECORDS)]
        for number in range(PARTITIONS):
            mine = [i for i, key in enumerate(keys) if partition_of_key(key, PARTITIONS) == number]
            rows = pa.record_batch(
                {
                    "key": pa.array([keys[i] for i in mine], pa.binary()),
                    "value": pa.array([f"value {i} {'x' * (i % 50)}".encode() for i in mine], pa.binary()),
                    "timestamp": pa.array(
                        [START + timedelta(seconds=i) for i in mine], pa.timestamp("us", "UTC")
                    ),
                }
            )
            log = logs.partition("orders", number)
            for at in range(0, len(mine), 100):
                log.append(rows.slice(at, 100), compression="lz4")
            logs.partition("other", number).append(rows.slice(0, 10))
    return path


def by_partition(path: Path, topic: str, columns: list[str] = COLUMNS, **options: Any) -> pa.Table:
    logs = [LogDir(path).partition(topic, number) for number in range(PARTITIONS)]
    return pa.concat_tables(log.read(columns=columns, **options).read_all() for log in logs)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_rows_of_all_partitions_in_order(
    directory: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("native_log.log.reading.log_scan.PART_BYTES", 5000)
    scan = native_log.scan(directory, "orders", COLUMNS, threads=threads)
    expected = by_partition(directory, "orders")
    assert scan.to_table().equals(expected)
    assert scan.to_table().equals(expected)
    assert pickle.loads(pickle.dumps(scan)).to_reader().read_all().equals(expected)
    assert pa.table(scan).equals(expected)
    assert scan.to_pandas()["offset"].tolist() == expected["offset"].to_pylist()
    assert scan.count_rows() == RECORDS
    assert LogDir(directory).read("orders", COLUMNS, threads=threads).read_all().equals(expected)


def test_topics(directory: Path) -> None:
    everything = native_log.scan(directory, columns=["topic"]).to_table()["topic"]
    assert everything.value_counts().to_pylist() == [
        {"values": "orders", "counts": RECORDS},
        {"values": "other", "counts": 40},
    ]
    with pytest.raises(UnknownTopicOrPartitionError):
        native_log.scan(directory, "nothing")
    assert native_log.scan(LogDir(directory), ["other"]).count_rows() == 40
    with pytest.raises(ValueError, match="found a LogDir"):
        native_log.scan(LogDir(directory), high_watermark="ignore")
    assert native_log.scan(directory, exclude_topics="orders").count_rows() == 40
    assert native_log.search(directory, regex="value 0 ", exclude_topics="orders").count_rows() == 1
    with pytest.raises(UnknownTopicOrPartitionError, match="there is no topic order,"):
        native_log.scan(directory, exclude_topics=["order"])


def test_arguments_of_the_log_directory(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, damaged in zip(paths, (1, 2), strict=True):
        copy = write_copy(path, batches(0, 4), high_watermark=6)
        damage(copy, batches(0, 4)[damaged])

    def offsets(**arguments: Any) -> list[int]:
        scan = native_log.scan(paths, columns=["offset"], mode="dropMalformed", **arguments)
        return [row["offset"] for row in scan.to_table().to_pylist()]

    assert len(offsets()) == 9
    assert offsets(replicas="merge") == list(range(12))
    assert offsets(replicas="merge", high_watermark="checkpoint") == list(range(6))
    with pytest.raises(KafkaLogError, match="found nonsense"):
        native_log.scan("s3://bucket/logs", storage_options={"nonsense": "1"})
    with pytest.raises(ValueError, match="replicas, remote: expected paths, found a LogDir"):
        native_log.scan(LogDir(paths), replicas="merge", remote=tmp_path)
    with pytest.raises(TypeError, match=r"unknown argument 'where': expected one of mode, .*, filter"):
        native_log.scan(paths, where="offset = 1")  # type: ignore[call-arg]


@pytest.mark.parametrize("partition", READABLE, ids=str)
def test_remote_storage(partition: TieredPartition) -> None:
    data, (topic, number) = partition.folder / "data", partition.key
    scan = native_log.scan(data, topic, ["offset"], partitions=number, **partition.remote)
    assert scan.to_table()["offset"].to_pylist() == [row["offset"] for row in partition.rows()]


def test_remote_storage_alone() -> None:
    partition = READABLE[0]
    tier = {**partition.remote, "remote_metadata": partition.folder / "data"}
    scan = native_log.scan(None, partition.key[0], ["offset"], partitions=partition.key[1], **tier)
    assert scan.count_rows() == LogDir(**tier).partition(*partition.key).scan().count_rows() > 0


def test_the_arguments_of_a_log_directory_are_those_of_its_class() -> None:
    named = {
        parameter.name
        for parameter in inspect.signature(LogDir).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert set(LogDirArguments.__annotations__) == named


def test_isolation_level() -> None:
    transactions = golden("kafka-4.1/txn")
    for level in ("read_uncommitted", "read_committed"):
        scan = native_log.scan(transactions.path, columns=["offset"], isolation_level=level)
        assert scan.count_rows() == len(transactions.rows(level))


def test_partitions(directory: Path) -> None:
    def scanned(partitions: Any) -> list[tuple[str, int]]:
        ranges = native_log.scan(directory, partitions=partitions).ranges
        return [(each.topic, each.partition) for each in ranges]

    assert scanned(3) == [("orders", 3), ("other", 3)]
    assert scanned([0, range(2, 4)]) == [(t, n) for t in ("orders", "other") for n in (0, 2, 3)]
    assert scanned(range(9)) == scanned(None)
    assert scanned([]) == []
    with pytest.raises(
        UnknownTopicOrPartitionError, match="expected a partition 4 of orders, other, found 0"
    ):
        scanned([0, 4])
    with pytest.raises(TypeError, match="partitions: expected an int, found '0'"):
        scanned(["0"])


def test_memory_is_bounded(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow consumer stops the threads; one that waits for a part gets it."""
    monkeypatch.setattr("native_log.log.reading.log_scan.PART_BYTES", 5000)
    waiting = []
    scan = native_log.scan(directory, "orders", COLUMNS, threads=3, max_rows=20, first_rows=20)
    parts = (part for each in scan.ranges for part in each.split(5000))
    reading = parallel._Reading(parts, scan._read, 3, 20_000)
    workers = [threading.Thread(target=reading.work) for _ in range(3)]
    for worker in workers:
        worker.start()
    rows = 0
    for batch in reading.batches():
        time.sleep(0.001)
        waiting.append(reading._bytes)
        rows += batch.num_rows
    for worker in workers:
        worker.join(10)
    assert rows == RECORDS
    assert max(waiting) <= 20_000 + 10_000


def test_threads_end_with_the_iterator(directory: Path) -> None:
    before = threading.active_count()
    batches = native_log.scan(directory, "orders", max_rows=1, first_rows=1, threads=4).batches()
    next(batches)
    batches.close()
    del batches
    gc.collect()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_a_process_ends_with_an_unfinished_scan(directory: Path) -> None:
    code = (
        "import native_log, sys\n"
        "batches = native_log.scan(sys.argv[1], 'orders', max_rows=1, first_rows=1, threads=3).batches()\n"
        "print(next(batches).num_rows > 0)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, directory], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout == "True\n"


def test_an_error_comes_after_the_rows_before_it(directory: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    log = sorted((copy / "orders-1").glob("*.log"))[-1]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    batches = native_log.scan(copy, "orders", ["partition"], threads=3).batches()
    seen = 0
    with pytest.raises(CorruptRecordError, match=r"orders-1"):
        for batch in batches:
            seen = max(seen, batch["partition"][-1].as_py())
    assert seen == 1
    assert native_log.scan(copy, "orders", threads=3, mode="dropMalformed").to_table().num_rows < RECORDS


@pytest.mark.parametrize("threads", [1, 3])
def test_where_a_scan_starts_and_ends(directory: Path, threads: int) -> None:
    def scan(**arguments: Any) -> pa.Table:
        return native_log.scan(directory, "orders", COLUMNS, threads=threads, **arguments).to_table()

    everything = by_partition(directory, "orders")
    offset, time_of = pc.field("offset"), pc.field("timestamp")
    assert scan(start=100, end=200).equals(everything.filter((offset >= 100) & (offset < 200)))
    hour = START + timedelta(seconds=1000), START + timedelta(seconds=2000)
    in_time = everything.filter((time_of >= pa.scalar(hour[0])) & (time_of < pa.scalar(hour[1])))
    assert in_time.num_rows == 1000
    assert scan(start=hour[0], end=hour[1]).equals(in_time)
    assert scan(start=hour[0].replace(tzinfo=None), end=hour[1]).equals(in_time)
    assert scan(start=START + timedelta(days=1)).num_rows == 0
    some = scan(start={("orders", 2): 10}, end={("orders", 2): 12, ("orders", 3): START})
    assert some.filter(pc.field("partition") == 2)["offset"].to_pylist() == [10, 11]
    assert some.filter(pc.field("partition") == 3).num_rows == 0
    assert scan(start=10**9).num_rows == 0


def test_invalid_arguments(directory: Path) -> None:
    for arguments, error, message in [
        ({"columns": ["nokey"]}, ValueError, "nokey"),
        ({"filter": "nokey = 1"}, FilterError, "nokey"),
        ({"threads": 0}, ValueError, "threads"),
        ({"key_partitions": 0}, ValueError, "key_partitions"),
        ({"key_partitions": {"orders": "4"}}, TypeError, "key_partitions"),
        ({"start": {"orders": 5}}, ValueError, "by .topic, partition., found 'orders'"),
        ({"start": "yesterday"}, TypeError, "start"),
        ({"mode": "lenient"}, ValueError, "mode"),
        ({"fitler": "partition = 1"}, TypeError, "fitler"),
    ]:
        with pytest.raises(error, match=message):
            native_log.scan(directory, **arguments)


FILTERS = [
    "offset >= 100 AND offset < 110",
    "key = 'k17'",
    "key IN ('k17', 'k18', 'nokey')",
    "partition IN (1, 3) AND topic = 'orders'",
    "timestamp >= '2026-11-01 00:10:00' AND timestamp < '2026-11-01 00:20:00'",
    "value LIKE '%xxxxx' AND offset > 50",
    "topic = 'nothing'",
]


@pytest.mark.parametrize("sql", FILTERS)
def test_filters(directory: Path, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("native_log.log.reading.log_scan.PART_BYTES", 5000)
    monkeypatch.setattr("native_log.log.reading.row_selection._SEEK_BYTES", 1)
    expected = by_partition(directory, "orders").filter(to_filter(sql).expression)
    for threads in (1, 3):
        scan = native_log.scan(directory, "orders", COLUMNS, threads=threads, filter=sql)
        assert scan.to_table().equals(expected)
        assert scan.count_rows() == expected.num_rows


def test_keys_choose_partitions(directory: Path) -> None:
    scan = native_log.scan(directory, "orders", filter="key = 'k17'", key_partitions=PARTITIONS)
    assert [each.partition for each in scan.ranges] == [partition_of_key(b"k17", PARTITIONS)]
    assert scan.to_table().num_rows == 1
    by_topic = native_log.scan(directory, filter="key = 'k17'", key_partitions={"orders": PARTITIONS})
    assert len(by_topic.ranges) == PARTITIONS + 1
    no_key = native_log.scan(directory, "orders", filter="key IS NULL", key_partitions=PARTITIONS)
    assert len(no_key.ranges) == PARTITIONS


def test_one_hour_skips_the_bytes_before_it(directory: Path) -> None:
    scan = native_log.scan(directory, "orders", filter="offset >= 700")
    assert scan.size_bytes < native_log.scan(directory, "orders").size_bytes / 5


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[native_log.LogScan]:
    """The scans that have been read since the test began."""
    read: list[native_log.LogScan] = []
    batches = native_log.LogScan.batches
    monkeypatch.setattr(native_log.LogScan, "batches", lambda scan: read.append(scan) or batches(scan))
    return read


class TestPolars:
    pl = pytest.importorskip("polars")

    def test_queries(self, directory: Path) -> None:
        col = self.pl.col
        frame = native_log.scan_polars(directory, "orders")
        everything = self.pl.from_arrow(native_log.scan(directory, "orders").to_table())
        assert frame.collect().equals(everything)
        assert frame.collect_schema() == everything.schema
        for predicate in (
            col("key") == b"k17",
            (col("offset") > 100) & (col("partition") == 2),
            col("timestamp") >= START + timedelta(seconds=1500),
            col("value").bin.size() > 30,
            (col("offset") % 7 == 0) | col("key").is_null(),
        ):
            wanted = everything.filter(predicate)
            assert frame.filter(predicate).collect().equals(wanted)
            assert frame.filter(predicate).select("offset").collect().equals(wanted.select("offset"))
        assert (
            frame.select("offset", "topic")
            .head(3)
            .collect()
            .equals(everything.select("offset", "topic").head(3))
        )
        for query in (
            lambda rows: rows.filter(col("offset") >= 20).head(300),
            lambda rows: rows.head(300).filter(col("offset") >= 290),
            lambda rows: rows.head(300).filter(col("key") == b"k17").select("offset"),
            lambda rows: rows.slice(250, 50).filter(col("partition") == 0),
        ):
            assert query(frame).collect().equals(query(everything))
        counts = frame.group_by("partition").len().sort("partition").collect()["len"]
        assert counts.sum() == RECORDS

    def test_projection_and_conditions_reach_the_scan(
        self, directory: Path, scans: list[native_log.LogScan]
    ) -> None:
        frame = native_log.scan_polars(directory, "orders", filter="offset > 5")
        found = frame.filter(self.pl.col("key") == b"k17").select("value").collect()
        assert found.height == 1
        (scan,) = scans
        assert set(scan.columns) == {"key", "value"}
        assert scan.arguments["filter"].conditions.keys == (b"k17",)
        assert scan.arguments["filter"].offsets == (6, None)

    def test_older_versions_are_refused(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self.pl, "__version__", "1.31.0")
        with pytest.raises(ImportError, match=r"expected Polars 1\.32 or newer, found 1\.31\.0"):
            native_log.scan_polars(directory, "orders")


class TestDatasets:
    duckdb = pytest.importorskip("duckdb")

    def test_duckdb(self, directory: Path) -> None:
        orders = native_log.scan(directory, "orders").to_dataset()  # noqa: F841
        query = self.duckdb.sql
        assert query("SELECT count(*) FROM orders").fetchall() == [(RECORDS,)]
        assert query("SELECT count(*) FROM orders WHERE key = 'k17'::BLOB").fetchall() == [(1,)]
        assert query('SELECT count(*) FROM orders WHERE "offset" < 10').fetchall() == [(10 * PARTITIONS,)]
        in_time = "timestamp >= '2026-11-01 00:10:00+00' AND timestamp < '2026-11-01 00:20:00+00'"
        assert query(f"SELECT count(*) FROM orders WHERE {in_time}").fetchall() == [(600,)]
        assert query("SELECT count(*) FROM orders a JOIN orders b USING (key)").fetchall() == [(RECORDS,)]
        scan = native_log.scan(directory, "orders", ["key"])  # noqa: F841
        assert query("SELECT count(DISTINCT key) FROM scan").fetchall() == [(RECORDS,)]

    def test_datafusion(self, directory: Path, scans: list[native_log.LogScan]) -> None:
        context = pytest.importorskip("datafusion").SessionContext()
        context.register_dataset("orders", native_log.scan(directory, "orders").to_dataset())

        def query(sql: str) -> list[Any]:
            return [tuple(row.values()) for row in context.sql(sql).to_pylist()]

        assert query("SELECT count(*) FROM orders") == [(RECORDS,)]
        assert query("SELECT count(*) FROM orders a JOIN orders b USING (key)") == [(RECORDS,)]
        scans.clear()
        assert len(query("""SELECT "offset" FROM orders WHERE key = X'6b3137' AND "offset" >= 0""")) == 1
        (scan,) = scans
        assert scan.columns == ("offset",)
        assert scan.arguments["filter"].conditions.keys == (b"k17",)
        assert scan.arguments["filter"].offsets == (0, None)

    def test_methods(self, directory: Path) -> None:
        scan = native_log.scan(directory, "orders", COLUMNS, filter="partition = 1")
        dataset = scan.to_dataset()
        expected = scan.to_table()
        assert dataset.to_table().equals(expected)
        assert dataset.to_reader().read_all().equals(expected)
        assert dataset.head(3, ["offset"]).equals(expected.select(["offset"]).slice(0, 3))
        assert dataset.count_rows(pc.field("offset") < 5) == 5
        assert sum(batch.num_rows for batch in dataset.to_batches(["key"])) == expected.num_rows
        with pytest.raises(NotImplementedError):
            dataset.sort_by("offset")
        assert pickle.loads(pickle.dumps(dataset)).to_table().equals(expected)
        with pytest.raises(FileNotFoundError, match="are read by its methods"):  # and Arrow does not crash
            ds.Scanner.from_dataset(dataset).to_table()
        with pytest.raises(NotImplementedError, match="names of columns"):
            dataset.to_table({"offset": pc.field("offset") * 2})
        polars = pytest.importorskip("polars")
        found = polars.scan_pyarrow_dataset(dataset).filter(polars.col("offset") < 3).collect()
        assert found.height == 3


class TestSearch:
    def test_conditions(self, directory: Path) -> None:
        def keys(**conditions: Any) -> list[bytes]:
            return native_log.search(directory, "orders", ["key"], **conditions).to_table()["key"].to_pylist()

        assert keys(key="k17") == keys(key=b"k17") == [b"k17"]
        assert sorted(keys(key=["k17", "k18"], key_prefix="k299")) == sorted(
            [b"k17", b"k18", b"k299", *(b"k299%d" % i for i in range(10))]
        )
        assert keys(contains="value 1234 ") == [b"k1234"]
        assert keys(contains="value 1234 ", fields=["key"]) == []
        assert sorted(keys(regex=r"^value 12[34] ")) == [b"k123", b"k124"]
        assert keys(regex=r"(?i)VALUE 123\b", filter="offset >= 0") == [b"k123"]
        assert keys(contains="value 123", filter="offset < 0") == []
        assert native_log.search(directory, contains="value 1234 ").count_rows() == 1

    def test_invalid_conditions(self, directory: Path) -> None:
        for conditions, message in [
            ({}, "found none"),
            ({"regex": "("}, "regular expression"),
            ({"contains": "x", "fields": ["body"]}, "fields"),
            ({"contains": "x", "fields": []}, "fields"),
        ]:
            with pytest.raises(FilterError, match=message):
                native_log.search(directory, **conditions)
        for name, expected in (("key", "bytes"), ("contains", "bytes"), ("regex", "a str")):
            with pytest.raises(TypeError, match=f"{name}: expected {expected}"):
                native_log.search(directory, **{name: 5})


def test_times_wherever_a_time_is_taken(directory: Path) -> None:
    log = LogDir(directory).partition("orders", 0)
    moment = START + timedelta(seconds=1000)
    expected = log.offset_for_timestamp(int(moment.timestamp() * 1000))
    assert expected
    assert (
        log.offset_for_timestamp(moment) == log.offset_for_timestamp(moment.replace(tzinfo=None)) == expected
    )
    with pytest.raises(ValueError, match="for seconds, write 1795466970000"):
        log.offset_for_timestamp(1795466970)
    with pytest.raises(TypeError, match="expected a datetime"):
        log.offset_for_timestamp("2026-11-01")  # type: ignore[arg-type]
