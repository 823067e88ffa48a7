"""Directories that someone else made: no forged file makes kafkalog change another one outside.

A copy of a small log directory is forged in one place. Then everything that changes log directories runs on
it. Each operation may succeed or raise an error, but files outside of the directory must stay as they are.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog_spark
import native_log
from kafkalog_spark.read.offset_state import (
    INITIAL_OFFSETS,
    LOG_IDENTITIES,
    LogIdentity,
    OffsetState,
    PlannedBatch,
)
from native_log import KafkaLogError, LogDir
from native_log.checkpoints import write_intent
from native_log.checkpoints.leader_epochs import LEADER_EPOCH_CHECKPOINT
from native_log.checkpoints.lock import LOCK_FILE
from native_log.checkpoints.meta_properties import META_PROPERTIES
from native_log.checkpoints.names import BOOTSTRAP_FILE
from native_log.checkpoints.offset_checkpoints import CHECKPOINT_FILES
from native_log.checkpoints.partition_metadata import PARTITION_METADATA
from native_log.checkpoints.write_intent import STREAM_PREFIX, WRITE_INTENT
from native_log.checkpoints.write_session import CLEAN_SHUTDOWN_FILE
from native_log.log.replacing.interrupted import STAGING_DIRECTORY
from native_log.producer import KafkaLogProducer
from native_log.producer.batch import TopicPartition
from native_log.producer.transaction_file import TRANSACTION_STATE
from native_log.publish import commit as publishing
from native_log.publish import job as jobs
from native_log.publish.job import WriteJob
from native_log.restoring.destination import REQUEST
from native_log.restoring.destination import UNFINISHED as UNFINISHED_RESTORE
from native_log.salvaging.destination import UNFINISHED
from native_log.segment.files import CLEANED, DELETED, INDEX, LOG, SNAPSHOT, SWAP, TIME_INDEX, file_name
from native_log.segment.files import TRANSACTION_INDEX as ABORTED_INDEX
from native_log.storage.writing import removal_name
from tests.builders.commits import records, stage, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUERY = "11111111-2222-3333-4444-555555555555"
JOB_NAME = "a stream"  # such a job always has the same id, which the files of a foreign directory can contain
SECONDS = 60
"""A named pipe must not block. The signal makes a test fail that would hang."""

KEPT_NAME = re.compile(
    r"\.kafka[a-z_-]+|\.lock|\.unfinished-[a-z]+|[a-z-]+\.json|[a-z-]+\.properties|[a-z]+\.metadata"
    r"|bootstrap\.checkpoint|[a-z-]+-checkpoint"
)
"""String constants that name files and folders which kafkalog keeps in a directory."""

JOB_ID = jobs.uuid.uuid5(jobs._JOB_NAMESPACE, JOB_NAME).hex
STAGED = {
    ".kafkalog-job-": f".kafkalog-job-{JOB_ID}",
    ".kafkalog-write-": f"t-0/.kafkalog-write-{JOB_ID}",
    STREAM_PREFIX: f"{STREAM_PREFIX}{QUERY}",
    STAGING_DIRECTORY: f"t-0/{STAGING_DIRECTORY}",
    PARTITION_METADATA: f"t-0/{PARTITION_METADATA}",
    LEADER_EPOCH_CHECKPOINT: f"t-0/{LEADER_EPOCH_CHECKPOINT}",
    UNFINISHED: f"../salvaged{UNFINISHED}",
    UNFINISHED_RESTORE: f"../restored{UNFINISHED_RESTORE}",
    REQUEST: f"../restored{UNFINISHED_RESTORE}/{REQUEST}",
    INITIAL_OFFSETS: f"state/{INITIAL_OFFSETS}",
    LOG_IDENTITIES: f"state/{LOG_IDENTITIES}",
}
IN_ROOT = (
    *(*CHECKPOINT_FILES, META_PROPERTIES, BOOTSTRAP_FILE, LOCK_FILE, CLEAN_SHUTDOWN_FILE),
    *(WRITE_INTENT, TRANSACTION_STATE),
)
KEPT = {**{name: name for name in IN_ROOT}, **STAGED}
"""Where the test puts each kept file or folder, by the constant in the code."""

SEGMENT_FILES = [
    f"t-0/{file_name(0, kind, state)}"
    for kind in (LOG, INDEX, TIME_INDEX, ABORTED_INDEX, SNAPSHOT)
    for state in ("", CLEANED, SWAP, DELETED)
]
MORE = [
    f".kafkalog-job-{JOB_ID}-ended",
    f"new-0.{JOB_ID}-delete",
    f"new-0.{JOB_ID}-delete/.kafkalog-write-{JOB_ID}",
    f"t-0/{removal_name(Path(STAGING_DIRECTORY)).name}",
    f"t-0/.kafkalog-write-{JOB_ID}-gone",
    f"t-0/.kafkalog-write-{JOB_ID}/0-0.batches",
    f"t-0/.kafkalog-write-{JOB_ID}/0-0.batches.headers",
]
PLACES = [*KEPT.values(), *SEGMENT_FILES, *MORE]
REPLACED = [f"{place}.tmp" for place in (*IN_ROOT, *KEPT.values(), f"t-0/{file_name(50, SNAPSHOT)}")]


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with a topic of two partitions, and most of the kept files."""
    data = tmp_path_factory.mktemp("template") / "data"
    LogDir.create(data)
    write(data, 0, 100, version=(QUERY, 0))
    with KafkaLogProducer(data, transactional_id="id") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x", partition=1)
        producer.abort_transaction()
    (data / "t-0" / STAGING_DIRECTORY).mkdir()
    return data


