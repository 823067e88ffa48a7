"""kafkalog verify, recover, reindex."""

from __future__ import annotations

import errno
import json
import shutil
from os import truncate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import native_log
from native_log.cli import changes
from native_log.cli.app import kafkalog
from native_log.errors import UnknownTopicOrPartitionError
from native_log.log import PartitionLog
from native_log.log import verification as log_verification
from native_log.log.verification import verify_log
from native_log.logdir import LogDir, verification
from native_log.records import scan
from native_log.segment.search import BatchSearch
from tests.builders import cluster_metadata
from tests.builders.batches import ABORT, TRANSACTIONAL, batch, marker
from tests.builders.golden import GOLDEN, PARTITIONS, golden_id, open_golden
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from native_log.log.problems import Problem
    from native_log.logdir import PartitionDir
    from tests.builders.golden import GoldenPartition


def run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        kafkalog.main([str(arg) for arg in args], prog_name="kafkalog")
    return int(ended.value.code or 0), capsys.readouterr().out


def make_log(logs: Path) -> PartitionDir:
    """Create a partition whose leader-epoch-checkpoint fits the batches that the tests write."""
    (directory,) = LogDir.create(logs).create_topic("t")
    (directory.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return directory


def damaged(partition: GoldenPartition) -> bool:
    # v0-snappy and the like are among these; a garbage or missing index is a problem, too.
    names = ("corrupt-", "torn-", "crash", "noindex-removed", "compact-crash")
    return any(name in partition.fixture for name in names)


@pytest.mark.parametrize("partition", [p for p in PARTITIONS if not damaged(p)], ids=golden_id)
def test_undamaged_logs_of_brokers_have_no_problems(partition: GoldenPartition) -> None:
    assert [str(problem) for problem in verify_log(open_golden(partition))] == []


@pytest.mark.parametrize("partition", [p for p in PARTITIONS if damaged(p)], ids=golden_id)
@pytest.mark.parametrize("bytes_ahead", [1, 60_000, 8 << 20])
def test_threads_find_the_same_problems_in_the_same_order(
    partition: GoldenPartition, bytes_ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_verification, "_BYTES_AHEAD", bytes_ahead)
    log, steps = open_golden(partition), list[int]()
    alone = list(verify_log(log))
    for threads in (2, 5):
        steps.clear()
        assert list(verify_log(log, steps.append, threads)) == alone
        assert sum(steps) == log.size_bytes


def test_verify_reads_few_parts_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches between damage that is not skipped are separate parts, which take more memory than rows."""
    monkeypatch.setattr(BatchSearch, "skipper", None)
    read: list[object] = []
    read_all = log_verification.read_all_batches

    def counting(segment: Any) -> Any:
        for part in read_all(segment):
            read.append(part)
            yield part

    monkeypatch.setattr(log_verification, "read_all_batches", counting)
    (tmp_path / "t-0").mkdir()
    data = b"".join(batch(offset, 1) + b"\xff" * 20 for offset in range(1000))
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(data)
    log = PartitionLog.open(tmp_path / "t-0")
    next(log_verification._read_segments(log.segments, 2, lambda _: None))
    assert 100 < len(read) < 400


def write_segments(log_dir: Path, *segments: list[bytes], base_offsets: tuple[int, ...]) -> Path:
    """Write the segments of a partition of three records a batch, and return its directory."""
    directory = make_log(log_dir).path
    (directory / f"{0:020}.log").unlink()
    for base_offset, batches in zip(base_offsets, segments, strict=True):
        (directory / f"{base_offset:020}.log").write_bytes(b"".join(batches))
    native_log.reindex(log_dir, topics="t")
    return directory


@pytest.mark.parametrize(
    ("segments", "base_offsets", "expected"),
    [
        ([[batch(0)], [batch(3)]], (0, 3), []),
        ([[batch(0)], [batch(600), batch(603)]], (0, 600), [(600, 0, 3, "597 offsets in 1 gap")]),
        ([[batch(0), batch(9)], [batch(12)]], (0, 12), [(0, len(batch(0)), 3, "6 offsets in 1 gap")]),
        ([[batch(0)], [batch(9), batch(15)]], (0, 6), [(6, 0, 3, "9 offsets in 3 gaps")]),
        ([[batch(0)], [], [batch(9)]], (0, 6, 9), [(6, 0, 3, "3 offsets"), (9, 0, 6, "3 offsets")]),
    ],
)
def test_offsets_that_no_batch_has_are_missing(
    segments: list[list[bytes]],
    base_offsets: tuple[int, ...],
    expected: list[tuple[int, int, int, str]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = tmp_path / "logs"
    directory = write_segments(logs, *segments, base_offsets=base_offsets)

    assert native_log.verify(logs, "t").to_pylist() == []
    doubts = [message for message in caplog.messages if "policy of the topic is unknown" in message]
    assert len(doubts) == bool(expected) and all(str(directory) in doubt for doubt in doubts)

    cluster_metadata.store(logs, "t", {})
    found = native_log.verify(logs, "t").to_pylist()
    assert [(row["kind"], row["path"], row["position"], row["offset"]) for row in found] == [
        ("missing", f"{directory}/{base:020}.log", position, offset) for base, position, offset, _ in expected
    ]
    for row, (*_, text) in zip(found, expected, strict=True):
        assert text in row["problem"]
    assert run(capsys, "verify", "--topic", "t", logs)[0] == bool(expected)

    cluster_metadata.write(logs, cluster_metadata.config("t", "cleanup.policy", "compact"))
    assert native_log.verify(logs, "t").to_pylist() == []


def test_one_warning_names_the_first_logs_with_gaps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = tmp_path / "logs"
    first = write_segments(logs, [batch(0)], [batch(9)], base_offsets=(0, 9))
    for number in range(1, 7):
        shutil.copytree(first, logs / f"t-{number}")
    assert native_log.verify(logs, "t").num_rows == 0
    (warning,) = [message for message in caplog.messages if "have no records" in message]
    gaps = ", ".join(f"{logs}/t-{number} (6 offsets in 1 gap)" for number in range(5))
    assert warning.startswith(f"offsets have no records in 7 logs: {gaps}, and 2 more. ")


def test_offsets_that_damage_held_are_no_gap(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    bad = bytearray(batch(3))
    bad[-1] ^= 1
    segments = [[batch(0), bytes(bad), batch(6)], [batch(9), bytes(bad)], [batch(30)]]
    write_segments(logs, *segments, base_offsets=(0, 9, 30))
    cluster_metadata.store(logs, "t", {})
    assert "missing" not in native_log.verify(logs, "t").column("kind").to_pylist()


def test_verify_reports_damage_and_recover_removes_it(
    golden_copy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden_copy("kafka-4.1/corrupt-bad-crc")
    code, out = run(capsys, "verify", path)
    assert code == 1
    assert "00000000000000000080.log, position 2752, offset 119: expected the checksum" in out
    assert "1 partition checked, 1 problem\n" in out
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    code, out = run(capsys, "recover", "--dry-run", "--from-start", path)
    assert code == 1
    assert "would be truncated" in out and "position 2752" in out and "including 1 later segment" in out
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    code, out = run(capsys, "recover", "--yes", "--from-start", path)
    assert code == 0
    assert "offsets 0 to 119" in out
    assert (path / ".kafka_cleanshutdown").exists()
    assert (path / "recovery-point-offset-checkpoint").read_text() == "0\n1\ncorrupt-bad-crc 0 119\n"
    assert run(capsys, "verify", path) == (0, "1 partition checked, no problems\n")
    assert "undamaged; offsets 0 to 119" in run(capsys, "recover", path)[1]


@pytest.mark.parametrize("fixture", ["kafka-4.1/txn-noindex-removed", "kafka-3.9/txn-noindex-removed"])
def test_verify_reports_aborted_transactions_that_no_index_lists(
    golden_copy: Any, capsys: pytest.CaptureFixture[str], fixture: str
) -> None:
    path = golden_copy(fixture)
    code, out = run(capsys, "verify", path)
    assert code == 1
    assert ".txnindex" in out and "expected an entry for the aborted transaction" in out
    run(capsys, "reindex", path)
    assert run(capsys, "verify", path)[0] == 0


def entry(*fields: int) -> bytes:
    return b"".join(field.to_bytes(4, "big") for field in fields)


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("index", entry(5, 7), "no batch begins"),
        ("index", entry(5, len(batch(0)), 4, 3), "corrupt after the first 1 entries"),
        (
            "index",
            entry(2, len(batch(0))),
            "for offset 2, which lies before that position: lookups by offset miss records",
        ),
        ("index", entry(6, len(batch(0))), "for offset 6, but the segment ends at 5: a broker ends the log"),
        ("index", b"abc", "torn after the first 0 entries"),
        ("timeindex", entry(0, 77, 5), "lookups by time miss records"),
        ("timeindex", None, "the file is missing"),
        ("txnindex", b"x" * 35, "corrupt after the first 0"),
        ("snapshot", b"\0\1" + b"x" * 20, "expected a snapshot with checksum"),
    ],
)
def test_verify_reports_wrong_files_beside_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, data: bytes | None, said: str
) -> None:
    directory = make_log(tmp_path / "logs")
    (directory.path / f"{0:020d}.log").write_bytes(batch(0) + batch(3))
    assert run(capsys, "verify", directory.path)[0] == 0
    file = directory.path / f"{0:020d}.{kind}"
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)
    code, out = run(capsys, "verify", directory.path)
    assert code == 1
    assert str(file) in out and said in out
    assert run(capsys, "recover", directory.path)[0] == 0  # It rebuilds everything that it removes.
    assert run(capsys, "verify", directory.path)[0] == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (batch(0) + batch(2), "position 145, offset 3: expected a batch with offsets from 3 on"),
        (batch(0) + batch(3, count=2, last_offset_delta=0), "found [3, 4]"),
        (batch(0) + batch(3)[:-1], "position 145, offset 3: expected a batch of 145 bytes, found only 144"),
    ],
)
def test_verify_reports_wrong_batches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, said: str
) -> None:
    directory = make_log(tmp_path / "logs")
    (directory.path / f"{0:020d}.log").write_bytes(data)
    code, out = run(capsys, "verify", directory.path)
    assert code == 1
    assert said in out


def test_verify_continues_after_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_log(tmp_path / "logs")
    size = len(batch(0))
    garbage = b"\xff" * 40
    files = {
        0: batch(0) + batch(3, crc=1) + batch(6) + garbage + batch(9) + batch(12)[:-5],
        15: batch(15, crc=1) + batch(18) + batch(18) + batch(21)[:-1],
    }
    for base, data in files.items():
        (directory.path / f"{base:020d}.log").write_bytes(data)
        for kind in ("index", "timeindex"):
            (directory.path / f"{base:020d}.{kind}").touch()
    code, out = run(capsys, "verify", directory.path)
    replica = "Take the file from another replica"
    expected: list[tuple[int, int, int, list[str]]] = [
        (0, size, 3, ["checksum", f" {size} bytes, up to position {2 * size}", "offsets 3 to 5,", replica]),
        (0, 3 * size, 9, [f" 40 bytes, up to position {3 * size + 40}", "no offset is missing", replica]),
        (0, 4 * size + 40, 12, ["expected a batch of", f" {size - 5} bytes", "the end of the file", replica]),
        (15, 0, 15, ["checksum", f" {size} bytes, up to position {size}", "offsets 15 to 17", replica]),
        (15, 2 * size, 21, ["expected a batch with offsets from 21 on", "found 18 to 20", "end of the file"]),
    ]
    *lines, end = out.splitlines()
    assert (code, end) == (1, "1 partition checked, 5 problems")
    for line, (base, position, offset, phrases) in zip(lines, expected, strict=True):
        assert line.startswith(f"{directory.path}/{base:020d}.log, position {position}, offset {offset}: ")
        assert [phrase for phrase in phrases if phrase not in line] == [], line


def test_verify_reports_a_log_that_ends_below_its_high_watermark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = LogDir.create(tmp_path / "logs")
    logs.create_topic("t")
    with logs, logs.partition("t", 0, config={"segment.bytes": 1000}) as log:
        for _ in range(6):
            log.append(pa.record_batch({"value": [b"v" * 300] * 2}))
        *_, last = log.segments
        bases = last.base_offset, log.log_end_offset
    assert run(capsys, "verify", tmp_path / "logs")[0] == 0
    last.path.unlink()
    code, out = run(capsys, "verify", tmp_path / "logs")
    assert code == 1
    assert f"t-0, offset {bases[0]}: expected the log to reach its high watermark {bases[1]}" in out


def test_verify_reports_a_missing_segment_whose_index_exists(
    golden_copy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden_copy("kafka-4.1/corrupt-middle-missing")
    code, out = run(capsys, "verify", path)
    assert code == 1
    assert (
        f"{80:020d}.index, offset 80: the .log file of this index is missing: the offsets from "
        "80 to 160 are lost." in out
    )
    (partition,) = (child for child in path.iterdir() if child.is_dir())
    (partition / f"{161:020d}.log").unlink()
    assert "the offsets from 80 on are lost. " in run(capsys, "verify", path)[1]
    # Left of a removal that was interrupted.
    for base in (80, 161):
        (partition / f"{base:020d}.log.deleted").touch()
    assert ".log file of this index" not in run(capsys, "verify", path)[1]


def test_verify_reports_a_file_that_was_cut_off(golden_copy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Its indexes are right, and rebuilding them would remove what shows the loss."""
    path = golden_copy("kafka-4.1/plain-lz4") / "plain-lz4-1"
    log = path / f"{38:020d}.log"
    last, cut = scan(log.read_bytes()).batches.select(["lastOffset", "position"]).to_pylist()[1:3]
    truncate(log, cut["position"])
    code, out = run(capsys, "verify", path)
    assert code == 1
    assert (
        f"{log.name}, position {cut['position']}, offset {last['lastOffset'] + 1}: the file ends with offset "
        f"{last['lastOffset']}, but according to its time index it had offset 120. " in out
    )
    assert "reindex" not in out


@pytest.mark.parametrize("fixture", ["plain-none", "corrupt-size-13", "torn-keep16"])
def test_verify_reports_its_progress_and_can_be_stopped(golden_copy: Any, fixture: str) -> None:
    class StoppedError(Exception):
        pass

    log_dir = LogDir(golden_copy(f"kafka-4.1/{fixture}"))
    directory = log_dir.partitions()[0]
    log, steps = log_dir.partition(directory.topic, directory.partition), list[int]()
    list(verify_log(log, steps.append))
    assert sum(steps) == log.size_bytes
    assert min(steps) >= 0

    def stop(_: int) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        list(verify_log(log, stop))


@pytest.mark.parametrize("threads", [1, 3])
def test_partitions_keep_their_order(threads: int) -> None:
    names = ("corrupt-bad-crc", "plain-none", "corrupt-size-13")
    log_dir = LogDir([GOLDEN / "kafka-4.1" / name / "data" for name in names])
    partitions = log_dir.partitions() * 2
    steps: list[tuple[int, int]] = []
    problems_by_partition = verification.verify_partitions(
        log_dir, partitions, lambda *step: steps.append(step), threads
    )
    by_topic = [
        (partition.topic, [problem.kind for problem in problems])
        for partition, problems in problems_by_partition
    ]
    expected = {"corrupt-bad-crc": ["crc"], "corrupt-size-13": ["size"], "plain-none": []}
    assert by_topic == [(partition.topic, expected[partition.topic]) for partition in partitions]
    assert steps == sorted(steps)
    done, total = steps[-1]
    assert done == total


def test_a_closed_verification_checks_no_more_partitions(
    golden_copy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = LogDir(golden_copy("kafka-4.1/plain-none"))
    partitions, checked = log_dir.partitions() * 2000, []
    monkeypatch.setattr(verification, "verify_log", lambda log, *_: checked.append(log) or ())
    problems_by_partition = verification.verify_partitions(log_dir, partitions, threads=1)
    next(problems_by_partition)
    problems_by_partition.close()
    assert len(checked) < len(partitions)


def test_errors_of_the_system_are_problems(
    golden_copy: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreadable(*_: object) -> Iterator[Problem]:
        raise PermissionError(errno.EACCES, "Permission denied", "/logs/t-0/0.log")

    monkeypatch.setattr(verification, "verify_log", unreadable)
    output = (
        "/logs/t-0/0.log: Permission denied. Make it readable, or take it from another replica\n"
        "1 partition checked, 1 problem\n"
    )
    assert run(capsys, "verify", golden_copy("kafka-4.1/corrupt-bad-crc")) == (1, output)


def test_verify_takes_no_index_entry_of_damaged_bytes_for_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make_log(tmp_path / "logs")
    size = len(batch(0))
    (directory.path / f"{0:020d}.log").write_bytes(batch(0) + batch(3, crc=1) + batch(6))
    index = directory.path / f"{0:020d}.index"
    index.write_bytes(entry(5, size, 8, 2 * size))
    assert run(capsys, "verify", directory.path)[1].endswith("1 problem\n")
    index.write_bytes(entry(5, size, 8, 2 * size + 1))
    assert (
        "points to position 291 of the .log, where no batch begins"
        in run(capsys, "verify", directory.path)[1]
    )


def test_truncated_data_can_be_saved_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    (directory,) = log_dir.create_topic("t")
    (directory.path / f"{0:020d}.log").write_bytes(batch(0) + batch(3, crc=1) + batch(6))
    (directory.path / f"{9:020d}.log").write_bytes(batch(9))
    size = len(batch(0))
    arguments = ("recover", "--save-to", tmp_path / "saved", tmp_path / "logs")
    assert run(capsys, *arguments, "--dry-run")[0] == 1
    assert not (tmp_path / "saved").exists()
    code, out = run(capsys, *arguments)
    assert (code, "would be truncated at" in out) == (2, True)  # nobody can confirm it
    assert LogDir(tmp_path / "logs").partition("t", 0).segments[-1].base_offset == 9
    code, out = run(capsys, *arguments, "--yes")
    assert code == 0
    assert f"truncated at {directory.path}/{0:020d}.log, position {size}, offset 3: expected the" in out
    assert f"{3 * size} bytes including 1 later segment, with 6 readable records, are lost" in out
    saved = LogDir(tmp_path / "saved").partition("t", 0)
    read = saved.read(columns=["offset"], mode="dropMalformed")
    assert offsets(read) == [6, 7, 8, 9, 10, 11]
    assert offsets(LogDir(tmp_path / "logs").partition("t", 0).read(columns=["offset"])) == [0, 1, 2]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_in_a_terminal_a_truncation_is_shown_and_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    directory = make_log(tmp_path / "logs")
    log = directory.path / f"{0:020d}.log"
    log.write_bytes(batch(0) + b"torn")
    monkeypatch.setattr(changes, "_is_terminal", lambda: True)
    result = CliRunner().invoke(kafkalog, ["recover", str(directory.path)], input=f"{answer}\n")
    assert "would be truncated at" in result.output and "Proceed?" in result.output
    assert (log.read_bytes() == batch(0)) is (answer == "y")
    assert (result.exit_code == 0) is (answer == "y")


def test_a_log_that_cannot_be_recovered_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    bad, good = log_dir.create_topic("a")[0].path, log_dir.create_topic("b")[0].path
    (bad / f"{0:020d}.index").unlink()
    (bad / f"{0:020d}.index").mkdir()
    (good / f"{0:020d}.log").write_bytes(batch(0) + b"torn")
    with pytest.raises(SystemExit) as ended:
        kafkalog.main(["recover", "-y", str(tmp_path / "logs")], prog_name="kafkalog")
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert f"{0:020d}.index" in said.err
    assert "b-0: truncated at" in said.out
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "logs" / "recovery-point-offset-checkpoint").read_text() == "0\n2\na 0 0\nb 0 3\n"


@pytest.mark.parametrize("is_file", [False, True])
def test_recover_rebuilds_indexes_by_the_given_interval(
    is_file: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make_log(tmp_path / "logs")
    with LogDir(tmp_path / "logs").partition("t", 0, config={"index.interval.bytes": 0}) as log:
        for _ in range(5):
            log.append(pa.record_batch({"value": [b"v" * 100]}))
    index = directory.path / f"{0:020}.index"
    written = index.read_bytes()
    settings = tmp_path / "server.properties"
    settings.write_text("log.index.interval.bytes=0\n")
    given = ["--conf-file", settings] if is_file else ["--conf", "index.interval.bytes=0"]
    assert run(capsys, "recover", "--from-start", tmp_path / "logs")[0] == 0
    assert index.read_bytes() != written
    assert run(capsys, "recover", "--from-start", *given, tmp_path / "logs")[0] == 0
    assert index.read_bytes() == written
    code, _ = run(capsys, "recover", "--conf", "index.interval.bytes=-1", tmp_path / "logs")
    assert code == 2


@pytest.mark.parametrize("arguments", [["recover", "--from-start"], ["reindex"]])
def test_indexes_are_rebuilt_by_the_stored_interval(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = make_log(tmp_path / "logs")
    cluster_metadata.store(tmp_path / "logs", "t", {"index.interval.bytes": "0"})
    with LogDir(tmp_path / "logs").partition("t", 0) as log:
        for _ in range(5):
            log.append(pa.record_batch({"value": [b"v" * 100]}))
    index = directory.path / f"{0:020}.index"
    written = index.read_bytes()
    index.unlink()
    assert run(capsys, *arguments, tmp_path / "logs")[0] == 0
    assert index.read_bytes() == written


def test_an_invalid_stored_interval_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    make_log(tmp_path / "logs")
    cluster_metadata.store(tmp_path / "logs", "t", {"index.interval.bytes": "x"})
    assert run(capsys, "recover", tmp_path / "logs")[0] == 0
    assert "expected an integer, found 'x'; the stored configuration is ignored" in caplog.text


@pytest.mark.parametrize("command", ["recover", "reindex"])
def test_topics_and_directories_that_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    LogDir.create(tmp_path / "logs").create_topic("a")
    for arguments, said in (
        (("-t", "b", tmp_path / "logs"), "no topic b, but a"),
        ((tmp_path / "x",), "no such"),
    ):
        with pytest.raises(SystemExit) as ended:
            kafkalog.main([command, *map(str, arguments)], prog_name="kafkalog")
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["recover", "reindex"])
def test_rejected_while_another_writer_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    log_dir.create_topic("a")
    with log_dir.partition("a", 0) as log:
        log.append(pa.record_batch({"value": [b"x"]}))
        with pytest.raises(SystemExit) as ended:
            kafkalog.main([command, str(tmp_path / "logs")], prog_name="kafkalog")
        assert ended.value.code == 2
        assert "this very process" in capsys.readouterr().err
    assert run(capsys, "recover", tmp_path / "logs")[0] == 0


def test_reindex_restores_lost_indexes(golden_copy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden_copy("kafka-4.1/txn")
    (directory,) = (child for child in path.iterdir() if child.is_dir())
    transactions = {file.name: file.read_bytes() for file in directory.glob("*.txnindex")}
    assert transactions
    for kind in ("index", "timeindex", "txnindex"):
        for file in directory.glob(f"*.{kind}"):
            file.unlink()
    assert run(capsys, "verify", path)[0] == 1
    code, out = run(capsys, "reindex", path)
    assert (code, "indexed" in out) == (0, True)
    assert {file.name: file.read_bytes() for file in directory.glob("*.txnindex")} == transactions
    assert run(capsys, "verify", path)[0] == 0


def test_reindex_reports_damage(golden_copy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden_copy("kafka-4.1/corrupt-bad-crc")
    with pytest.raises(SystemExit) as ended:
        kafkalog.main(["reindex", str(path)], prog_name="kafkalog")
    assert ended.value.code == 1
    assert "position 2752" in capsys.readouterr().err


def test_recover_of_one_topic_does_not_mark_the_directory_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    log_dir.create_topic("a")
    log_dir.create_topic("b")
    shutil.copy(tmp_path / "logs" / ".kafka_cleanshutdown", tmp_path)
    (tmp_path / "logs" / ".kafka_cleanshutdown").unlink()
    (tmp_path / "logs" / "a-0" / f"{0:020d}.log").write_bytes(batch(0) + b"torn")
    code, out = run(capsys, "recover", "-y", "-t", "a", tmp_path / "logs")
    assert (code, out.count("\n")) == (0, 1)
    assert "4 bytes" in out
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    run(capsys, "recover", tmp_path / "logs")
    assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()


def test_a_dry_run_of_reindex_counts_the_segments_whose_indexes_differ(
    golden_copy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden_copy("kafka-4.1/txn")
    run(capsys, "reindex", path)
    assert "4 segments, the indexes of 0 would change" in run(capsys, "reindex", "--dry-run", path)[1]
    (directory,) = (child for child in path.iterdir() if child.is_dir())
    first, second, *_ = sorted(directory.glob("*.log"))
    first.with_suffix(".index").write_bytes(b"x" * 8)
    second.with_suffix(".timeindex").unlink()
    for file in directory.glob("*.txnindex"):
        file.write_bytes(b"")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    code, out = run(capsys, "reindex", "-n", path)
    differing = len({first.stem, second.stem} | {file.stem for file in before if file.suffix == ".txnindex"})
    assert (code, out) == (0, f"txn-0: 4 segments, the indexes of {differing} would change\n")
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert f"4 segments indexed, the indexes of {differing} changed" in run(capsys, "reindex", path)[1]


@pytest.mark.parametrize("command", ["verify", "recover", "reindex"])
def test_topics_can_be_excluded(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    log_dir = LogDir.create(tmp_path / "logs")
    for topic in ("a", "b"):
        log_dir.create_topic(topic)
    (tmp_path / "logs/.kafka_cleanshutdown").unlink()
    code, out = run(capsys, command, "--exclude-topic", "a", tmp_path / "logs")
    assert code == 0
    assert "1 partition checked" in out if command == "verify" else out.startswith("b-0: ")
    assert not (tmp_path / "logs/.kafka_cleanshutdown").exists()
    with pytest.raises(SystemExit) as ended:
        kafkalog.main([command, "--exclude-topic", "c", str(tmp_path / "logs")], prog_name="kafkalog")
    assert ended.value.code == 2
    assert "no topic c" in capsys.readouterr().err


def test_verify_reports_a_log_that_ends_before_its_start(
    golden_copy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = golden_copy("kafka-4.1/corrupt-undamaged")
    (path / "log-start-offset-checkpoint").write_text("0\n1\ncorrupt-bitflip-body 0 300\n")
    code, out = run(capsys, "verify", path)
    assert code == 1
    assert "expected the log to reach its start offset 300" in out
    run(capsys, "recover", "-y", path)
    assert run(capsys, "verify", path)[0] == 0


def test_verify_asks_for_no_transaction_that_ended_at_the_log_start(
    golden_copy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in brokers, producer state begins with the segment of the log start offset."""
    path = golden_copy("kafka-4.1/compact-txn/round2-before")
    (path / "log-start-offset-checkpoint").write_text("0\n1\ncompact-txn 0 951\n")
    run(capsys, "recover", "--from-start", path)
    assert "aborted transaction" not in run(capsys, "verify", path)[1]


@pytest.mark.parametrize("retained", [False, True])
def test_verify_asks_for_no_transaction_below_the_log_start(tmp_path: Path, retained: bool) -> None:
    """A broker that starts after DeleteRecords does not know it, so its marker gets no index entry."""
    abort_below_log_start(tmp_path, retained=retained)
    assert rows(tmp_path) == []


def test_verify_asks_for_a_transaction_that_the_log_start_divides(tmp_path: Path) -> None:
    abort_below_log_start(tmp_path, retained=False)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    assert [row["offset"] for row in rows(tmp_path)] == [6]


def abort_below_log_start(path: Path, *, retained: bool) -> None:
    """Delete the records of a transaction that is open, at offsets 0 to 5, and abort it."""
    with LogDir.create(path) as log_dir:
        log_dir.create_topic("t")
        log = log_dir.partition("t", 0)
        for sequence in (0, 3):
            data = batch(0, producer_id=7, producer_epoch=0, base_sequence=sequence, attributes=TRANSACTIONAL)
            log.append_batches(data)
    native_log.delete_records(path, {("t", 0): 6})
    if retained:
        native_log.retain(path)
    with LogDir(path) as log_dir:
        log_dir.partition("t", 0).append_batches(marker(0, 7, ABORT), origin="coordinator")


def rows(logs: object, **how: Any) -> list[dict[str, Any]]:
    table = native_log.verify(logs, **how)
    assert table.schema == native_log.PROBLEM_SCHEMA
    return table.to_pylist()


def test_verify_gives_a_row_for_each_problem(golden_copy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = golden_copy("kafka-4.1/corrupt-bad-crc"), GOLDEN / "kafka-4.1/plain-lz4/data"
    (row,) = rows([bad, good])
    assert (row["topic"], row["partition"], row["kind"]) == ("corrupt-bad-crc", 0, "crc")
    assert row["path"] == f"{bad}/corrupt-bad-crc-0/{80:020d}.log"
    assert (row["position"], row["offset"]) == (2752, 119)
    assert "checksum" in row["problem"] and "another replica" in row["advice"]
    assert rows(good) == rows([bad, good], topics="plain-lz4") == []
    assert rows([bad, good], exclude_topics=["corrupt-bad-crc"]) == []
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic x"):
        rows(bad, topics=["x"])
    code, out = run(capsys, "verify", "--json", bad, good)
    assert (code, [json.loads(line) for line in out.splitlines()]) == (1, [row])
    assert run(capsys, "verify", "--json", good) == (0, "")


def test_recover_as_json(golden_copy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden_copy("kafka-4.1/corrupt-bad-crc")
    assert run(capsys, "recover", "--json", path)[0] == 2  # no one can be asked
    planned = run(capsys, "recover", "--json", "--from-start", "--dry-run", path)
    done = run(capsys, "recover", "--json", "--from-start", "--yes", path)
    assert (planned[0], done[0]) == (1, 0)
    assert planned[1] == done[1].replace('"cut"', '"would be cut"', 1)
    (row,) = map(json.loads, done[1].splitlines())
    assert (row["topic"], row["status"], row["logEndOffset"]) == ("corrupt-bad-crc", "cut", 119)
    (cut,) = row["cut"]
    assert (cut["position"], cut["offset"]) == (2752, 119)
    assert "checksum" in cut["reason"] == row["reason"]
    again = json.loads(run(capsys, "recover", "--json", "--from-start", "--dry-run", path)[1])
    assert (again["status"], again["bytesLost"], again["cut"]) == ("whole", 0, [])


def test_recover_reports_the_damage_that_it_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_log(tmp_path / "logs")
    (directory.path / f"{0:020d}.log").write_bytes(batch(0) + batch(3) + batch(3) + batch(6))
    for option in ("--dry-run", "--yes"):
        code, out = run(capsys, "recover", "--from-start", option, directory.path)
        assert code == 1
        assert (
            f"{0:020d}.log, position {2 * len(batch(0))}, offset 3, which a broker's recovery does not repair"
            in out
        )
    row = json.loads(run(capsys, "recover", "--json", "--from-start", "--yes", directory.path)[1])
    assert (row["status"], [damage["position"] for damage in row["damageKept"]]) == (
        "whole",
        [2 * len(batch(0))],
    )


def test_recover_skips_the_controllers_log(golden_copy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden_copy("kafka-4.1/whole-broker")
    log = path / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-3])
    (row,) = (problem for problem in rows(path) if problem["kind"] == "torn")
    assert "The controller truncates it when it starts" in row["advice"]
    before = log.read_bytes()
    out = run(capsys, "recover", "--yes", path)[1]
    assert "__cluster_metadata-0: skipped; the controller recovers it" in out
    assert log.read_bytes() == before
    for arguments in (("-t", "__cluster_metadata", path), (log.parent,)):
        with pytest.raises(SystemExit) as ended:
            kafkalog.main(["recover", *map(str, arguments)], prog_name="kafkalog")
        assert ended.value.code == 2
        assert "__cluster_metadata is left to the controller" in capsys.readouterr().err


EPOCHS = [*[batch(i, leader_epoch=1) for i in (0, 3, 6)], *[batch(i, leader_epoch=4) for i in (9, 12)]]


@pytest.mark.parametrize(
    ("batches", "checkpoint", "expected"),
    [
        (EPOCHS, "0\n2\n1 0\n4 9\n", []),
        (EPOCHS, "0\n3\n1 0\n2 7\n4 8\n", [("leader-epoch-checkpoint", None, 8)]),  # none has epoch 2
        (EPOCHS, "0\n3\n0 0\n1 0\n4 9\n", [("leader-epoch-checkpoint", None, 0)]),
        (EPOCHS, "0\n1\n1 0\n", [("leader-epoch-checkpoint", None, 9)]),
        (EPOCHS, "0\n1\n4 9\n", []),  # what a removed segment began is not in it any more
        (EPOCHS, "0\n1\n0 0\n", [("leader-epoch-checkpoint", None, 0), ("leader-epoch-checkpoint", None, 9)]),
        (EPOCHS, "", [("leader-epoch-checkpoint", None, 0)]),
        (EPOCHS, None, [("leader-epoch-checkpoint", None, 0)]),
        (
            [EPOCHS[0], batch(3, leader_epoch=5), *EPOCHS[2:]],
            "0\n2\n1 0\n4 9\n",
            [("00000000000000000000.log", len(batch(0)), 3)],
        ),
        (
            [*EPOCHS, batch(15, leader_epoch=2), batch(18, leader_epoch=2)],
            "0\n2\n1 0\n4 9\n",
            [("00000000000000000000.log", 5 * len(batch(0)), 15)],
        ),
        ([batch(0, leader_epoch=-1)], None, []),
    ],
)
def test_leader_epochs(
    tmp_path: Path, batches: list[bytes], checkpoint: str | None, expected: list[tuple[str, int | None, int]]
) -> None:
    directory = make_log(tmp_path / "logs")
    (directory.path / f"{0:020d}.log").write_bytes(b"".join(batches))
    file = directory.path / "leader-epoch-checkpoint"
    file.unlink()
    if checkpoint is not None:
        file.write_text(checkpoint)
    problems = [row for row in rows(directory.path) if row["kind"] == "leader-epochs"]
    assert [
        (problem["path"].rpartition("/")[2], problem["position"], problem["offset"]) for problem in problems
    ] == expected
