"""`kafkalog produce`, from its input to the log."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import re
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from broker_lock import held_lock
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from native_log import LogDir, PartitionLog, RecordTooLargeError
from native_log.cli.app import kafkalog
from native_log.cli.production import InputLine, SentLine, Tally
from native_log.producer import KafkaLogProducer
from native_log.producer.futures import failed_future
from tests.builders.golden import GOLDEN
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result


def run(*arguments: object, text: str | bytes | io.RawIOBase | None = None) -> Result:
    return CliRunner().invoke(kafkalog, [str(argument) for argument in arguments], input=text)  # type: ignore[arg-type]


NEW_OFFSETS = "kafkalog: the offsets in the input are not kept: the records get new offsets\n"


def produce(logs: Path, text: str | bytes, *options: object, notes: str = "") -> str:
    result = run("produce", logs, *options, text=text)
    assert (result.exit_code, result.stderr) == (0, notes)
    return str(result.stdout)


def rows(logs: Path, topic: str = "t", partition: int = 0) -> list[dict[str, Any]]:
    columns = ["key", "value", "headers", "timestamp", "compression"]
    table = LogDir(logs).partition(topic, partition).read(columns=columns).read_all()
    table = table.set_column(3, "timestamp", table["timestamp"].cast(pa.timestamp("ms")).cast(pa.int64()))
    return [
        {**row, "headers": [(header["key"], header["value"]) for header in row["headers"] or ()]}
        for row in table.to_pylist()
    ]


def values(logs: Path, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    return [row["value"] for row in rows(logs, topic, partition)]


def cat(logs: Path) -> str:
    result = run("cat", logs, "--format", "json", "--include-headers")
    assert (result.exit_code, result.stderr) == (0, "")
    return str(result.stdout)


def without_offsets(lines: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in lines.split("\n") if line]  # splitlines splits at U+0085, too
    return [{name: value for name, value in row.items() if name != "offset"} for row in rows]


class TestLines:
    def test_a_line_is_a_value(self, tmp_path: Path) -> None:
        assert produce(tmp_path, b"a\n\nb\xff\r\nlast", "-t", "t") == "4 records written to 1 partition\n"
        assert values(tmp_path) == [b"a", b"", b"b\xff", b"last"]
        assert rows(tmp_path)[0]["key"] is None

    def test_keys_headers_and_nulls(self, tmp_path: Path) -> None:
        text = b"h:1,i:NULL\tk=v=w\nNULL\tNULL=NULL\n"
        options = ("-K", "=", "--headers-delimiter", r"\t", "--null-marker", "NULL", "-H", "a=b=c", "-H", "n")
        produce(tmp_path, text, "-t", "t", *options)
        first, second = rows(tmp_path)
        assert (first["key"], first["value"]) == (b"k", b"v=w")
        assert first["headers"] == [("h", b"1"), ("i", None), ("a", b"b=c"), ("n", None)]
        assert (second["key"], second["value"]) == (None, None)
        assert second["headers"] == [("a", b"b=c"), ("n", None)]

    def test_separators_of_headers(self, tmp_path: Path) -> None:
        options = (
            "--headers-delimiter",
            r"\x7c",
            "--headers-separator",
            ";",
            "--headers-key-separator",
            "->",
        )
        produce(tmp_path, "a->1;b->2|v\n", "-t", "t", *options)
        assert rows(tmp_path)[0]["headers"] == [("a", b"1"), ("b", b"2")]

    def test_a_partition_and_the_number_of_partitions(self, tmp_path: Path) -> None:
        produce(tmp_path, "a\n", "-t", "t", "--partitions", 3, "-p", 2)
        assert [values(tmp_path, partition=number) for number in range(3)] == [[], [], [b"a"]]
        produce(tmp_path, "b\n", "-t", "t", "--partitions", 7, "-p", 1)  # the topic exists
        assert LogDir(tmp_path).topics() == {"t": [0, 1, 2]}

    def test_a_key_chooses_the_partition_as_in_the_producer(self, tmp_path: Path) -> None:
        text = "".join(f"k{number}:v\n" for number in range(50))
        assert produce(tmp_path / "a", text, "-t", "t", "-K", ":", "--partitions", 4) == (
            "50 records written to 4 partitions\n"
        )
        with KafkaLogProducer(tmp_path / "b", num_partitions=4) as producer:
            for number in range(50):
                producer.send("t", b"v", f"k{number}")
        for partition in range(4):
            keys = [[row["key"] for row in rows(tmp_path / logs, "t", partition)] for logs in ("a", "b")]
            assert keys[0] == keys[1] != []

    def test_files_follow_each_other(self, tmp_path: Path) -> None:
        files = [tmp_path / "1.txt", tmp_path / "2.txt"]
        files[0].write_text("a\nb")
        files[1].write_text("c\n")
        produce(tmp_path / "logs", "stdin\n", "-t", "t", "-i", files[0], "-i", "-", "-i", files[1])
        assert values(tmp_path / "logs") == [b"a", b"b", b"stdin", b"c"]

    def test_an_empty_input(self, tmp_path: Path) -> None:
        assert produce(tmp_path / "logs", "", "-t", "t") == "0 records written to 0 partitions\n"


class TestJson:
    def test_test_data_as_people_write_it(self, tmp_path: Path) -> None:
        text = (
            '{"key": 7, "value": {"x": 2, "y": [1.0, "é"]}, "headers": {"h": "v", "n": null}, '
            '"timestamp": "2026-01-01T00:00:00Z"}\n'
        )
        produce(tmp_path, text, "-t", "t", "-f", "json")
        (row,) = rows(tmp_path)
        del row["compression"]
        assert row == {
            "key": b"7",
            "value": '{"x":2,"y":[1.0,"é"]}'.encode(),
            "headers": [("h", b"v"), ("n", None)],
            "timestamp": 1_767_225_600_000,
        }

    def test_one_note_says_that_offsets_are_new(self, tmp_path: Path) -> None:
        produce(tmp_path, '{"offset":70}\n{"offset":71}\n', "-t", "t", "-f", "json", notes=NEW_OFFSETS)
        offsets = LogDir(tmp_path).partition("t", 0).read(columns=["offset"]).read_all()
        assert offsets["offset"].to_pylist() == [0, 1]


class TestSettings:
    @pytest.mark.parametrize("options", [("-z", "zstd"), ("-X", "compression.type=zstd")])
    def test_compression(self, tmp_path: Path, options: tuple[str, ...]) -> None:
        produce(tmp_path, "a\n", "-t", "t", *options)
        assert rows(tmp_path)[0]["compression"] == "zstd"

    def test_settings_of_topics_apply(self, tmp_path: Path) -> None:
        produce(tmp_path, "a\n" * 50, "-t", "t", "-X", "segment.bytes=100", "-X", "batch.size=0")
        assert len(LogDir(tmp_path).partition("t", 0).segments) > 10

    def test_a_setting_without_effect_is_named(self, tmp_path: Path) -> None:
        result = run("produce", tmp_path, "-t", "t", "-X", "no.such=1", text="a\n")
        assert result.exit_code == 0
        assert "no.such" in result.stderr

    def test_settings_of_connections_are_ignored(self, tmp_path: Path) -> None:
        produce(tmp_path, "a\n", "-t", "t", "-X", "bootstrap.servers=b:9092", "-X", "security.protocol=SSL")
        assert values(tmp_path) == [b"a"]

    def test_ids_of_a_new_log_directory(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "logs"
        produce(path, "a\n", "-t", "t", "--cluster-id", "kafkalogTestAAAAAAAAAA", "--node-id", 7)
        properties = LogDir(path).meta_properties
        assert (properties.cluster_id, properties.node_id) == ("kafkalogTestAAAAAAAAAA", 7)

    def test_log_directories_of_one_broker(self, tmp_path: Path) -> None:
        paths = [tmp_path / "1", tmp_path / "2"]
        result = run("produce", *paths, "-t", "t", "--partitions", 2, "-p", 1, text="a\n")
        assert result.exit_code == 0
        assert [sorted(each.name for each in path.glob("t-*")) for path in paths] == [["t-0"], ["t-1"]]
        clusters = {LogDir(path).meta_properties.cluster_id for path in paths}
        assert len(clusters) == 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ((), "expected --topic, found none"),
            (("-t", "a/b"), "expected a topic name"),
            (("-t", "t", "-K", ""), "--key-separator: expected a separator, found an empty text"),
            (
                ("-t", "t", "-K", r"\q"),
                r"--key-separator: expected the escapes \n \r \t \0 \\ \xHH, found '\\q'",
            ),
            (
                ("-t", "t", "--headers-separator", ";"),
                "expected --headers-delimiter with --headers-separator, found none",
            ),
            (("-f", "json", "-K", ":"), "expected --format lines with --key-separator, found json"),
            (("-f", "text", "-t", "t"), "'text' is not one of 'lines', 'json'"),
            (("-t", "t", "-z", "lz5"), "lz5"),
            (("-t", "t", "-z", "lz4", "-X", "compression.type=lz4"), "expected compression.type once"),
            (
                ("-t", "t", "-X", "compression.type=lz5"),
                "Invalid value lz5 for configuration compression.type",
            ),
            (("-t", "t", "-X", "linger.sm=5"), "did you mean 'linger.ms'"),
            (("-t", "t", "-X", "linger.ms"), "expected NAME=VALUE, found 'linger.ms'"),
            (("-t", "t", "-X", "segment.bytes=x"), "segment.bytes"),
            (
                ("-t", "t", "-X", "key.serializer=org.x.Y"),
                "-X key.serializer: expected a setting without Java",
            ),
            (("-t", "t", "-p", "-1"), "expected an integer from 0"),
            (("-t", "t", "--partitions", "0"), "expected an integer from 1"),
            (("-t", "t", "--cluster-id", "a b"), "expected a cluster id"),
            (("-t", "t", "--mode", "permissive"), "permissive"),
            (("-t", "t", "-i", "/nowhere/at-all"), "/nowhere/at-all"),
        ],
    )
    def test_wrong_usage_creates_nothing(
        self, tmp_path: Path, options: tuple[str, ...], message: str
    ) -> None:
        result = run("produce", tmp_path / "logs", *options, text="a\n")
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
        assert not (tmp_path / "logs").exists()

    def test_paths_that_are_no_log_directories(self, tmp_path: Path) -> None:
        produce(tmp_path / "logs", "a\n", "-t", "t")
        (tmp_path / "file").touch()
        for path, message in [
            (tmp_path / "logs" / "t-0", "write to its parent"),
            (tmp_path / "file", "this is a file"),
            (tmp_path, "this is not a log directory"),
        ]:
            result = run("produce", path, "-t", "t", text="a\n")
            assert (result.exit_code, result.stdout) == (2, "")
            assert message in result.stderr
        result = run("produce", tmp_path / "logs", tmp_path / "new", "-t", "t", text="a\n")
        assert result.exit_code == 2
        assert "new: no such directory" in result.stderr


class TestErrors:
    LINES = (
        b'{"value":"1"}\n{"timestamp":true}\n\n{"value":"4","partition":3}\n{"topic":"a/b"}\n{"value":"6"}\n'
    )

    def test_a_malformed_line_ends_the_input(self, tmp_path: Path) -> None:
        result = run("produce", tmp_path, "-t", "t", "-f", "json", text=self.LINES)
        assert (result.exit_code, result.stdout) == (1, "1 record written to 1 partition, 1 line failed\n")
        assert result.stderr == (
            "kafkalog: stdin, line 2: timestamp: expected epoch ms from 0 on, an ISO 8601 time from 1970 on, "
            "-1 or null, found true\n"
        )
        assert values(tmp_path) == [b"1"]

    def test_malformed_lines_are_skipped_and_reported(self, tmp_path: Path) -> None:
        file = tmp_path / "in.jsonl"
        file.write_bytes(self.LINES.replace(b'"value":"', b'"topic":"t","value":"'))
        result = run("produce", tmp_path / "logs", "-f", "json", "--mode", "dropMalformed", "-i", file)
        assert (result.exit_code, result.stdout) == (
            0,
            "2 records written to 1 partition, 3 lines skipped\n",
        )
        first, second, third = result.stderr.splitlines()
        assert first.startswith(f"kafkalog: {file}, line 2: topic: expected a string, or the option --topic")
        assert (
            f"{file}, line 4: partition: expected one below 1 for topic t, found 3; set --partitions"
            in second
        )
        assert f"{file}, line 5: expected a topic name" in third
        assert values(tmp_path / "logs") == [b"1", b"6"]

    def test_a_missing_partition_does_not_create_a_topic(self, tmp_path: Path) -> None:
        result = run("produce", tmp_path, "-f", "json", text='{"topic":"t","partition":1}\n')
        assert result.exit_code == 1
        assert not (tmp_path / "t-0").exists()
        assert "1 record" in produce(
            tmp_path, '{"topic":"t","partition":1}\n', "-f", "json", "--partitions", 2
        )

    def test_a_missing_topic_that_must_not_be_created(self, tmp_path: Path) -> None:
        options = ("-t", "t", "-X", "auto.create.topics.enable=false")
        result = run("produce", tmp_path, *options, text="a\n")
        assert (result.exit_code, result.stdout) == (1, "0 records written to 0 partitions, 1 line failed\n")
        assert "stdin, line 1: " in result.stderr
        assert "expected a topic t, found none" in result.stderr

    @pytest.mark.parametrize(
        "limit", ["max.request.size=200", "max.message.bytes=200"], ids=["by the producer", "by the log"]
    )
    def test_records_that_are_too_large(self, tmp_path: Path, limit: str) -> None:
        text = "a\n" + "x" * 500 + "\nb\n"
        options = ("-t", "t", "-X", limit, "--mode")
        result = run("produce", tmp_path / "skip", *options, "dropMalformed", text=text)
        assert (result.exit_code, result.stdout) == (0, "2 records written to 1 partition, 1 line skipped\n")
        assert re.search("stdin, line 2: .*larger than|stdin, line 2: .*max.message.bytes", result.stderr)
        assert values(tmp_path / "skip") == [b"a", b"b"]
        result = run("produce", tmp_path / "stop", *options, "failFast", text=text)
        assert result.exit_code == 1
        assert "stdin, line 2: " in result.stderr
        assert values(tmp_path / "stop")[0] == b"a"

    def test_a_line_that_is_longer_than_any_record(self, tmp_path: Path) -> None:
        text = b"a\n" + b"x" * 100_000 + b"\nb\n"
        options = ("-t", "t", "-X", "max.request.size=200", "--mode", "dropMalformed")
        result = run("produce", tmp_path, *options, text=text)
        assert result.exit_code == 0
        assert "stdin, line 2: expected a line of at most 66736 bytes" in result.stderr
        assert values(tmp_path) == [b"a", b"b"]

    def test_a_rejected_batch_is_an_error_in_any_mode(self, tmp_path: Path) -> None:
        options = (
            "-t",
            "t",
            "-X",
            "cleanup.policy=compact",
            "-X",
            "linger.ms=10000",
            "--mode",
            "dropMalformed",
        )
        result = run("produce", tmp_path, *options, text="a\nb\n")
        assert (result.exit_code, result.stdout) == (1, "0 records written to 0 partitions, 2 lines failed\n")
        (line,) = result.stderr.splitlines()
        assert "stdin, line 1: " in line
        assert "expected a key, because the topic is compacted" in line

    def test_the_line_of_an_invalid_record_is_named(self, tmp_path: Path) -> None:
        options = ("-t", "t", "-f", "json", "-X", "cleanup.policy=compact", "-X", "linger.ms=10000")
        result = run("produce", tmp_path, *options, text='{"key":"k","value":"a"}\n{"value":"b"}\n')
        assert (result.exit_code, result.stdout) == (1, "0 records written to 0 partitions, 2 lines failed\n")
        assert "stdin, line 2: " in result.stderr
        assert "expected a key, because the topic is compacted" in result.stderr

    def test_a_broker_that_runs(self, tmp_path: Path) -> None:
        produce(tmp_path, "a\n", "-t", "t")
        with held_lock(tmp_path) as pid:
            for topic in ("t", "new"):
                result = run("produce", tmp_path, "-t", topic, text="b\n")
                assert result.exit_code == 2
                assert "stdin, line 1: " in result.stderr
                assert str(pid) in result.stderr
        assert values(tmp_path) == [b"a"]


def test_an_error_is_that_of_the_line_that_could_not_be_sent() -> None:
    error = RecordTooLargeError("too large")
    tally = Tally()
    tally.complete([SentLine(InputLine(0, 1, "in.txt"), failed_future("t", 0, error))])
    tally.fail(InputLine(0, 2, "in.txt"), error, is_rejected=True)
    assert (str(tally.error), tally.failed) == ("in.txt, line 2: too large", 2)


def test_an_error_is_that_of_the_earliest_line() -> None:
    tally = Tally()
    for line in (InputLine(1, 1, "b.txt"), InputLine(0, 3, "a.txt"), InputLine(0, 4, "a.txt")):
        tally.fail(line, RecordTooLargeError(f"error of {line}"))
    assert str(tally.error) == "a.txt, line 3: error of a.txt, line 3"


class TestTransactions:
    OPTIONS = ("-t", "t", "-X", "transactional.id=copy", "-X", "linger.ms=0")

    def committed(self, logs: Path) -> list[bytes | None]:
        reader = LogDir(logs).partition("t", 0).read(columns=["value"], isolation_level="read_committed")
        return list(reader.read_all()["value"].to_pylist())

    def test_all_records_are_one_transaction(self, tmp_path: Path) -> None:
        assert produce(tmp_path, "a\nb\n", *self.OPTIONS) == "2 records written to 1 partition\n"
        (transaction,) = LogDir(tmp_path).partition("t", 0).transactions().to_pylist()
        assert transaction["state"] == "committed"
        assert self.committed(tmp_path) == [b"a", b"b"]

    def test_an_error_aborts(self, tmp_path: Path) -> None:
        text = '{"value":"a"}\n{"value":NaN}\n'
        result = run("produce", tmp_path, *self.OPTIONS, "-f", "json", text=text)
        assert result.exit_code == 1
        assert result.stdout == "1 record written to 1 partition, 1 line failed, not committed\n"
        assert (values(tmp_path), self.committed(tmp_path)) == ([b"a"], [])
        produce(tmp_path, "b\n", *self.OPTIONS)
        assert self.committed(tmp_path) == [b"b"]

    def test_malformed_lines_are_skipped_but_not_records_that_are_too_large(self, tmp_path: Path) -> None:
        options = (*self.OPTIONS, "-f", "json", "--mode", "dropMalformed", "-X", "max.request.size=200")
        result = run("produce", tmp_path, *options, text='{"value":NaN}\n{"value":"a"}\n')
        assert (result.exit_code, self.committed(tmp_path)) == (0, [b"a"])
        result = run("produce", tmp_path, *options, text=f'{{"value":"b"}}\n{{"value":"{"x" * 300}"}}\n')
        assert (result.exit_code, self.committed(tmp_path)) == (1, [b"a"])
        assert "stdin, line 2: The message is" in result.stderr
        assert result.stdout.endswith(" failed, not committed\n")

    def test_a_signal_aborts(self, tmp_path: Path) -> None:
        pipe = Pipe([b"a\n"], lambda: signal.raise_signal(signal.SIGINT))
        result = run("produce", tmp_path, *self.OPTIONS, text=pipe)
        assert result.exit_code == 130
        assert "1 record written to 1 partition, not committed" in result.stdout
        assert self.committed(tmp_path) == []


class Pipe(io.RawIOBase):
    """A pipe that returns one portion at a time, then does something."""

    def __init__(self, portions: list[bytes], then: Callable[[], object]) -> None:
        self._portions = portions
        self._then = then

    def readable(self) -> bool:
        return True

    def read1(self, _: int = -1) -> bytes:
        if self._portions:
            return self._portions.pop(0)
        self._then()
        return b""

    def read(self, _: int = -1) -> bytes:
        return b""


class TestSignals:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_a_signal_while_the_input_waits(self, tmp_path: Path, number: signal.Signals, code: int) -> None:
        pipe = Pipe([b"a\nb\n", b"unfinis"], lambda: signal.raise_signal(number))
        result = run("produce", tmp_path, "-t", "t", "-X", "linger.ms=60000", text=pipe)
        assert (result.exit_code, result.stdout) == (code, "2 records written to 1 partition\n")
        assert result.stderr == f"kafkalog: stopped by {number.name} after stdin, line 2\n"
        assert values(tmp_path) == [b"a", b"b"]

    def test_a_signal_before_the_first_line(self, tmp_path: Path) -> None:
        pipe = Pipe([], lambda: signal.raise_signal(signal.SIGINT))
        result = run("produce", tmp_path, "-t", "t", text=pipe)
        assert (result.exit_code, result.stdout) == (130, "0 records written to 0 partitions\n")
        assert result.stderr == "kafkalog: stopped by SIGINT before the first line\n"

    def test_a_signal_between_two_records(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        send, calls = KafkaLogProducer.send, itertools.count(1)

        def interrupted(self: KafkaLogProducer, *record: Any, **options: Any) -> Any:
            if next(calls) == 2:
                signal.raise_signal(signal.SIGINT)
            return send(self, *record, **options)

        monkeypatch.setattr(KafkaLogProducer, "send", interrupted)
        result = run("produce", tmp_path, "-t", "t", text="a\nb\nc\n")
        assert (result.exit_code, result.stdout) == (130, "2 records written to 1 partition\n")
        assert "after stdin, line 2" in result.stderr
        assert values(tmp_path) == [b"a", b"b"]

    def test_a_second_signal_ends_the_wait_for_the_log(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        close = KafkaLogProducer.close

        def interrupted(self: KafkaLogProducer, timeout: float | None = None) -> None:
            if timeout is None:
                signal.raise_signal(signal.SIGINT)
            close(self, timeout)

        monkeypatch.setattr(KafkaLogProducer, "close", interrupted)
        pipe = Pipe([b"a\n"], lambda: signal.raise_signal(signal.SIGINT))
        result = run("produce", tmp_path, "-t", "t", "-X", "linger.ms=60000", text=pipe)
        assert (result.exit_code, result.stdout) == (
            130,
            "0 records written to 0 partitions, 1 line failed\n",
        )
        assert "Producer is closed forcefully" in result.stderr


class TestFullDisk:
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
    def test_the_command_ends_with_the_line_that_was_not_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        append, calls = PartitionLog.append_built, itertools.count(1)

        def full(self: PartitionLog, *arguments: Any, **options: Any) -> Any:
            if next(calls) > 1:
                raise OSError(number, os.strerror(number), str(self.path))
            return append(self, *arguments, **options)

        monkeypatch.setattr(PartitionLog, "append_built", full)
        # More than the buffer holds; each retry would take a minute.
        settings = ("buffer.memory=40000", "retry.backoff.ms=60000", "retry.backoff.max.ms=60000")
        options = [part for setting in settings for part in ("-X", setting)]
        text = "".join(f"{line:0100}\n" for line in range(2000))
        result = run("produce", tmp_path, "-t", "t", *options, text=text)
        written = len(values(tmp_path))
        assert result.exit_code == 1
        assert result.stderr == (
            f"kafkalog: stdin, line {written + 1}: {tmp_path / 't-0'}: {os.strerror(number)}\n"
        )

    def test_a_topic_that_cannot_be_created(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path))

        monkeypatch.setattr(LogDir, "create_topic", full)
        result = run("produce", tmp_path, "-t", "t", "-X", "retry.backoff.ms=60000", text="a\n")
        assert result.exit_code == 1
        assert f"kafkalog: stdin, line 1: {tmp_path}: No space left on device\n" in result.stderr


_BYTES = st.none() | st.binary(max_size=12) | st.text(max_size=8).map(lambda text: text.encode())
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "partition": st.integers(0, 2),
            "key": _BYTES,
            "value": _BYTES,
            "headers": st.lists(st.tuples(st.text(max_size=5), _BYTES), max_size=3),
            "timestamp": st.integers(0, 1_700_000_000_000),
        }
    ),
    max_size=12,
)


class TestRoundTrip:
    @settings(max_examples=examples(25))
    @given(_ROWS, st.sampled_from(["auto", "base64"]), st.sampled_from(["none", "lz4"]))
    def test_the_output_of_cat_gives_the_same_records(
        self, records: list[dict[str, Any]], encoding: str, codec: str
    ) -> None:
        schema = pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
                ("timestamp", pa.timestamp("ms", tz="UTC")),
            ]
        )
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "source"), Path(folder, "target")
            with LogDir.create(source) as logs:
                logs.create_topic("t", 3)
                for partition in range(3):
                    rows = [
                        {
                            **{name: record[name] for name in ("key", "value", "timestamp")},
                            "headers": [{"key": key, "value": value} for key, value in record["headers"]],
                        }
                        for record in records
                        if record["partition"] == partition
                    ]
                    if rows:
                        logs.partition("t", partition).append(pa.Table.from_pylist(rows, schema))
            printed = run("cat", source, "-f", "json", "--include-headers", "--encoding", encoding).stdout
            notes = NEW_OFFSETS if records else ""
            produce(target, printed, "-f", "json", "--partitions", 3, "-z", codec, notes=notes)
            if records:
                assert without_offsets(cat(target)) == without_offsets(cat(source))
            else:
                assert LogDir(target, allow_empty=True).topics() == {}

    def test_records_of_a_broker(self, tmp_path: Path) -> None:
        source = GOLDEN / "kafka-4.1/whole-broker/data"
        produce(tmp_path / "logs", cat(source), "-f", "json", "--partitions", 3, notes=NEW_OFFSETS)
        assert without_offsets(cat(tmp_path / "logs")) == without_offsets(cat(source))

    def test_headers_are_kept_without_an_option(self, tmp_path: Path) -> None:
        source = GOLDEN / "kafka-4.1/whole-broker/data"
        printed = run("cat", source, "-f", "json").stdout
        produce(tmp_path / "logs", printed, "-f", "json", "--partitions", 3, notes=NEW_OFFSETS)
        assert any(row["headers"] for row in without_offsets(cat(source)))
        assert without_offsets(cat(tmp_path / "logs")) == without_offsets(cat(source))

    def test_records_without_timestamps_get_the_current_time(self, tmp_path: Path) -> None:
        source = GOLDEN / "kafka-2.8/v0-none/data"
        produce(tmp_path / "logs", cat(source), "-f", "json", notes=NEW_OFFSETS)
        copied, original = without_offsets(cat(tmp_path / "logs")), without_offsets(cat(source))
        assert {record.pop("timestamp") for record in original} == {-1}
        assert min(record.pop("timestamp") for record in copied) > 0
        for record in (*copied, *original):
            del record["timestampType"]
        assert copied == original

    def test_columns_decide_what_a_copy_keeps(self, tmp_path: Path) -> None:
        source = GOLDEN / "kafka-4.1/whole-broker/data"
        printed = run("cat", source, "-t", "events", "-f", "json", "--columns", "key,value").stdout
        produce(tmp_path, printed, "-f", "json", "-t", "copy")
        expected = [value for number in range(3) for value in values(source, "events", number)]
        assert values(tmp_path, "copy") == expected

    def test_damaged_ranges_are_not_records(self, tmp_path: Path) -> None:
        source = GOLDEN / "kafka-4.1/corrupt-bitflip-body/data"
        printed = run("cat", source, "-f", "json", "--mode", "permissive").stdout
        result = run("produce", tmp_path, "-f", "json", "--mode", "dropMalformed", text=printed)
        assert result.exit_code == 0
        assert "1 line skipped" in result.stdout
        assert "found a damaged range of a log" in result.stderr
