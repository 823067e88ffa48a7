"""Interactive use: reprs, completion, tables, pickles, and errors for wrong arguments."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import kafkalog_spark
import native_log
from native_log import LogDir, NotALogDirError, PartitionLog
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = GOLDEN / "kafka-4.1/plain-none/data"
DAMAGED = GOLDEN / "kafka-4.1/corrupt-bad-crc/data"


@pytest.fixture
def log() -> PartitionLog:
    return LogDir(DATA).partition("plain-none", 0)


@pytest.mark.parametrize("package", [native_log, kafkalog_spark])
def test_every_public_name_exists_and_is_completed(package: Any) -> None:
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        getattr(package, name)


def test_the_result_of_read_is_accepted_by_arrow_libraries(log: PartitionLog) -> None:
    table = log.read(columns=["offset", "value"]).read_all()
    assert (table.column_names, table.num_rows) == (["offset", "value"], log.log_end_offset)
    assert pa.table(log.read(columns=["offset", "value"])) == table
    assert log.read(columns=["offset"]).read_pandas().offset.sum() == sum(range(log.log_end_offset))
    nothing = log.read(5, 5, ["value", "timestamp"])
    assert nothing.schema.names == ["value", "timestamp"]
    assert nothing.read_all().num_rows == 0
    assert log.read().schema == log.read().read_all().schema
    assert sum(batch.num_rows for batch in log.read(columns=[])) == log.log_end_offset


def test_errors_during_a_read_are_those_of_native_log() -> None:
    log = LogDir(DAMAGED).partition("corrupt-bad-crc", 0)
    batches = log.read(columns=["offset"])
    assert next(batches).num_rows
    with pytest.raises(native_log.CorruptRecordError) as failed:
        batches.read_all()
    assert (failed.value.position, failed.value.offset) == (2752, 119)
    rows = log.read(columns=["position", "_corrupt_record"], mode="permissive").read_all()
    assert rows.column("_corrupt_record").null_count == rows.num_rows - 1


def test_a_log_dir_can_be_pickled(tmp_path: Path) -> None:
    with LogDir.create(tmp_path) as logs:
        logs.create_topic("t")
        logs.partition("t", 0).append(pa.record_batch({"value": ["v"]}))
        there = pickle.loads(pickle.dumps(logs))
    assert there.topics() == {"t": [0]}
    assert there.partition("t", 0).log_end_offset == 1


def test_home_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(DATA.parent))
    assert LogDir("~/data").paths == (DATA,)
    assert LogDir(Path("~/data")).paths == (DATA,)


def test_times(log: PartitionLog) -> None:
    first = next(log.read(columns=["timestamp"])).column(0)[0].as_py()
    assert log.offset_for_timestamp(np.int64(first.timestamp() * 1000)) == 0
    assert log.offset_for_timestamp(first) == 0
    assert log.offset_for_timestamp(dt.datetime.now(dt.UTC)) is None
    with pytest.raises(TypeError, match="expected a datetime or milliseconds since 1970, found '2026"):
        log.offset_for_timestamp("2026-11-01")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("slip", "error", "says"),
    [
        (lambda: LogDir([]), ValueError, "path: expected at least one log directory"),
        (lambda: LogDir(""), NotALogDirError, "the path is empty; expected a Kafka log directory"),
        (lambda: LogDir(DATA).partition("plain-none", 0).read(columns="offset"), ValueError, r"\['offset'\]"),
        (
            lambda: LogDir(DATA).partition("plain-none", 0).read(columns=["offse"]),
            ValueError,
            "unknown column 'offse'; there are key, value, .*, _corrupt_record",
        ),
        (
            lambda: native_log.delete_records(DATA, {"plain-none": 5}, dry_run=True),  # type: ignore[dict-item]
            ValueError,
            r'expected offsets as \{\("orders", 0\): 5\}.*found \'plain-none\'',
        ),
        (
            lambda: native_log.delete_records(DATA, {("plain-none",): 5}, dry_run=True),  # type: ignore[dict-item]
            ValueError,
            r"found \('plain-none',\)",
        ),
    ],
)
def test_invalid_arguments(slip: Callable[[], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        slip()


@pytest.mark.parametrize(
    "function",
    [
        native_log.verify,
        native_log.recover,
        native_log.reindex,
        lambda path, **threads: native_log.salvage(path, path.parent / "copy", **threads),
        lambda path, **threads: native_log.restore(path, path.parent / "copy", **threads),
    ],
)
def test_numbers_of_threads(function: Callable[..., object], golden_copy: Any) -> None:
    path = golden_copy("kafka-4.1/plain-none")
    for threads, error in ((0, ValueError), (-1, ValueError), ("2", TypeError), (True, TypeError)):
        with pytest.raises(error, match="threads: expected"):
            function(path, threads=threads)
    function(path, threads=np.int64(1))


def partition() -> PartitionLog:
    return LogDir(DATA).partition("plain-none", 0)


@pytest.mark.parametrize(
    ("slip", "says"),
    [
        (lambda: LogDir(None), "path: expected a str or os.PathLike, or an iterable of them, found None"),  # type: ignore[arg-type]
        (
            lambda: LogDir(b"/logs"),
            "path: expected a str or os.PathLike, or an iterable of them, found b'/logs'",
        ),  # type: ignore[arg-type]
        (lambda: LogDir([DATA, 5]), "path: expected a str or os.PathLike, found 5"),  # type: ignore[list-item]
        (lambda: native_log.retain(None, dry_run=True), "path: expected a str or os.PathLike"),  # type: ignore[arg-type]
        (lambda: native_log.reindex(None), "path: expected a str or os.PathLike"),  # type: ignore[arg-type]
        (lambda: native_log.recover(None), "path: expected a str or os.PathLike"),  # type: ignore[arg-type]
        (
            lambda: native_log.retain(DATA, 5, dry_run=True),
            "topics: expected a str or an iterable of str, found 5",
        ),  # type: ignore[arg-type]
        (lambda: native_log.retain(DATA, [5], dry_run=True), "topics: expected a str, found 5"),  # type: ignore[list-item]
        (lambda: LogDir(DATA).partition("plain-none", "0"), "partition: expected an int, found '0'"),  # type: ignore[arg-type]
        (lambda: LogDir(DATA).partition("plain-none", True), "partition: expected an int, found True"),
        (lambda: LogDir(DATA).partition(0, 0), "topic: expected a str, found 0"),  # type: ignore[arg-type]
        (lambda: partition().read("5"), "start_offset: expected an int, found '5'"),  # type: ignore[arg-type]
        (lambda: partition().read(0, 5.0), r"end_offset: expected an int, found 5\.0"),  # type: ignore[arg-type]
        (lambda: partition().range(start_offset="5"), "start_offset: expected an int"),  # type: ignore[arg-type]
        (
            lambda: native_log.delete_records(DATA, {("plain-none", 0): "5"}, dry_run=True),  # type: ignore[dict-item]
            r"offset of \('plain-none', 0\): expected an int, found '5'",
        ),
    ],
)
def test_types(slip: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError, match=f"^{says}"):
        slip()


def test_integers_of_numpy_are_integers(log: PartitionLog) -> None:
    there = LogDir(DATA).partition("plain-none", np.int32(0))  # type: ignore[arg-type]
    assert there.read(np.int64(5), np.int64(7), ["offset"]).read_all()["offset"].to_pylist() == [5, 6]  # type: ignore[arg-type]


def test_meta_properties_of_a_copy_without_the_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a readable meta\.properties") as failed:
        _ = LogDir(DATA / "plain-none-0").meta_properties
    assert failed.value.filename == str(DATA)
    assert LogDir(GOLDEN / "kafka-4.1/whole-broker/data").meta_properties.node_id == 1
