"""The reading commands, on directories that brokers wrote."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import native_log
from native_log.cli.app import kafkalog
from native_log.log import readable_log
from native_log.records import IMPLEMENTATION
from tests.builders.golden import GOLDEN, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

V41 = GOLDEN / "kafka-4.1"
WHOLE_BROKER = V41 / "whole-broker/data"
EVENTS_0 = WHOLE_BROKER / "events-0"


def run(*arguments: object) -> Result:
    readable_log._warn_once.cache_clear()  # as in a new process
    return CliRunner().invoke(kafkalog, [str(argument) for argument in arguments])


def output(*arguments: object) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return str(result.stdout)


def records(*arguments: object) -> list[dict[str, Any]]:
    """Return the output of `cat --format json` in the form of conftest.read_rows, with data as bytes."""

    def plain(value: str | dict[str, str] | None) -> bytes | None:
        if isinstance(value, dict):
            return base64.b64decode(value["base64"])
        return None if value is None else value.encode()

    rows = []
    for line in output("cat", *arguments, "--format", "json").splitlines():
        row = json.loads(line)
        row["key"], row["value"] = plain(row["key"]), plain(row["value"])
        if "headers" in row:
            row["headers"] = [(header["key"], plain(header["value"])) for header in row["headers"] or []]
        rows.append(row)
    return rows


def offsets(*arguments: object) -> list[int]:
    return [row["offset"] for row in records(*arguments)]


def golden_rows(
    fixture: str, partition: int = 0, isolation_level: str = "read_uncommitted"
) -> list[dict[str, Any]]:
    folder = GOLDEN / fixture
    expected = json.loads((folder / "expected.json").read_text())["partitions"][partition]
    committed = isolation_level == "read_committed" and expected["rowsCommitted"]
    return read_rows(folder / (committed or expected["rows"])["file"])


def on_terminal(width: int, *arguments: object) -> list[str]:
    """Return the lines that a command prints on a terminal of this width."""
    controller, terminal = pty.openpty()
    try:
        termios.tcsetwinsize(terminal, (24, width))
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        command = [sys.executable, "-m", "native_log", *map(str, arguments)]
        subprocess.run(command, stdout=terminal, check=True, env=environment)
        os.close(terminal)
        data = b""
        with contextlib.suppress(OSError):  # the end of the terminal's output
            while part := os.read(controller, 65536):
                data += part
        return data.decode().replace("\r\n", "\n").splitlines()
    finally:
        os.close(controller)


class TestRecordsAboveTheHighWatermark:
    """A broker that has just started has not checkpointed its high watermarks yet."""

    @pytest.fixture
    def data(self, golden_copy: Callable[[str], Path]) -> Path:
        data = golden_copy("kafka-4.1/whole-broker")
        (data / "replication-offset-checkpoint").write_text("0\n1\nevents 0 5\n")
        return data

    def test_nothing_but_a_reason_is_printed(self, data: Path) -> None:
        result = run("cat", data, "-t", "state", "-t", "payments", "--high-watermark", "checkpoint")
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr.startswith("kafkalog: 501 offsets are not read in 2 partitions: above the high")
        assert result.stderr.count("\n") == 1

    def test_there_is_no_reason_if_records_are_printed(self, data: Path) -> None:
        result = run("cat", data, "-t", "events", "--high-watermark", "checkpoint")
        assert (len(result.stdout.splitlines()), result.stderr) == (5, "")

    def test_records_that_do_not_match_are_read(self) -> None:
        assert output("cat", WHOLE_BROKER, "-t", "state", "--key", "nokey") == ""


class TestVersion:
    def test_version_and_implementation(self) -> None:
        assert output("--version") == f"kafkalog {native_log.__version__} (records: {IMPLEMENTATION})\n"

    def test_without_a_command_the_help_is_shown(self) -> None:
        assert "Commands:" in output()


class TestLs:
    def test_json_has_the_offsets_of_the_broker(self) -> None:
        listed = json.loads(output("ls", WHOLE_BROKER, "--json"))
        (log_dir,) = listed["logDirs"]
        assert (log_dir["nodeId"], log_dir["cleanShutdown"], log_dir["lockedBy"]) == (1, True, None)
        by_name = {
            (partition["topic"], partition["partition"]): partition for partition in listed["partitions"]
        }
        assert len(by_name) == 12
        for expected in json.loads((V41 / "whole-broker/expected.json").read_text())["partitions"]:
            partition = by_name[expected["topic"], expected["partition"]]
            assert (partition["logStartOffset"], partition["logEndOffset"]) == (
                expected["earliest"],
                expected["latest"],
            )
            assert partition["highWatermark"] == expected["latest"]
            rows = read_rows(V41 / "whole-broker" / expected["rows"]["file"])
            times = (rows[0]["timestamp"], rows[-1]["timestamp"]) if rows else (None, None)
            assert (partition["firstTimestamp"], partition["lastTimestamp"]) == times
            logs = list((V41 / "whole-broker" / expected["dir"]).glob("*.log"))
            assert partition["segments"] == len(logs)
            assert partition["sizeInBytes"] == sum(log.stat().st_size for log in logs)
        policies = {
            key: (partition["cleanupPolicy"], partition["policySource"]) for key, partition in by_name.items()
        }
        assert policies["state", 0] == ("compact", "topic")
        assert policies["events", 0] == ("delete", "default")
        assert policies["__cluster_metadata", 0] == (None, "internal")
        assert by_name["state", 0]["config"]["min.cleanable.dirty.ratio"] == "0.01"
        assert by_name["__cluster_metadata", 0]["config"] is None

    def test_a_table_for_people(self) -> None:
        lines = output("ls", WHOLE_BROKER).splitlines()
        assert lines[0] == f"{WHOLE_BROKER}  (cluster Z29sZGVuLWZpeHR1cmVzMQ, broker 1, cleanly shut down)"
        assert lines[1].split()[:7] == ["TOPIC", "PARTITION", "START", "END", "HW", "SIZE", "SEGMENTS"]
        (trimmed,) = [line.split() for line in lines if line.startswith("trimmed")]
        assert trimmed[:7] == ["trimmed", "0", "75", "270", "270", "25", "KiB"]
        assert trimmed[-2:] == ["delete", "(default)"]
        assert next(line.split()[-1] for line in lines if line.startswith("state")) == "compact"
        assert lines[-1] == "7 topics, 12 partitions, 24 segments, 96 KiB"

    def test_topics_can_be_picked(self) -> None:
        listed = json.loads(output("ls", WHOLE_BROKER, "--json", "-t", "events", "-t", "state"))
        assert [(partition["topic"], partition["partition"]) for partition in listed["partitions"]] == [
            ("events", 0),
            ("events", 1),
            ("events", 2),
            ("state", 0),
        ]

    def test_each_log_dir_has_its_table(self) -> None:
        tables = output("ls", V41 / "jbod/data/dir1", V41 / "jbod/data/dir2").split("\n\n")
        assert [len(table.splitlines()) for table in tables] == [5, 4, 1]

    def test_a_narrow_terminal_shows_fewer_columns(self) -> None:
        wide = output("ls", WHOLE_BROKER, "-t", "events").splitlines()
        assert on_terminal(max(map(len, wide[1:])), "ls", WHOLE_BROKER, "-t", "events") == wide
        narrow = on_terminal(80, "ls", WHOLE_BROKER, "-t", "events")
        assert max(map(len, narrow[1:])) <= 80
        assert narrow[1].split() == [
            *("TOPIC", "PARTITION", "START", "END", "HW", "SIZE", "SEGMENTS", "LAST", "TIME")
        ]
        assert re.fullmatch(r"events .* \d{4}-\d\d-\d\dT\d\d:\d\dZ", narrow[2])
        assert narrow[-1] == "not shown in 80 columns: FIRST TIME, POLICY"

    def test_deleted_directories(self) -> None:
        assert "gone (delete)" in output("ls", WHOLE_BROKER, "--include-deleted")

    def test_one_bad_partition_does_not_hide_the_others(self, golden_copy: Callable[[str], Path]) -> None:
        data = golden_copy("kafka-4.1/whole-broker")
        with open(data / "state-0/00000000000000000424.log", "r+b") as file:
            file.truncate(2**31)  # sparse; a segment cannot be as large
        result = run("ls", data)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"kafkalog: {data / 'state-0'}")
        assert result.stdout.splitlines()[-1].startswith("6 topics, 11 partitions")

    @pytest.mark.parametrize(
        "fixture", ["kafka-4.1/corrupt-bad-crc", "kafka-4.1/crash-empty", "kafka-2.8/torn-keep16"]
    )
    def test_damaged_logs_are_listed(self, fixture: str) -> None:
        result = run("ls", GOLDEN / fixture / "data")
        assert result.exit_code == 0
        assert "1 partition" in result.stdout


class TestCat:
    @pytest.mark.parametrize(
        "fixture",
        [
            "kafka-2.8/mixed",
            "kafka-2.8/v0-none",
            "kafka-4.1/plain-mixed",
            "kafka-4.1/offsets-gap",
            "kafka-4.1/compact-tomb-keep/round2-after",
        ],
    )
    def test_json_has_the_records_of_a_consumer(self, fixture: str) -> None:
        expected = golden_rows(fixture)
        actual = records(GOLDEN / fixture / "data", "--include-headers")
        for row in expected:
            row.pop("leaderEpoch")
        for row in actual:
            row.pop("topic"), row.pop("partition")
        assert actual == expected

    def test_arrow_is_a_stream_of_the_same(self, tmp_path: Path) -> None:
        file = tmp_path / "out.arrows"
        assert output("cat", V41 / "txn/data", "-f", "arrow", "--include-headers", "-o", file) == ""
        with pa.ipc.open_stream(file) as stream:
            table = stream.read_all()
        expected = golden_rows("kafka-4.1/txn")
        assert table.column("offset").to_pylist() == [row["offset"] for row in expected]
        assert table.column("value").to_pylist() == [row["value"] for row in expected]
        assert table.column_names[-1] == "headers"

    def test_an_empty_arrow_stream_has_its_schema(self) -> None:
        result = run("cat", V41 / "crash-empty/data", "-f", "arrow")
        assert result.exit_code == 0
        assert pa.ipc.open_stream(result.stdout_bytes).read_all().num_rows == 0

    def test_text_is_a_line_a_record(self) -> None:
        lines = output("cat", EVENTS_0, "--limit", 3).split("\n")
        assert [line.split("\t")[:2] for line in lines] == [
            ["events-0", "0"],
            ["events-0", "1"],
            ["events-0", "2"],
            [""],
        ]

    @pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
    def test_isolation_levels(self, isolation_level: str) -> None:
        expected = [
            row["offset"] for row in golden_rows("kafka-4.1/txn-lz4", isolation_level=isolation_level)
        ]
        assert offsets(V41 / "txn-lz4/data", "--isolation-level", isolation_level) == expected
        tail = offsets(V41 / "txn-lz4/data", "--isolation-level", isolation_level, "--tail", 7)
        assert tail == expected[-7:]

    def test_an_open_transaction_is_reported(self) -> None:
        result = run("cat", V41 / "txn/data", "--isolation-level", "read_committed", "--format", "json")
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) == len(golden_rows("kafka-4.1/txn", 0, "read_committed"))
        assert "read_committed ends at offset 207, and the log at 223: a transaction is open" in result.stderr

    @pytest.mark.parametrize(
        "fixture",
        [
            "kafka-4.1/offsets-gap",
            "kafka-4.1/compact-txn/round3-after",
            "kafka-2.8/v1-gzip",
            "kafka-4.1/torn-keep61",
        ],
    )
    @pytest.mark.parametrize("count", [0, 1, 2, 30, 100, 100_000])
    def test_tail_is_the_last_records(self, fixture: str, count: int) -> None:
        expected = [row["offset"] for row in golden_rows(fixture)]
        result = run("cat", GOLDEN / fixture / "data", "--tail", count, "--format", "json")
        printed = [json.loads(line)["offset"] for line in result.stdout.splitlines()]
        assert printed == expected[len(expected) - min(count, len(expected)) :]
        # A torn end is reported, once in a process.
        assert not result.stderr or ("torn" in fixture and "are ignored" in result.stderr)

    def test_tail_does_not_read_earlier_segments(self, golden_copy: Callable[[str], Path]) -> None:
        data = golden_copy("kafka-4.1/plain-none")
        first = data / "plain-none-0/00000000000000000000.log"
        first.write_bytes(b"\xff" * first.stat().st_size)
        assert (
            offsets(data, "-p", 0, "--tail", 3)
            == [row["offset"] for row in golden_rows("kafka-4.1/plain-none")][-3:]
        )

    def test_tail_of_several_partitions_is_of_each(self) -> None:
        printed = records(WHOLE_BROKER, "-t", "events", "--tail", 2)
        assert [(row["partition"], row["offset"]) for row in printed] == [
            (0, 193),
            (0, 194),
            (1, 128),
            (1, 129),
            (2, 193),
            (2, 194),
        ]

    def test_offsets_limit_the_output(self) -> None:
        assert offsets(EVENTS_0, "--offset", 90, "--end-offset", 93) == [90, 91, 92]
        assert offsets(EVENTS_0, "--offset", 190) == [190, 191, 192, 193, 194]
        assert offsets(EVENTS_0, "--offset", 90, "--end-offset", 93, "--tail", 2) == [91, 92]
        assert offsets(EVENTS_0, "--offset", 90, "--end-offset", 90) == []
        assert offsets(EVENTS_0, "--offset", 195) == []

    def test_an_offset_outside_of_the_log_is_pointed_out(self) -> None:
        result = run("cat", WHOLE_BROKER / "trimmed-0", "--offset", 10, "--limit", 1, "-f", "json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["offset"] == 75
        assert result.stderr == (
            "kafkalog: trimmed-0 has offsets from 75 up to 270 (exclusive): offset 10 is before them\n"
        )

    def test_times_limit_the_output(self) -> None:
        rows = golden_rows("kafka-4.1/timestamps")
        data = V41 / "timestamps/data"
        for time_ms in (
            rows[0]["timestamp"],
            rows[100]["timestamp"],
            max(row["timestamp"] for row in rows) + 1,
        ):
            later = [row["offset"] for row in rows if row["timestamp"] >= time_ms]
            earlier = [row["offset"] for row in rows if row["timestamp"] < time_ms]
            assert offsets(data, "--from", time_ms) == later
            assert offsets(data, "--until", time_ms) == earlier
            assert offsets(data, "--until", time_ms, "--tail", 5) == earlier[-5:]
            assert offsets(data, "--from", time_ms, "--limit", 5) == later[:5]

    @pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
    def test_times_are_those_of_records_not_of_markers(self, isolation_level: str) -> None:
        """Markers and records of aborted transactions have timestamps, too."""
        rows = golden_rows("kafka-4.1/txn-lz4", isolation_level=isolation_level)
        for time_ms in sorted({row["timestamp"] for row in rows})[::20]:
            options = ("--isolation-level", isolation_level, "--until", time_ms)
            printed = offsets(V41 / "txn-lz4/data", *options)
            assert printed == [row["offset"] for row in rows if row["timestamp"] < time_ms]

    def test_times_are_relative_to_now_too(self) -> None:
        assert offsets(EVENTS_0, "--from", "-1h") == []
        assert len(offsets(EVENTS_0, "--until", "-1h30m", "--limit", 7)) == 7

    def test_times_are_iso_too(self) -> None:
        assert offsets(EVENTS_0, "--from", "2023-11-14T22:35:02.915Z") == [194]

    def test_limit_is_over_all(self) -> None:
        assert len(records(WHOLE_BROKER, "-t", "events", "--limit", 200)) == 200
        assert records(WHOLE_BROKER, "--limit", 0) == []

    def test_internal_topics_are_read_when_named(self) -> None:
        topics = {row["topic"] for row in records(WHOLE_BROKER)}
        assert topics == {"events", "payments", "state", "trimmed"}
        assert {row["topic"] for row in records(WHOLE_BROKER, "-t", "__transaction_state")} == {
            "__transaction_state"
        }
        assert len(records(WHOLE_BROKER / "__consumer_offsets-0")) == 20

    def test_partitions_can_be_picked(self) -> None:
        assert {row["partition"] for row in records(WHOLE_BROKER, "-t", "events", "-p", 0, "-p", 2)} == {0, 2}

    def test_partitions_are_ranges_too(self) -> None:
        def picked(*options: str) -> set[int]:
            return {row["partition"] for row in records(WHOLE_BROKER, "-t", "events", *options)}

        assert picked("-p", "0-1") == {0, 1}
        assert picked("-p", "0,2-9") == picked("-p", "0", "-p", "2") == {0, 2}

    def test_topics_can_be_excluded(self) -> None:
        options = ("--exclude-topic", "events", "--exclude-topic", "__consumer_offsets")
        assert {row["topic"] for row in records(WHOLE_BROKER, *options)} == {"payments", "state", "trimmed"}
        listed = json.loads(output("ls", WHOLE_BROKER, "--json", *options))["partitions"]
        assert {"events", "__consumer_offsets"}.isdisjoint(partition["topic"] for partition in listed)

    def test_records_are_filtered_by_key(self) -> None:
        rows = golden_rows("kafka-4.1/whole-broker")
        key = next(row["key"] for row in rows if row["key"] and not row["key"].isascii())

        def with_key(matches: Callable[[bytes], bool]) -> list[int]:
            return [row["offset"] for row in rows if row["key"] is not None and matches(row["key"])]

        assert offsets(EVENTS_0, "-k", "k31", "-k", "k28") == with_key(
            lambda value: value in (b"k31", b"k28")
        )
        assert offsets(EVENTS_0, "--key-prefix", "k3") == with_key(lambda value: value.startswith(b"k3"))
        binary = ("--key", key.hex(), "--key-encoding", "hex")
        assert offsets(EVENTS_0, *binary) == with_key(lambda value: value == key) != []
        prefix = base64.b64encode(key[:2]).decode()
        assert offsets(EVENTS_0, "--key-prefix", prefix, "--key-encoding", "base64") == with_key(
            lambda value: value.startswith(key[:2])
        )
        assert offsets(EVENTS_0, "-k", "k31", "--tail", 2) == with_key(lambda value: value == b"k31")[-2:]
        assert offsets(EVENTS_0, "-k", "k31", "-n", 1) == with_key(lambda value: value == b"k31")[:1]
        assert offsets(EVENTS_0, "-k", "no such key") == []

    def test_records_are_filtered_by_header(self) -> None:
        data = V41 / "plain-mixed/data"
        rows = golden_rows("kafka-4.1/plain-mixed")
        name, value = "trace-id", 'comma,quote" '

        def with_header(matches: Callable[[bytes | None], bool]) -> list[int]:
            return [row["offset"] for row in rows if any(n == name and matches(v) for n, v in row["headers"])]

        printed = offsets(data, "-p", 0, "--header", f"{name}={value}")
        assert printed == with_header(lambda v: v == value.encode()) != []
        assert offsets(data, "-p", 0, "--header", name) == with_header(lambda _: True)
        assert offsets(data, "-p", 0, "--header-prefix", f"{name}={value[0]}") == with_header(
            lambda v: v is not None and v.startswith(value[0].encode())
        )
        both = set(with_header(lambda _: True)) & {r["offset"] for r in rows if (r["key"] or b"")[:1] == b"k"}
        assert offsets(data, "-p", 0, "--header", name, "--key-prefix", "k") == sorted(both)

    def test_a_format_string_prints_bytes_as_they_are(self) -> None:
        rows = golden_rows("kafka-4.1/whole-broker")
        printed = run("cat", EVENTS_0, "-f", "%o %K %k %s\\n").stdout_bytes
        assert printed == b"".join(
            b"%d %d %b %b\n"
            % (
                row["offset"],
                -1 if row["key"] is None else len(row["key"]),
                row["key"] or b"",
                row["value"] or b"",
            )
            for row in rows
        )

    def test_columns_can_be_picked(self, tmp_path: Path) -> None:
        options = ("cat", V41 / "txn/data", "--columns", "offset,producerId,segment", "-n", 2)
        with_log = native_log.LogDir(V41 / "txn/data").partition("txn", 0)
        expected = with_log.read(columns=["offset", "producerId", "segment"]).read_all().slice(0, 2)
        lines = output(*options).splitlines()
        assert lines == ["\t".join(map(str, row.values())) for row in expected.to_pylist()]
        assert [
            json.loads(line) for line in output(*options, "-f", "json").splitlines()
        ] == expected.to_pylist()
        output(*options, "-f", "arrow", "-o", tmp_path / "out")
        assert pa.ipc.open_stream(tmp_path / "out").read_all() == expected

    def test_an_offset_that_some_partitions_lack_is_pointed_out(self) -> None:
        result = run("cat", WHOLE_BROKER, "-t", "events", "--offset", 190, "-f", "%p-%o ")
        assert (result.exit_code, len(result.stdout.split())) == (0, 10)
        assert result.stderr == (
            "kafkalog: events-1 has offsets from 0 up to 130 (exclusive): --offset 190 is after them\n"
        )

    def test_base64(self) -> None:
        line = json.loads(output("cat", EVENTS_0, "-f", "json", "-n", 1, "--encoding", "base64"))
        assert base64.b64decode(line["value"]["base64"]) == golden_rows("kafka-4.1/whole-broker")[0]["value"]


class TestDamage:
    DATA = V41 / "corrupt-bitflip-body/data"

    def test_it_ends_with_one_line_after_the_records_before_it(self) -> None:
        result = run("cat", self.DATA, "-f", "json")
        assert result.exit_code == 1
        assert len(result.stdout.splitlines()) == len(golden_rows("kafka-4.1/corrupt-bitflip-body")) == 119
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"kafkalog: {self.DATA}")
        assert "position" in line
        assert "offset" in line

    def test_damage_is_skipped_and_reported(self) -> None:
        result = run("cat", self.DATA, "-f", "json", "--mode", "dropMalformed")
        assert result.exit_code == 0
        printed = [json.loads(line)["offset"] for line in result.stdout.splitlines()]
        whole = [row["offset"] for row in golden_rows("kafka-4.1/corrupt-undamaged")]
        assert set(printed) < set(whole)
        assert printed[-1] == whole[-1]
        (line,) = result.stderr.splitlines()
        assert "position" in line

    def test_it_is_a_line_of_its_own(self) -> None:
        dropped = run("cat", self.DATA, "-f", "json", "--mode", "dropMalformed").stdout.splitlines()
        printed = run("cat", self.DATA, "-f", "json", "--mode", "permissive").stdout.splitlines()
        (extra,) = [line for line in printed if "_corrupt_record" in line]
        assert [line for line in printed if line != extra] == dropped
        text = run("cat", self.DATA, "--mode", "permissive").stdout.splitlines()
        assert len([line for line in text if "\tdamaged\t" in line]) == 1

    def test_a_time_is_looked_up_in_the_same_mode(self) -> None:
        damaged = V41 / "corrupt-magic-3/data"  # on the way to the record of that time
        last = 1700000742792
        assert run("cat", damaged, "--from", last).exit_code == 1
        result = run("cat", damaged, "--from", last, "-f", "json", "--mode", "dropMalformed")
        assert result.exit_code == 0
        assert [json.loads(line)["offset"] for line in result.stdout.splitlines()]


class TestErrors:
    """An error is one line on stderr. The exit code is 1 for damaged files, 2 for a wrong command line."""

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["ls", "/nowhere/at-all"], 2, "/nowhere/at-all: no such directory"),
            (["cat", WHOLE_BROKER / "meta.properties"], 2, "this is a file"),
            (["cat", WHOLE_BROKER, "-t", "event"], 2, "there is no topic event"),
            (["ls", WHOLE_BROKER, "-t", "event"], 2, "there is no topic event"),
            (
                ["cat", WHOLE_BROKER, "-t", "events", "-p", 7],
                2,
                "expected a partition 7 of events, found 0, 1, 2",
            ),
            (["cat"], 2, "Missing argument 'PATH...'"),
            (["cat", EVENTS_0, "--offset", 10, "--end-offset", 5], 2, "--offset up to --end-offset"),
            (["cat", EVENTS_0, "--from", 10, "--until", 5], 2, "--from before --until"),
            (
                ["restore", "-n", WHOLE_BROKER, "new", "--offset", 10, "--end-offset", 5],
                2,
                "up to --end-offset",
            ),
            (["restore", "-n", WHOLE_BROKER, "new", "--from", 10, "--until", 5], 2, "--from before --until"),
            (["restore", "-n", WHOLE_BROKER, "new", "--from", 2**61], 2, "a time from year 1 to 9999"),
            (["cat", EVENTS_0, "--offset", 99999], 2, "up to 195 (exclusive): --offset 99999 is after them"),
            (["cat", WHOLE_BROKER / "trimmed-0", "--end-offset", 74], 2, "--end-offset 74 is before them"),
            (["cat", EVENTS_0, "--from", "9223372036854775808"], 2, "of 64 bits"),
            (["cat", EVENTS_0, "--until", "-9223372036854775809"], 2, "of 64 bits"),
            (["cat", EVENTS_0, "--from", f"-{10**400}w"], 2, "of 64 bits"),
            (["cat", EVENTS_0, "-n", "99999999999999999999"], 2, "to 9223372036854775807"),
            (["cat", EVENTS_0, "--tail", "99999999999999999999"], 2, "to 9223372036854775807"),
            (["cat", EVENTS_0, "--offset", 2**63], 2, "to 9223372036854775807"),
            (["cat", EVENTS_0, "--offset", 2**63 - 1], 2, "is after them"),
            (["cat", EVENTS_0, "--end-offset", 2**63], 2, "to 9223372036854775807"),
            (["cat", EVENTS_0, "-p", "3-1"], 2, "expected partitions such as 0-3,7, found '3-1'"),
            (["cat", WHOLE_BROKER, "-t", "events", "-p", "5-9"], 2, "expected a partition 5 to 9 of events"),
            (["cat", WHOLE_BROKER, "--exclude-topic", "event"], 2, "there is no topic event"),
            (["cat", WHOLE_BROKER, "-t", "events", "--exclude-topic", "events"], 2, "not excluded"),
            (["cat", EVENTS_0, "--columns", "offset,size"], 2, "found 'size'"),
            (["cat", EVENTS_0, "-f", "%o", "--columns", "offset"], 2, "with a format string"),
            (["cat", EVENTS_0, "-f", "%q"], 2, "found '%q' at 0"),
            (
                ["cat", EVENTS_0, "--key", "0g", "--key-encoding", "hex"],
                2,
                "expected a key in hex, found '0g'",
            ),
            (["cat", EVENTS_0, "--key-prefix", ""], 2, "expected a key prefix, found an empty one"),
            (["cat", EVENTS_0, "--header-prefix", "h"], 2, "a prefix of the value of header h"),
            (
                ["cat", EVENTS_0, "--from", "noon"],
                2,
                "or a time before now such as -1h, found 'noon'",
            ),
            (["cat", EVENTS_0, "--offset", -1], 2, "--offset"),
            (["cat", EVENTS_0, "--format", "xml"], 2, "xml"),
            (["dog"], 2, "No such command 'dog'"),
        ],
    )
    def test_errors(self, arguments: list[object], code: int, message: str) -> None:
        result = run(*arguments)
        assert result.exit_code == code
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.startswith("kafkalog: ")
        assert message in line

    def test_the_list_of_commands_truncates_no_description(self) -> None:
        assert "..." not in output("--help").partition("Commands:")[2]

    def test_help_spells_modes_as_they_are(self) -> None:
        assert "[failFast|dropMalformed|permissive]" in output("cat", "--help")

    def test_a_segments_file_is_for_dump_log(self) -> None:
        result = run("ls", EVENTS_0 / f"{0:020d}.log")
        assert result.exit_code == 2
        assert "this is a file; give its directory, or inspect it with kafkalog dump-log" in result.stderr

    def test_warnings_are_notes(self, golden_copy: Callable[[str], Path]) -> None:
        data = golden_copy("kafka-4.1/plain-none")
        (data / "lost+found").mkdir()
        result = run("ls", data)
        assert result.exit_code == 0
        assert result.stderr == f"kafkalog: {data}: not partition directories, skipped: lost+found\n"


class TestProcess:
    COMMAND = (sys.executable, "-W", "ignore", "-c", "from native_log.cli import main; main()")

    def test_a_closed_pipe_is_no_error(self) -> None:
        with subprocess.Popen(
            [*self.COMMAND, "cat", V41 / "plain-none/data"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(b"plain-none-0\t0\t")
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait() == 0

    @pytest.mark.parametrize("form", ["text", "json", "%o %k %s %T %K"])
    def test_records_are_printed_without_pandas(self, form: str) -> None:
        """pyarrow imports pandas to convert some Python values, which takes half a second."""
        code = (
            "import sys; from native_log.cli.app import kafkalog\n"
            "try: kafkalog.main(sys.argv[1:])\n"
            "finally: print('pandas' in sys.modules, file=sys.stderr)"
        )
        arguments = [
            sys.executable,
            "-c",
            code,
            "cat",
            EVENTS_0,
            "--offset",
            "90",
            "--limit",
            "2",
            "-f",
            form,
        ]
        done = subprocess.run(arguments, capture_output=True, check=True, text=True)
        assert (bool(done.stdout), done.stderr) == (True, "False\n")

    def test_colors_are_for_terminals(self) -> None:
        arguments = [*self.COMMAND, "cat", EVENTS_0, "--limit", "2"]
        assert b"\x1b" not in subprocess.run(arguments, capture_output=True, check=True).stdout
        assert b"\x1b[" in on_a_terminal(arguments)[1]

    def test_arrow_is_not_for_terminals(self) -> None:
        code, shown = on_a_terminal([*self.COMMAND, "cat", EVENTS_0, "-f", "arrow"])
        assert code == 2
        assert b"for an Arrow stream, found a terminal" in shown

    def test_the_console_script(self) -> None:
        script = Path(sys.executable).with_name("kafkalog")
        done = subprocess.run([script, "--version"], capture_output=True, check=True, text=True)
        assert done.stdout == f"kafkalog {native_log.__version__} (records: {IMPLEMENTATION})\n"

    def test_run_as_a_module(self) -> None:
        command = [sys.executable, "-m", "native_log", "--version"]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        assert done.stdout.startswith("kafkalog ")


def on_a_terminal(arguments: list[Any]) -> tuple[int, bytes]:
    """Return the exit code and the output."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(arguments, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 4096):
                shown += chunk
        except OSError:  # On Linux this means that the other end is closed.
            pass
    os.close(ours)
    return process.returncode, shown


def test_times_in_seconds_are_rejected() -> None:
    result = run("cat", EVENTS_0, "--from", 1700000000, "--limit", 1)
    assert result.exit_code == 2
    assert "which is 1970-01-20T16:13:20.000Z in milliseconds" in result.stderr
    assert "for seconds, write 1700000000000" in result.stderr