@pytest.fixture
def data(log_dir: Path, tmp_path: Path) -> Path:
    return shutil.copytree(log_dir, tmp_path / "data")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory that looks like a log directory with one partition."""
    folder = tmp_path / "outside"
    (folder / "t-0").mkdir(parents=True)
    for name in ("precious", "00000000000000000000.log", "t-0/00000000000000000000.log", "t-0/5.snapshot"):
        (folder / name).write_bytes(b"precious" * 500)
    return folder


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def fail(*_: object) -> None:
        raise AssertionError(f"expected no operation of {SECONDS} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def state(outside: Path) -> dict[str, tuple[object, ...]]:
    """Return everything about the files outside that an operation could change."""
    found = {}
    for path in (outside, *outside.rglob("*")):
        stat = path.lstat()
        content = path.read_bytes() if path.is_file() else sorted(os.listdir(path))  # noqa: PTH208
        found[str(path)] = (stat.st_mode, stat.st_size, stat.st_mtime_ns, stat.st_nlink, content)
    return found


def produce(data: Path) -> None:
    with KafkaLogProducer(
        data,
        transactional_id="id",
        max_block_ms=10_000,
        delivery_timeout_ms=500,
        request_timeout_ms=300,
        linger_ms=0,
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x", partition=0)
        producer.commit_transaction()


def append(data: Path) -> None:
    with LogDir(data).partition("t", 0) as log:
        log.append(records(0, 10))


def publish(topic: str) -> Callable[[Path], None]:
    def run(data: Path) -> None:
        job = WriteJob.begin(data, name=JOB_NAME)
        try:
            staged = stage(job, [(0, records(0, 10))], topic=topic)
            publishing.commit(job, staged, {}, 1, version=(QUERY, 1))
        finally:
            job.abort()

    return run


def keep_offsets(data: Path) -> None:
    kept = OffsetState(str(data / "state"))
    kept.initial_offsets()
    kept.initial_identities()
    kept.planned_batch()
    read = {TopicPartition("t", 0): LogIdentity(None, 1, None, 1)}
    kept.save_initial_offsets({TopicPartition("t", 0): 1}, read)
    kept.save_planned_batch(PlannedBatch({}, {TopicPartition("t", 0): 1}, {}, read))


def read(data: Path) -> None:
    logs = LogDir(data)
    for topic, numbers in logs.topics().items():
        for number in numbers:
            logs.partition(topic, number).read(mode="dropMalformed").read_all()


def salvage(data: Path) -> None:
    native_log.salvage(data, data.parent / "salvaged")


def restore(data: Path) -> None:
    native_log.restore(data, data.parent / "restored")


SMALL = {"segment.bytes": 1000, "retention.bytes": 0, "file.delete.delay.ms": 0}
LATER_MS = 2_000_000_000_000
OPERATIONS: dict[str, Callable[[Path], object]] = {
    "verify": native_log.verify,
    "read": read,
    "salvage": salvage,
    "restore": restore,
    "offset state": keep_offsets,
    "publish": publish("t"),
    "publish a new topic": publish("new"),
    "append": append,
    "produce": produce,
    "delete_records": lambda data: native_log.delete_records(data, {("t", 0): 10}),
    "erase": lambda data: native_log.erase(data, "t", key_prefix="k1"),
    "reindex": native_log.reindex,
    "compact": lambda data: native_log.compact(data, "t", {"cleanup.policy": "compact"}, LATER_MS),
    "retain": lambda data: native_log.retain(data, "t", SMALL, LATER_MS),
    "recover": lambda data: native_log.recover(data, from_start=True),
}


def run_all(data: Path, outside: Path) -> None:
    """Run each operation on a copy of its own, recovery without a clean shutdown."""
    before, forged = state(outside), data.with_name("forged")
    data.rename(forged)
    for name, operation in OPERATIONS.items():
        shutil.copytree(forged, data, symlinks=True, copy_function=copy_special)
        if name == "recover":
            (data / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
        with contextlib.suppress(KafkaLogError, OSError, ValueError):
            operation(data)
        assert state(outside) == before, f"{name} has changed files outside"
        shutil.rmtree(data, ignore_errors=True)
        for copy in ("salvaged", "restored"):
            shutil.rmtree(data.with_name(copy), ignore_errors=True)


def copy_special(source: str, target: str) -> None:
    if Path(source).is_fifo():
        os.mkfifo(target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def make_room(path: Path) -> None:
    """Remove what is at the path, and create the directory that contains it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def link_to_file(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "precious")


