"""kafkalog dump-log, compared with the output of kafka-dump-log for the same files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from native_log.cli.app import kafkalog
from native_log.cli.dump_log import log_file
from native_log.cli.dump_log.control_records import format_control_record
from native_log.records import EncodeOptions, encode
from tests.builders.batches import Rec, batch, marker, v2
from tests.builders.golden import GOLDEN
from tests.builders.legacy import message
from tests.records.conftest import needs_kernel

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

DUMPS = sorted(GOLDEN.glob("**/dump-4.1.1.json.gz"))
TXN = GOLDEN / "kafka-4.1/txn/data/txn-0"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(kafkalog, ["dump-log", *(str(argument) for argument in arguments)])


def output(*arguments: object) -> list[str]:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout_bytes.decode().splitlines()


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: str(dump.parent.relative_to(GOLDEN)))
def test_output_is_that_of_kafka_dump_log(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dump.parent / "data"
    monkeypatch.chdir(data)
    printed: dict[str, Any] = json.loads(gzip.decompress(dump.read_bytes()))
    compared = 0
    for file_and_decoder, expected in printed.items():
        file, _, decoder = file_and_decoder.partition("#")
        how = [f"--{decoder}"] if decoder else ["--deep-iteration", "--print-data-log"]
        result = run(*how, file)
        if "exception" in expected:  # an index entry that points to no batch ends Kafka's tool, not this
            assert result.stdout.startswith(expected["stdout"]), file
            assert "log offset: -1" in result.stderr
            continue
        assert result.stdout_bytes.decode().rstrip("\n") == expected["stdout"].rstrip("\n"), file
        said = result.stderr.replace(f"{data}/", "")
        assert said.rstrip("\n") == expected.get("stderr", "").rstrip("\n"), file
        compared += 1
    assert compared > 3


GROUP, COMMIT = b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\3" + bytes(7) + b"\x64\0\0\0\5\0\0" + bytes(8)
TOPIC = b"\1\2\0\2t" + bytes(16) + b"\0"
TOLD = (
    "payload: RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{"
    f"topicIdPartition={'A' * 22}:t-3, id={'A' * 22}}}, customMetadata=Optional[CustomMetadata{{3 bytes}}], "
    "state=COPY_SEGMENT_FINISHED, eventTimestampMs=7, brokerId=0}"
)
UPLOADED = b"\1\1\0\2t" + bytes(16) + b"\0\0\0\3\0" + bytes(16) + b"\0" + bytes(11) + b"\7\4abc\1\0"


@pytest.mark.parametrize(
    ("decoder", "key", "value", "said"),
    [
        ("offsets", GROUP, COMMIT, '"offset":100,"leaderEpoch":5,"metadata":"","commitTimestamp":0}}'),
        (
            "offsets",
            GROUP,
            COMMIT + b"more",
            '"offset":100,"leaderEpoch":5,"metadata":"","commitTimestamp":0}}',
        ),
        (
            "offsets",
            GROUP,
            COMMIT[:-1],
            "key: Error at offset 7, skipping. Could not read the value: expected 8",
        ),
        (
            "offsets",
            GROUP,
            b"\0\x09" + COMMIT[2:],
            "Could not read the value: expected a version up to 4, found 9",
        ),
        ("offsets", GROUP, None, '"partition":3}} payload: <DELETE>'),
        ("offsets", b"\0\x63", b"", "key: Unknown record type 99 at offset 7, skipping."),
        ("offsets", None, COMMIT, "key: Error at offset 7, skipping. Expected a key, found none"),
        (
            "transaction-log",
            b"\0\0\xff\xff",
            b"",
            "Could not read the key: expected a value of transactionalId",
        ),
        ("share-group-state", b"\0", b"", "Could not read the key: expected 2 more bytes, found 1"),
        (
            "cluster-metadata",
            None,
            TOPIC,
            '{"type":"TOPIC_RECORD","version":0,"data":{"name":"t","topicId":"AAAA',
        ),
        (
            "cluster-metadata",
            None,
            TOPIC + b"xx",
            "payload: Error at 7, skipping. expected the end of a TOPIC_RECORD, found 2 more bytes",
        ),
        (
            "cluster-metadata",
            None,
            TOPIC[:-1],
            "payload: Error at 7, skipping. expected 1 more bytes, found 0",
        ),
        ("cluster-metadata", None, b"\2" + TOPIC[1:], "expected frame version 1, found 2"),
        ("cluster-metadata", None, b"\1\6\0", "unknown metadata record with id 6"),
        ("cluster-metadata", None, b"\1\2" + b"\xff" * 9, "expected a varint of 5 bytes at most"),
        (
            "cluster-metadata",
            None,
            b"\1\3\0" + bytes(20) + b"\xff\xff\xff\xff\7",
            "expected 2147483646 elements of",
        ),
        (
            "remote-log-metadata",
            None,
            UPLOADED,
            TOLD,
        ),
        ("remote-log-metadata", None, b"\1\4\0", "record with id 4 of version 0"),
        ("remote-log-metadata", None, b"\1\1\1", "record with id 1 of version 1"),
        ("remote-log-metadata", None, UPLOADED[:-2] + b"\x04\0", "unknown state 4 of a RemoteLogSegment"),
        ("remote-log-metadata", None, None, "payload: Error at offset 7, skipping. expected 1 more bytes"),
    ],
)
def test_records_of_internal_topics(
    tmp_path: Path, decoder: str, key: bytes | None, value: bytes | None, said: str
) -> None:
    rows = pa.record_batch({"key": pa.array([key], pa.binary()), "value": pa.array([value], pa.binary())})
    path = tmp_path / f"{7:020d}.log"
    path.write_bytes(encode(rows, EncodeOptions(), base_offset=7).data)
    assert said in output(f"--{decoder}-decoder", path)[-1]


def test_a_change_of_the_quorums_leader() -> None:
    """kafka-dump-log 4.1 cannot read version 1."""
    voter = b"\0\0\0\1" + b"\1" * 16 + b"\0"
    said = format_control_record(b"\0\0\0\2", b"\0\1\0\0\0\1\2" + voter + b"\2" + voter + b"\0")
    voters = '[{"voterId":1,"voterDirectoryId":"AQEBAQEBAQEBAQEBAQEBAQ"}]'
    assert said == f'LeaderChange: {{"version":1,"leaderId":1,"voters":{voters},"grantingVoters":{voters}}}'


def test_without_deep_iteration_there_are_batches_alone() -> None:
    lines = output("--files", f"{TXN / f'{0:020d}.log'},{TXN / f'{11:020d}.txnindex'}")
    assert lines[:2] == [f"Dumping {TXN / f'{0:020d}.log'}", "Log starting offset: 0"]
    assert all(line.startswith("baseOffset: ") for line in lines[2:4])
    assert lines[-1].startswith("version: 0 producerId: 51 ")


def test_keys_and_values_alone() -> None:
    lines = output("--skip-record-metadata", "--print-data-log", TXN / f"{0:020d}.log")
    assert "| key: k20 payload: shipped " in lines


def test_indexes_checked_only() -> None:
    index, times = (TXN / f"{11:020d}.{kind}" for kind in ("index", "timeindex"))
    assert output("--verify-index-only", index, times) == [f"Dumping {index}", f"Dumping {times}"]
    assert output("--index-sanity-check", index, times) == [
        f"Dumping {index}", f"{index} passed sanity check.",
        f"Dumping {times}", f"{times} passed sanity check.",
    ]  # fmt: skip


def test_an_index_that_is_not_of_its_log(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log").write_bytes(batch(0) + batch(3))
    second = len(batch(0))
    index = tmp_path / f"{0:020d}.index"
    index.write_bytes(b"".join(n.to_bytes(4, "big") for n in (4, second, 7, 9999)))
    result = run(index)
    assert result.stdout.splitlines()[1:] == [f"offset: 4 position: {second}", "offset: 7 position: 9999"]
    assert result.stderr == (
        f"Mismatches in :{index}\n  Index offset: 7, log offset: -1\n  Index offset: 4, log offset: 5\n"
    )


def test_records_before_damage_are_printed(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch(0) + b"\0" * 8 + b"\0\0\0\3" + b"x" * 100)
    result = run(path)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith("baseOffset: 0 lastOffset: 2")
    assert f"{path}, position {len(batch(0))}" in result.stderr


@pytest.mark.parametrize("option", ["--print-data-log", "--offsets-decoder"])
def test_records_before_damage_in_a_batch_are_printed(tmp_path: Path, option: str) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch(0) + v2([Rec(b"k"), Rec(b"k")], 3, record_count=3))
    result = run(option, path)
    assert result.exit_code == 1
    records = [line.split()[2] for line in result.stdout.splitlines() if line.startswith("| offset: ")]
    assert records == ["0", "1", "2", "3", "4"]
    assert f"{path}, position {len(batch(0))}, offset 3: " in result.stderr


def test_of_a_damaged_wrapper_only_its_line_is_printed(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(message(1, 0) + message(1, 1, None, b"no gzip", attributes=1))
    result = run("--print-data-log", path)
    assert result.exit_code == 1
    assert [line.split()[:3] for line in result.stdout.splitlines()[2:]] == [
        ["offset:", "0", "position:"], ["|", "offset:", "0"], ["offset:", "1", "position:"],
    ]  # fmt: skip
    assert "gzip" in result.stderr


def test_the_files_after_a_damaged_one_are_printed(tmp_path: Path) -> None:
    """kafka-dump-log ends there, except after a snapshot."""
    log, later = tmp_path / f"{0:020d}.log", tmp_path / f"{9:020d}.log"
    log.write_bytes(batch(0) + batch(5) + bytes(100))
    later.write_bytes(batch(9))
    snapshot, index = tmp_path / f"{9:020d}.snapshot", tmp_path / f"{9:020d}.index"
    snapshot.write_bytes(b"\0\1cut")
    index.write_bytes(b"\xff" * 8)
    result = run("--index-sanity-check", "--deep-iteration", log, snapshot, index, later)
    assert result.exit_code == 1
    printed = [line.split()[1] for line in result.stdout.splitlines() if line[0] in "Db"]
    assert printed == [str(log), "0", "5", str(snapshot), str(index), str(later), "9"]
    gap, _, *errors = result.stderr.splitlines()
    assert gap == f"Non-consecutive offsets in {log}"
    assert [line.split(",")[0].split(": ")[1] for line in errors] == [str(log), str(snapshot), str(index)]


def test_ranges_of_a_file_are_printed_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads format many ranges; batches that are formatted one by one, and gaps, are between them."""
    parts = []
    for offset in range(0, 4000, 40):
        parts += [batch(offset, 3), message(1, offset + 3), batch(offset + 4, 30), marker(offset + 35, 7)]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(parts))
    together = run("--print-data-log", path)
    monkeypatch.setattr(log_file, "_RANGE_BYTES", 1000)
    divided = run("--print-data-log", path)
    assert (divided.stdout, divided.stderr) == (together.stdout, together.stderr)
    records = [line for line in divided.stdout.splitlines() if line.startswith("| offset: ")]
    offsets = [int(line.split()[2]) for line in records]
    starts = range(0, 4000, 40)
    assert offsets == [start + number for start in starts for number in (*range(34), 35)]
    gaps = [pair for start in starts for pair in ((start + 33, start + 35), (start + 35, start + 40))][:-1]
    assert divided.stderr.splitlines() == [
        f"Non-consecutive offsets in {path}",
        *(f"  {before} is followed by {after}" for before, after in reversed(gaps)),
    ]


