"""Erase records from logs that brokers wrote. All other records stay as they were."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from dry_runs import as_done

import native_log
from native_log.checkpoints.names import deleted_name
from native_log.checkpoints.offset_checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.records import scan
from native_log.segment.writer import SegmentWriter
from native_log.storage import Window
from tests.builders.golden import GOLDEN
from tests.contents import files
from tests.killing import survives

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

V41 = GOLDEN / "kafka-4.1"
FIXTURES = {
    "plain-none": V41 / "plain-none",
    "plain-lz4": V41 / "plain-lz4",
    "plain-mixed": V41 / "plain-mixed",
    "txn": V41 / "txn",
    "compact-idem": V41 / "compact-idem/round1-after",
    "compact-v0": GOLDEN / "kafka-2.8/compact-v0/round1-after",
    "compact-v1": GOLDEN / "kafka-2.8/compact-v1/round1-after",
    "offsets-gap": V41 / "offsets-gap",
    "offsets-huge": V41 / "offsets-huge",
}


@pytest.fixture(params=FIXTURES)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return copy(request.param, tmp_path)


def copy(name: str, tmp_path: Path) -> Path:
    shutil.copytree(FIXTURES[name] / "data", tmp_path / "data", copy_function=shutil.copy2)
    return tmp_path / "data"


def rows(data: Path, isolation_level: str = "read_uncommitted") -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return all records by topic, partition and offset, without their position and segment."""
    records = {}
    log_dir = native_log.LogDir(data, high_watermark="ignore")
    for directory in log_dir.partitions():
        log = log_dir.partition(directory.topic, directory.partition)
        for batch in log.read(isolation_level=isolation_level):
            for row in batch.to_pylist():
                for column in ("position", "segment"):
                    del row[column]
                records[row["topic"], row["partition"], row["offset"]] = row
    return records


def some_keys(data: Path) -> list[bytes]:
    keys = sorted({row["key"] for row in rows(data).values() if row["key"] is not None})
    return keys[::3]


def check_files(data: Path) -> None:
    for log in data.rglob("*.log"):
        assert scan(log.read_bytes(), check_crcs=True).batches.column("isValid").false_count == 0
    assert not list(data.rglob("*.deleted")) + list(data.rglob("*.cleaned")) + list(data.rglob("*.swap"))
    assert native_log.verify(data).to_pylist() == []


def contained(data: Path, needles: list[bytes]) -> set[bytes]:
    content = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    return {needle for needle in needles if needle in content}


def ends(data: Path) -> list[tuple[int, int, int]]:
    log_dir = native_log.LogDir(data, high_watermark="ignore")
    logs = [log_dir.partition(*directory.key) for directory in log_dir.partitions()]
    return [(log.log_start_offset, log.log_end_offset, log.last_stable_offset) for log in logs]


def test_records_with_the_keys_are_dropped_and_all_others_stay(data: Path) -> None:
    keys = some_keys(data)
    committed, before, sizes = rows(data, "read_committed"), rows(data), ends(data)
    erased = {where for where, row in before.items() if row["key"] in keys}
    assert 0 < len(erased) < len(before)

    planned = native_log.erase(data, keys=keys, dry_run=True)
    assert rows(data) == before
    table = native_log.erase(data, keys=keys)

    assert table == as_done(planned)
    report = [row for row in table.to_pylist() if row["status"] == "erased"]
    assert {(row["topic"], row["partition"], row["offset"]) for row in report} == erased
    for row in report:
        key = before[row["topic"], row["partition"], row["offset"]]["key"]
        assert (row["keySha256"], row["keyBytes"]) == (hashlib.sha256(key).hexdigest(), len(key))
    after = rows(data)
    legacy = any(row["magic"] < 2 for row in before.values())
    for where, row in before.items():
        if where not in erased:
            if legacy:  # the base offset of a wrapper is the offset of its first record
                row["batchOffset"] = after[where]["batchOffset"]
            assert after[where] == row
    assert after.keys() == before.keys() - erased
    assert rows(data, "read_committed").keys() == committed.keys() - erased
    assert ends(data) == sizes
    check_files(data)
    assert native_log.erase(data, keys=keys, dry_run=True).num_rows == 0