def link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "new")


def link_to_folder(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def named_pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


CASES = [(place, forge) for place in PLACES for forge in (link_to_file, link_to_folder, named_pipe)]
CASES += [(place, link_to_nothing) for place in KEPT.values()]
CASES += [(place, link_to_file) for place in REPLACED]


@pytest.mark.parametrize(("place", "forge"), CASES)
def test_what_is_no_regular_file(
    data: Path, outside: Path, place: str, forge: Callable[[Path, Path], None]
) -> None:
    path = Path(os.path.normpath(data / place))
    make_room(path)
    forge(path, outside)
    if place.endswith(LOG):  # recovery has something to truncate, and appending a file to change
        (data / CLEAN_SHUTDOWN_FILE).unlink()
    run_all(data, outside)


@pytest.mark.parametrize("suffix", [LOG, TIME_INDEX])
@pytest.mark.parametrize("settings", [{}, {"transactional_id": "id"}])
def test_a_producer_does_not_try_again(
    data: Path, outside: Path, suffix: str, settings: dict[str, str]
) -> None:
    """Its deadlines are two minutes and more."""
    path = data / "t-0" / file_name(0, suffix)
    path.rename(outside / "moved")
    path.symlink_to(outside / "moved")
    with KafkaLogProducer(data, settings) as producer:
        if settings:
            producer.init_transactions()
            producer.begin_transaction()
        future = producer.send("t", b"x", partition=0)
        producer.flush()
        with pytest.raises(OSError, match="expected a regular file, found a symbolic link"):
            future.get()


BACKUP = {
    "name": "t-0",
    "log_end_offset": 0,
    "planned_end_offset": 50,
    "sizes": {file_name(0, LOG): 0},
    "contents": {LEADER_EPOCH_CHECKPOINT: "MAowCg=="},
    "leader_epoch": 0,
    "high_watermark": 50,
}
INTENT = {
    "job": JOB_ID,
    "partitions": [BACKUP],
    "created": {f"new-0.{JOB_ID}-delete": "new-0"},
    "stream": None,
}
PATHS = (
    "../outside/t-0",
    "../outside",
    "..",
    "/outside/precious",
    "t-0/../../outside/t-0",
    "x/../../outside-0",
)
NO_STRINGS = (None, 1, ["t-0"], {"t-0": 1}, b"".decode(), "t-0\0", "-0", "t-0.x/../../outside/y-delete")


def intents() -> Iterator[dict[str, Any]]:
    for name in (*PATHS, *NO_STRINGS):
        yield {**INTENT, "partitions": [{**BACKUP, "name": name}]}
        yield {**INTENT, "created": {f"new-0.{JOB_ID}-delete": name}}
        yield {**INTENT, "stream": [name, 1]}
        if isinstance(name, str):
            yield {**INTENT, "created": {name: "new-0"}}
            yield {**INTENT, "partitions": [{**BACKUP, "sizes": {name: 3}}]}
            yield {**INTENT, "partitions": [{**BACKUP, "contents": {name: "MAowCg=="}}]}
    for file in ("../outside/precious", "/outside/precious", "../../outside/precious"):
        yield {**INTENT, "partitions": [{**BACKUP, "sizes": {file: 3}}]}
        yield {**INTENT, "partitions": [{**BACKUP, "contents": {file: "MAowCg=="}}]}
    for field in ("log_end_offset", "planned_end_offset", "leader_epoch"):
        for value in (-1, 2**63, "0", None, 1.5, True):
            yield {**INTENT, "partitions": [{**BACKUP, field: value}]}
    yield from ({**INTENT, "job": "../x"}, {**INTENT, "partitions": None}, {})


@pytest.mark.parametrize("intent", [*intents()])
def test_a_forged_write_intent_is_rejected(data: Path, outside: Path, intent: dict[str, Any]) -> None:
    before, text = state(outside), json.dumps(intent).replace('"/outside', f'"{outside}')
    (data / "new-0").mkdir()
    (data / WRITE_INTENT).write_text(text)
    for operation in (native_log.retain, native_log.recover, produce, read):
        with pytest.raises(KafkaLogError, match="expected a write intent") as raised:
            operation(data)
        assert raised.value.path == str(data / WRITE_INTENT)
    assert state(outside) == before
    assert (data / WRITE_INTENT).read_text() == text


def test_a_valid_write_intent_is_undone(data: Path) -> None:
    (data / "new-0").mkdir()
    (data / WRITE_INTENT).write_text(json.dumps(INTENT))
    native_log.retain(data)
    assert not (data / WRITE_INTENT).exists()
    assert not (data / "new-0").exists()
    assert (data / "t-0" / file_name(0, LOG)).stat().st_size == 0


@pytest.mark.parametrize(
    "change",
    [
        *({"partitions": [[topic, 0]]} for topic in ("../outside/t", "..", "a/b", "", None, 3)),
        *({"partitions": [["t", number]]} for number in ("0/../../outside", -1, 2**31, None, 0.5)),
        *({"partitions": partitions} for partitions in ("t-0", {"t": 0}, [["t"]], [None])),
        *({"producer_id": value} for value in (-1, 2**63, "1", None)),
        *({"producer_epoch": value} for value in (-1, 2**15, "1", None)),
        *({"updated_ms": value} for value in (-1, "1", None)),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", [0, 1])
def test_a_forged_transaction_state_is_rejected(
    data: Path, outside: Path, change: dict[str, Any], version: int
) -> None:
    before, path = state(outside), data / TRANSACTION_STATE
    valid = {"producer_id": 1, "producer_epoch": 0, "state": "Ongoing", "partitions": [], "updated_ms": 1}
    forged = {**valid, **change}
    if version == 0:
        path.write_text(json.dumps({"version": 0, "transactional_ids": {"id": forged}}))
    else:
        lines = [
            json.dumps({"version": 1, "ids": 2}),
            f'"id"\t{json.dumps(forged)}',
            f'"b"\t{json.dumps(valid)}',
        ]
        path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(KafkaLogError, match="expected the state of transactional producers") as raised:
        produce(data)
    assert raised.value.path == str(path)
    assert state(outside) == before


OWNER = {"host": "x", "boot": "y", "pid": 1, "started": "1"}
TEXTS = {
    **{
        name: ["0\n1\n../outside/t 0 0\n", "0\n1\nt/../../outside/t 0 5\n", "0\n1\nt 0 9999\n"]
        for name in CHECKPOINT_FILES
    },
    META_PROPERTIES: [
        "version=1\ncluster.id=../outside\nnode.id=1\ndirectory.id=../outside\n",
        "node.id=x\n",
    ],
    BOOTSTRAP_FILE: ["../outside", ""],
    LOCK_FILE: ["../outside"],
    CLEAN_SHUTDOWN_FILE: ["../outside"],
    WRITE_INTENT: [json.dumps(INTENT), "{", "[" * 100_000],
    TRANSACTION_STATE: ["{", "[" * 100_000, '{"version": 0, "transactional_ids": ["../outside"]}'],
    ".kafkalog-job-": [
        json.dumps({"owner": {**OWNER, **change}, "created_log_dir": True})
        for change in ({}, {"pid": "../outside"}, {"pid": -1}, {"host": 1}, {"more": 1}, {"boot": None})
    ]
    + ["[]", "{", '{"owner": null}'],
    ".kafkalog-write-": ["a file"],
    STREAM_PREFIX: ["{", json.dumps({**INTENT, "stream": ["../outside", 3]})],
    STAGING_DIRECTORY: ["a file"],
    PARTITION_METADATA: [
        "version: 0\ntopic_id: ../outside\n",
        "version: 0\ntopic_id: ../../../../../../..x_\n",
    ],
    LEADER_EPOCH_CHECKPOINT: ["0\n1\n../outside 0\n", "0\n1\n5 99999\n"],
    UNFINISHED: ["a file"],
    UNFINISHED_RESTORE: ["a file"],
    REQUEST: ["{", "[" * 100_000],
    INITIAL_OFFSETS: ["{", '{"version": 1, "offsets": {"../outside": {"../x": 1}}}', '{"version": 1}'],
    LOG_IDENTITIES: ["{", '{"version": 2, "start": {}, "end": {}, "logs": {"t": {"0": 3}}, "before": {}}'],
}
"""Forged contents, by the constant in the code."""


@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name, texts in TEXTS.items() for text in texts],
    ids=lambda text: text[:40],
)
def test_forged_contents(data: Path, outside: Path, name: str, text: str) -> None:
    path = Path(os.path.normpath(data / KEPT[name]))
    make_room(path)
    path.write_text(text)
    with contextlib.suppress(OSError):
        os.utime(path, (time.time() - 10 * 24 * 3600,) * 2)  # a job is then old enough to be abandoned
    run_all(data, outside)


def named_files() -> set[str]:
    """Return the string constants of the code that name kept files."""
    found = set()
    for package in (native_log, kafkalog_spark):
        for path in Path(package.__file__ or "").parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and KEPT_NAME.fullmatch(node.value)
                ):
                    found.add(node.value)
    return found