TAIL = (0).to_bytes(8, "big")


@pytest.mark.parametrize(
    "tail",
    [
        b"garbage",
        bytes(10),
        b"\x07" * 40,
        batch(3)[:12],
        batch(3)[:17],
        batch(3)[:-1],
        TAIL + (2**31 - 1).to_bytes(4, "big") + b"\2" * 30,
        TAIL + (500).to_bytes(4, "big") + bytes(4) + b"\x09" + b"x" * 30,  # an unknown magic
    ],
)
def test_bytes_after_the_last_batch_are_counted(tmp_path: Path, tail: bytes) -> None:
    """As in kafka-dump-log 4.1.1, the size field alone decides."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch(0) + tail)
    *_, last = output(path)
    assert last == f"Found {len(tail)} invalid bytes at the end of {path.name}"
    assert output("--max-bytes", len(batch(0)), path)[-1].startswith("baseOffset: 0 ")


@pytest.mark.parametrize(
    "tail",
    [
        b"\xff" * 40,
        bytes(100),
        TAIL + (13).to_bytes(4, "big") + bytes(4) + b"\2" + b"x" * 30,
        TAIL + (30).to_bytes(4, "big") + bytes(4) + b"\x09" + b"x" * 30,
    ],
)
def test_damage_within_the_file_ends_it_as_kafkas_tool(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch(0) + tail)
    assert run(path).exit_code == 1


@pytest.mark.parametrize("arguments", [(), ("--max-bytes", "-1", "x.log")])
def test_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_files_of_another_kind_and_missing_ones(tmp_path: Path) -> None:
    other = tmp_path / "meta.properties"
    other.write_text("version=1")
    result = run(other)
    assert (result.exit_code, result.stderr) == (0, f"Ignoring unknown file {other}\n")
    for name in (f"{0:020d}.log", "x.log", "x.index", "x.txnindex", "x.snapshot"):
        result = run(tmp_path / name)
        assert (result.exit_code, type(result.exception)) == (2, SystemExit)
        assert result.stderr == f"kafkalog: {tmp_path / name}: No such file or directory\n"


def test_a_file_name_without_an_offset_is_an_error(tmp_path: Path) -> None:
    for name in ("x.log", "x.index", "x.timeindex"):
        (tmp_path / name).write_bytes(bytes(24))
        result = run(tmp_path / name)
        assert (result.exit_code, type(result.exception)) == (2, SystemExit)
        assert f"{tmp_path / name}: expected a name like 00000000000000000042" in result.stderr


def test_a_directory_stands_for_its_logs() -> None:
    files = sorted(TXN.glob("*.log"))
    assert output(f"{TXN}/", "--deep-iteration") == output(*files, "--deep-iteration")
    result = run(TXN.parent)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{TXN.parent}: expected a partition directory" in result.stderr


def test_a_value_keeps_its_terminal_escapes(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    rows = pa.record_batch({"key": pa.array([None], pa.binary()), "value": [b"\x1b[31mred\x1b[0m"]})
    path.write_bytes(encode(rows, EncodeOptions(), base_offset=0).data)
    assert output("--print-data-log", path)[-1].endswith("payload: \x1b[31mred\x1b[0m")


@needs_kernel
def test_a_log_is_printed_without_arrow() -> None:
    """To import Arrow would take longer than to print most segments."""
    path = GOLDEN / f"kafka-4.1/plain-lz4/data/plain-lz4-0/{0:020d}.log"
    code = (
        "import sys, atexit\n"
        "loaded = lambda: print(sorted({'pyarrow', 'numpy', 'rich'} & sys.modules.keys()), file=sys.stderr)\n"
        "atexit.register(loaded)\n"
        "from native_log.cli import main\n"
        "sys.argv = ['kafkalog', 'dump-log', '--print-data-log', *sys.argv[1:]]\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    assert done.stderr == "[]\n"