def test_a_segment_is_rewritten_in_parts(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, parts = some_keys(data), shutil.copytree(data, tmp_path / "parts")
    native_log.erase(data, keys=keys)
    monkeypatch.setattr("native_log.erasure.rewrite.Window", partial(Window, 1))  # a batch at a time
    native_log.erase(parts, keys=keys)
    assert files(parts) == files(data)


def test_headers_of_empty_batches_are_kept(tmp_path: Path) -> None:
    """They have the last sequence numbers of producers, and the offsets."""
    data = copy("txn", tmp_path)

    def headers() -> list[dict[str, Any]]:
        columns = ["baseOffset", "lastOffset", "producerId", "producerEpoch", "baseSequence"]
        batches = native_log.LogDir(data).partition("txn", 0).batches()
        return pa.Table.from_batches(batches).select(columns).to_pylist()

    before, keys = headers(), {row["key"] for row in rows(data).values()} - {None}
    native_log.erase(data, keys=keys)
    assert headers() == before
    assert {row["key"] for row in rows(data).values()} <= {None}


def test_tombstones_replace_the_records(data: Path) -> None:
    keys, before = some_keys(data), rows(data)

    native_log.erase(data, keys=keys, how="tombstone")

    after = rows(data)
    assert after.keys() == before.keys()
    for where, row in after.items():
        if row["key"] in keys:
            assert (row["value"], row["headers"]) == (None, None)
        else:
            assert row["value"] == before[where]["value"]
    check_files(data)
    assert native_log.erase(data, keys=keys, how="tombstone").num_rows == 0


def test_no_byte_of_a_dropped_key_is_left(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    all_keys = {row["key"] for row in rows(data).values()} - {None}
    keys = [key for key in some_keys(data) if len(key) > 4 and sum(key in other for other in all_keys) == 1]
    assert len(keys) > 3
    assert contained(data, keys) == set(keys)
    native_log.erase(data, keys=keys)
    assert contained(data, keys) == set()


@pytest.mark.parametrize("prefix", ["k1", b"\xd0"])
def test_key_prefixes(prefix: str | bytes, tmp_path: Path) -> None:
    data = copy("plain-lz4", tmp_path)
    before = rows(data)
    prefix_bytes = prefix.encode() if isinstance(prefix, str) else prefix
    erased = {where for where, row in before.items() if (row["key"] or b"").startswith(prefix_bytes)}
    assert erased
    native_log.erase(data, key_prefix=prefix)
    assert rows(data).keys() == before.keys() - erased


def test_headers_by_name_and_by_value(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    before = rows(data)
    with_headers = [row for row in before.values() if row["headers"]]
    header = with_headers[0]["headers"][0]
    name, value = header["key"], header["value"]

    def expected(*name_and_value: Any) -> set[tuple[Any, ...]]:
        return {
            where
            for where, row in before.items()
            for header in row["headers"] or []
            if (header["key"], header["value"])[: len(name_and_value)] == name_and_value
        }

    def selected(**conditions: Any) -> set[tuple[Any, ...]]:
        report = native_log.erase(data, dry_run=True, **conditions).to_pylist()
        return {(row["topic"], row["partition"], row["offset"]) for row in report}

    assert selected(header=name) == expected(name) != set()
    if value is not None:
        assert selected(header=(name, value)) == expected(name, value)
    assert selected(header=[(name, b"no such value"), "no such name"]) == set()
    key = some_keys(data)[0]
    with_key = {where for where, row in before.items() if row["key"] == key}
    assert selected(header=name, keys=[key]) == expected(name) | with_key


def test_records_that_consumers_do_not_see_are_erased_too(tmp_path: Path) -> None:
    """Records below the log start offset, and of aborted transactions."""
    data = copy("txn", tmp_path)
    before = rows(data)
    (topic, partition, _), *_ = before
    starts = read_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT)
    end = max(offset for t, p, offset in before if (t, p) == (topic, partition))
    write_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT, {**starts, (topic, partition): end})
    keys = {row["key"] for where, row in before.items() if where[:2] == (topic, partition)} - {None}

    report = native_log.erase(data, [topic], keys=list(keys)).to_pylist()

    expected = {where for where, row in before.items() if where[0] == topic and row["key"] in keys}
    assert {(row["topic"], row["partition"], row["offset"]) for row in report} == expected


def test_keys_as_an_arrow_array() -> None:
    data = FIXTURES["plain-none"] / "data"
    keys = some_keys(data)
    expected = native_log.erase(data, keys=keys, dry_run=True)
    assert native_log.erase(data, keys=pa.array(keys, pa.binary()), dry_run=True) == expected
    table = pa.table({"key": pa.array(keys, pa.large_binary())})
    assert native_log.erase(data, keys=table.column("key"), dry_run=True) == expected


class SparkDataFrame:
    """The part of a Spark DataFrame that `erase` uses."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._table = pa.table(columns)

    def toArrow(self) -> pa.Table:
        return self._table


@pytest.mark.parametrize("table", [pa.table, pa.record_batch, SparkDataFrame])
def test_keys_as_a_table_of_one_column(table: Callable[[dict[str, Any]], Any]) -> None:
    data = FIXTURES["plain-none"] / "data"
    keys = sorted(some_keys(data))
    expected = native_log.erase(data, keys=keys, dry_run=True)
    assert native_log.erase(data, keys=table({"id": pa.array([*keys, None])}), dry_run=True) == expected
    with pytest.raises(ValueError, match=r"one column.*id, name"):
        native_log.erase(data, keys=table({"id": keys, "name": keys}), dry_run=True)


INVALID_KEYS = [[17], pa.array([17]), pa.table({"id": [17]}), [None], [1.5, "k1"]]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"keys": []}, {"key_prefix": ""}, {"keys": ["a"], "how": "forget"}, {"key_prefix": ["a", ""]}]
    + [{"keys": keys} for keys in INVALID_KEYS],
)
def test_invalid_conditions_are_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        native_log.erase(FIXTURES["plain-none"] / "data", **arguments)


def test_copies_are_reported_and_leftover_files_removed(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    (topic, *_) = native_log.LogDir(data).topics()
    partition = data / f"{topic}-0"
    deleted = data / f"{topic}-0.{'0' * 32}-delete"
    shutil.copytree(partition, deleted)
    leftover = partition / f"{'9' * 18}.log.deleted"
    leftover.write_bytes(b"something")
    (partition / ".staging").mkdir()

    for dry_run in (True, False):
        report = native_log.erase(data, keys=["no such key"], dry_run=dry_run).to_pylist()
        assert {(row["status"], row["segment"]) for row in report} == {
            ("would be removed" if dry_run else "removed", str(leftover)),
            ("copy", str(deleted)),
            ("copy", str(partition / ".staging")),
        }
        assert leftover.exists() == dry_run
    assert deleted.exists()


MARK = "0123456789abcdef0123456789abcdef"


def test_topics_with_only_deleted_or_stray_directories_are_reported(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    renamed = [
        data / f"{name}.{MARK}-{kind}" for name in ("gone-0", "gone-1") for kind in ("delete", "stray")
    ]
    for path in renamed:
        shutil.copytree(data / "plain-none-0", path)

    def copies(*topics: str, **options: Any) -> set[str]:
        rows = native_log.erase(data, list(topics) or None, keys=["no such key"], **options).to_pylist()
        assert {row["topic"] for row in rows} <= {"gone"}
        return {row["segment"] for row in rows if row["status"] == "copy"}

    assert copies() == copies("gone") == copies("plain-none", "gone") == set(map(str, renamed))
    assert copies("plain-none") == copies(exclude_topics="gone") == set()


def test_a_directory_with_only_stray_partitions(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    keys, before = some_keys(data), rows(data)
    for partition in data.glob("plain-none-*"):
        partition.rename(data / f"{partition.name}.{MARK}-stray")

    report = native_log.erase(data, keys=keys).to_pylist()

    assert {row["status"] for row in report} == {"copy"}
    assert all("give its own path to erase there" in row["reason"] for row in report)
    for row in report:
        erased = native_log.erase(row["segment"], keys=keys).to_pylist()
        assert {row["status"] for row in erased} == {"erased"}
    log_dir = native_log.LogDir([row["segment"] for row in report])
    remaining = {
        row["key"]
        for directory in log_dir.partitions()
        for row in log_dir.partition(*directory.key).read().read_all().to_pylist()
    }
    assert remaining == {row["key"] for row in before.values()} - set(keys)


def test_a_directory_without_partitions_is_an_error(tmp_path: Path) -> None:
    native_log.LogDir.create(tmp_path / "logs")
    with pytest.raises(native_log.EmptyLogDirError, match="partitions to erase records from"):
        native_log.erase(tmp_path / "logs", keys=["k1"])


def test_unknown_files_are_reported(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    (data / "lost+found").mkdir()
    (data / "orders.bak").touch()
    (data / ".kafkalog-stream-x").write_text("{}")
    assert native_log.erase(data, keys=["no such key"], dry_run=True).num_rows == 0
    nothing = native_log.erase(data, keys=["no such key"], exclude_topics="plain-none", dry_run=True)
    assert nothing.num_rows == 0
    shutil.copytree(data / "plain-none-0", data / "nested" / "other-0")
    nested = native_log.erase([data, data / "nested"], keys=["no such key"], dry_run=True)
    assert nested.num_rows == 0  # it is searched, too
    shutil.rmtree(data / "nested")

    (data / "loop").symlink_to("loop")
    others = [data / "cut-off", data / "backup.tar", data / "plain-none-0" / "0.log.bak"]
    shutil.copytree(data / "plain-none-0", others[0] / "plain-none-0")
    for path in others[1:]:
        path.write_bytes(b"something")

    report = native_log.erase(data, keys=["no such key"], dry_run=True).to_pylist()

    assert {(row["status"], row["segment"]) for row in report} == {("copy", str(path)) for path in others}
    assert {row["topic"] for row in report} == {None, "plain-none"}
    alone = native_log.erase(data / "plain-none-1", keys=["no such key"], dry_run=True)
    assert alone.num_rows == 0  # the files next to a partition do not count if its own path was given


def test_a_truncated_topic_name_is_recognized(tmp_path: Path) -> None:
    topic = "t" * 249
    with native_log.LogDir.create(tmp_path) as logs:
        logs.create_topic(topic)
    stray = tmp_path / deleted_name(topic, 0, MARK)
    for path in (stray, tmp_path / deleted_name("u" * 249, 0, MARK), tmp_path / deleted_name("t", 0, MARK)):
        shutil.copytree(tmp_path / f"{topic}-0", path)
    (row,) = native_log.erase(tmp_path, topic, keys=["k"], dry_run=True).to_pylist()
    assert (row["status"], row["segment"]) == ("copy", str(stray))


@pytest.mark.parametrize("sign", ["remote-log-index-cache", "__remote_log_metadata-3"])
def test_tiered_storage_is_reported(sign: str, tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    (data / sign).mkdir()
    (data / sign / "00000000000000000000.index").touch()
    (row,) = native_log.erase(data, "plain-none", keys=["no such key"], dry_run=True).to_pylist()
    assert (row["status"], row["segment"]) == ("copy", str(data))
    assert "tiered storage" in row["reason"]


def test_staged_files_of_an_interrupted_compaction_are_removed(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    staging = data / "plain-none-0" / STAGING_DIRECTORY
    staging.mkdir()
    for dry_run in (True, False):
        (row,) = native_log.erase(data, keys=["no such key"], dry_run=dry_run).to_pylist()
        assert (row["status"], row["segment"]) == (
            "would be removed" if dry_run else "removed",
            str(staging),
        )
        assert staging.exists() == dry_run


def test_other_directories_of_a_partition_are_reported(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    shutil.copytree(data, tmp_path / "other")
    paths = [data / "plain-none-0", tmp_path / "other" / "plain-none-0"]

    alone = native_log.erase(paths[:1], keys=["no such key"], dry_run=True)
    both = native_log.erase(paths, keys=["no such key"], dry_run=True).to_pylist()

    assert alone.num_rows == 0  # the other partition of the topic is not a copy
    assert [row["segment"] for row in both] == [str(paths[1])]


def test_a_log_without_its_first_segments_is_reported(tmp_path: Path) -> None:
    """They may be in tiered storage."""
    data = copy("plain-none", tmp_path)
    partition = data / "plain-none-0"
    first = min(partition.glob("*.log"))
    for path in partition.glob(f"{first.stem}.*"):
        path.unlink()
    write_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT, {("plain-none", 0): 0})

    (row,) = native_log.erase(data, keys=["no such key"], dry_run=True).to_pylist()

    assert (row["status"], row["segment"]) == ("copy", str(partition))
    assert "tiered storage" in row["reason"]
    start = int(min(partition.glob("*.log")).stem)
    write_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT, {("plain-none", 0): start})
    assert native_log.erase(data, keys=["no such key"], dry_run=True).num_rows == 0


def test_the_files_of_a_removed_segment_do_not_hide_missing_ones(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    partition = data / "plain-none-0"
    first = min(partition.glob("*.log"))
    first.rename(f"{first}.deleted")  # its indexes stay
    write_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT, {("plain-none", 0): 0})
    report = native_log.erase(data, keys=["no such key"], dry_run=True).to_pylist()
    assert [row["segment"] for row in report if row["status"] == "copy"] == [str(partition)]


@pytest.mark.parametrize("byte", [-3, 6], ids=["record", "base-offset"])
@pytest.mark.parametrize("which", [0, -1])
def test_damage_fails_only_its_partition(which: int, byte: int, tmp_path: Path) -> None:
    data = copy("compact-idem", tmp_path)
    shutil.copytree(data / "compact-idem-0", data / "compact-idem-1")
    keys = some_keys(data)
    log = [path for path in sorted((data / "compact-idem-0").glob("*.log")) if path.stat().st_size][which]
    content = bytearray(log.read_bytes())
    content[byte] ^= 1
    log.write_bytes(content)
    before = files(data / "compact-idem-0")

    planned = as_done(native_log.erase(data, keys=keys, dry_run=True)).to_pylist()
    report = native_log.erase(data, keys=keys).to_pylist()

    assert planned == report
    (failed,) = (row for row in report if row["partition"] == 0)
    assert failed["status"] == "failed"
    assert f"{log}, position" in failed["reason"]
    assert failed["reason"].endswith(
        ("left as it was: take the file from another replica", "then erase again")
    )
    assert files(data / "compact-idem-0") == before
    assert {row["status"] for row in report if row["partition"] == 1} == {"erased"}


def test_a_kill_at_any_change_leaves_a_readable_log_and_the_next_run_finishes(tmp_path: Path) -> None:
    original = copy("compact-idem", tmp_path)
    keys, before = some_keys(original), rows(original)
    erase = partial(native_log.erase, keys=keys)
    for step in itertools.count(0, 3):
        data = shutil.copytree(original, tmp_path / "killed", copy_function=shutil.copy2)
        completed = survives(partial(erase, data), step)
        current = rows(data)
        assert current.keys() <= before.keys()
        assert {where for where, row in before.items() if row["key"] not in keys} <= current.keys()
        erase(data)
        assert {row["key"] for row in rows(data).values()}.isdisjoint(keys)
        check_files(data)
        if completed:
            break
        shutil.rmtree(data)
    assert step > 10


def test_an_erasure_that_fails_reports_what_it_has_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = copy("plain-none", tmp_path)
    keys, before = some_keys(data), rows(data)
    append = SegmentWriter.append

    def fail_later(output: SegmentWriter, content: memoryview, batches: pa.RecordBatch) -> None:
        if batches.column("lastOffset")[-1].as_py() > 200:
            raise OSError(28, "No space left on device")
        append(output, content, batches)

    monkeypatch.setattr(SegmentWriter, "append", fail_later)

    report = native_log.erase(data, keys=keys).to_pylist()

    assert [row["partition"] for row in report if row["status"] == "failed"] == [0, 1]
    erased = {(row["topic"], row["partition"], row["offset"]) for row in report if row["status"] == "erased"}
    assert 0 < len(erased) < sum(row["key"] in keys for row in before.values())
    assert rows(data).keys() == before.keys() - erased
    check_files(data)


def test_a_directory_in_use_is_rejected(tmp_path: Path) -> None:
    data = copy("plain-none", tmp_path)
    script = (
        "import sys; from pathlib import Path; from native_log.checkpoints.lock import LogDirLock\n"
        "with LogDirLock(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script, str(data)], **pipes) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(native_log.LogDirInUseError):
            native_log.erase(data, keys=["k1"])
        holder.communicate()


def test_a_record_that_is_left_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewritten logs are searched again."""
    data = copy("plain-none", tmp_path)
    monkeypatch.setattr("native_log.erasure.eraser.erase_records", lambda *_: None)
    report = native_log.erase(data, keys=some_keys(data)).to_pylist()
    failed = [row for row in report if row["status"] == "failed"]
    assert failed
    assert all("expected no selected record after the log was rewritten" in row["reason"] for row in failed)