def test_each_kept_file_is_forged() -> None:
    """A new kept file has to be added to KEPT and TEXTS."""
    kept = named_files() - {".kafkalog-", "server.properties", "remote.metadata"}
    assert kept == KEPT.keys() == TEXTS.keys()


def test_a_stream_cannot_name_another_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected an id"):
        write_intent.last_stream_batch(tmp_path, "x/../../outside")


@pytest.mark.parametrize("forge", [link_to_folder, named_pipe, link_to_nothing])
def test_a_log_that_is_no_regular_file_is_reported(
    data: Path, outside: Path, forge: Callable[[Path, Path], None]
) -> None:
    path = data / "t-0" / file_name(0, LOG)
    path.unlink()
    forge(path, outside)
    problems = native_log.verify(data).to_pylist()
    assert [(row["kind"], row["path"]) for row in problems] == [("unreadable", str(path))]
    with pytest.raises(OSError, match=re.escape(str(path))):
        LogDir(data).partition("t", 0)


def test_recovery_does_not_truncate_through_a_link(data: Path, outside: Path) -> None:
    path, before = data / "t-0" / file_name(0, LOG), state(outside)
    path.unlink()
    path.symlink_to(outside / "precious")
    (data / CLEAN_SHUTDOWN_FILE).unlink()
    report = native_log.recover(data, from_start=True).to_pylist()
    assert any("found a symbolic link" in str(row) for row in report)
    assert state(outside) == before
