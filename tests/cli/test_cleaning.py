"""The commands that change logs make no change that was not shown and confirmed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import native_log
from native_log.cli import changes
from native_log.cli.app import kafkalog
from tests.builders.cluster_metadata import store
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

V41 = GOLDEN / "kafka-4.1"
COMMANDS = {
    "retain": ("ret-size/before", ("-c", "retention.bytes=8000")),
    "compact": (
        "compact-txn/round1-before",
        ("-t", "compact-txn", "-c", "min.cleanable.dirty.ratio=0", "--now-ms", "1795000000000"),
    ),
    "delete-records": ("delete-records/before", ("--offset", "delete-records:0:93")),
    "erase": ("plain-none", ("--key-prefix", "k1")),
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    """Return a command line that changes a copy of a broker's log directory."""
    fixture, options = COMMANDS[request.param]
    data = shutil.copytree(V41 / fixture / "data", tmp_path / "data", copy_function=shutil.copy2)
    return (request.param, str(data), *options)


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(kafkalog, arguments, input=text)


def files(command: tuple[str, ...], tmp_path: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted((tmp_path / "data").rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_a_dry_run_changes_nothing(command: tuple[str, ...], tmp_path: Path) -> None:
    before = files(command, tmp_path)
    result = run(*command, "--dry-run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "would be" in result.stdout
    assert not re.search(r"(?<!would be )\b(deleted|cleaned|erased|removed)\b", result.stdout)
    assert files(command, tmp_path) == before


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_without_a_terminal_yes_or_dry_run_is_required(
    options: tuple[str, ...], command: tuple[str, ...], tmp_path: Path
) -> None:
    before = files(command, tmp_path)
    result = run(*command, *options)
    assert result.exit_code == 2
    assert "--dry-run" in result.stderr
    assert "--yes" in result.stderr
    assert files(command, tmp_path) == before


def test_yes_makes_the_changes_that_a_dry_run_shows(command: tuple[str, ...], tmp_path: Path) -> None:
    before = files(command, tmp_path)
    planned = run(*command, "--dry-run", "--json")
    done = run(*command, "--yes", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert files(command, tmp_path) != before
    outcome = "decision" if command[0] == "retain" else "status"
    expected = json.loads(done.stdout.splitlines()[0])
    expected[outcome] = f"would be {expected[outcome]}"
    assert json.loads(planned.stdout.splitlines()[0]) == expected


@pytest.mark.parametrize("answer", ["y", "n"])
def test_in_a_terminal_changes_are_shown_and_confirmed(
    answer: str, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_is_terminal", lambda: True)
    before = files(command, tmp_path)
    result = run(*command, text=f"{answer}\n")
    assert "Proceed?" in result.output
    assert result.exit_code == (0 if answer == "y" else 3)
    assert ("Nothing changed." in result.stderr) == (answer == "n")
    assert (files(command, tmp_path) == before) == (answer == "n")


def test_without_changes_there_is_no_confirmation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_is_terminal", lambda: True)
    data = shutil.copytree(V41 / "ret-size/before/data", tmp_path / "data")
    result = run("retain", str(data), "-c", "retention.ms=-1")
    assert result.exit_code == 0
    assert "0 segments" in result.stdout
    assert "Proceed?" not in result.output


def test_settings_come_from_a_file_too(tmp_path: Path) -> None:
    data = shutil.copytree(V41 / "ret-size/before/data", tmp_path / "data")
    file = tmp_path / "conf"
    file.write_text("# sizes\nretention.bytes = 8000\nretention.ms=-1\n")

    def gone(*options: str) -> list[str]:
        result = run("retain", str(data), "--conf-file", str(file), "-n", "--json", *options)
        rows = map(json.loads, result.stdout.splitlines())
        return [row["rule"] for row in rows if row["decision"] == "would be deleted"]

    assert set(gone()) == {"retention.bytes"}
    assert gone("-c", "retention.bytes=-1") == []
    file.write_text("retention.bytes\n")
    assert "line 1" in run("retain", str(data), "--conf-file", str(file), "-n").stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("retain", "-c", "retention.ms=soon"), "retention.ms"),
        (("retain", "-c", "retention.msec=1"), "retention.ms"),
        (("compact", "-c", "cleanup.policy=delete"), "cleanup.policy"),
        (("retain", "-c", "retention.ms"), "NAME=VALUE"),
        (("delete-records", "--offset", "t:0"), "TOPIC:PARTITION:OFFSET"),
        (("erase",), "select"),
    ],
)
def test_an_invalid_setting_is_a_usage_error(arguments: tuple[str, ...], word: str) -> None:
    result = run(*arguments, str(V41 / "ret-size/before/data"), "-n")
    assert result.exit_code == 2
    assert word in result.stderr


def test_keys_to_erase_come_from_a_file(tmp_path: Path) -> None:
    data = shutil.copytree(V41 / "plain-none/data", tmp_path / "data")
    file = tmp_path / "keys"
    file.write_bytes(b"k1\nk10\n")

    def erased(*options: str) -> list[tuple[int, int]]:
        result = run("erase", str(data), *options, "-n", "--json")
        assert result.exit_code == 0, result.stderr
        return [(row["partition"], row["offset"]) for row in map(json.loads, result.stdout.splitlines())]

    assert erased("--keys-file", str(file)) == erased("--key", "k1", "-k", "k10") != []
    assert erased("--header", "no such header") == []


def test_a_partition_that_fails_makes_exit_code_1(tmp_path: Path) -> None:
    data = shutil.copytree(V41 / "compact-txn/round1-before/data", tmp_path / "data")
    log = max((data / "compact-txn-0").glob("*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    result = run("compact", str(data), "-t", "compact-txn", "-c", "min.cleanable.dirty.ratio=0", "--yes")
    assert result.exit_code == 1
    assert str(log) in result.stdout
    assert native_log.compact(data, dry_run=True).num_rows == 1


def test_compact_reports_segments_that_retention_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shutil.copytree(V41 / "compact-codecs/round1-before/data", tmp_path / "data")
    settings = ("cleanup.policy=compact,delete", "retention.bytes=0", "min.cleanable.dirty.ratio=1")
    options = [option for setting in settings for option in ("-c", setting)]
    monkeypatch.setattr(changes, "_is_terminal", lambda: True)

    result = run("compact", str(data), "-t", "compact-codecs", *options, text="y\n")

    assert "0 partitions would be compacted" in result.stdout
    assert "old segments would be deleted" in result.stdout
    assert "old segments deleted" in result.stdout
    log = native_log.LogDir(data).partition("compact-codecs", 0)
    assert log.log_start_offset == log.log_end_offset


def test_keys_to_erase_that_do_not_exist_are_counted(tmp_path: Path) -> None:
    data = shutil.copytree(V41 / "plain-none/data", tmp_path / "data")
    file = tmp_path / "keys"
    file.write_bytes(b"k1\r\n\nno such key\n\n")

    result = run("erase", str(data), "--keys-file", str(file), "-n")

    assert "29 records would be erased" in result.stdout
    assert "1 key of 2 not found" in result.stdout


def test_copies_that_erasure_leaves_are_listed_last(tmp_path: Path) -> None:
    data = shutil.copytree(V41 / "plain-none/data", tmp_path / "data")
    stray = data / "gone-0.0123456789abcdef0123456789abcdef-stray"
    shutil.copytree(data / "plain-none-0", stray)

    result = run("erase", str(data), "--key", "no such key", "-y")

    assert result.stdout.splitlines()[-5:-1] == [
        "0 records erased",
        "1 key of 1 not found in the partitions searched",
        "0 such records are left in the partitions searched",
        "1 place not searched, which may hold copies",
    ]
    assert result.stdout.splitlines()[-1].startswith(f"  {stray}: a -stray directory")
    row = json.loads(run("erase", str(data), "--key", "no such key", "-y", "--json").stdout)
    assert (row["topic"], row["status"], row["segment"]) == ("gone", "copy", str(stray))


def test_settings_without_effect_are_reported(tmp_path: Path) -> None:
    data = V41 / "ret-size/before/data"
    result = run("retain", str(data), "-n", "-c", "retention.hours=1", "-c", "retention.bytes=-1")
    assert "found retention.hours, which has no effect" in result.stderr
    assert "retention.bytes" not in result.stderr


COMPACTED = V41 / "compact-codecs/round2-before/data"
OLD = ("-c", "retention.ms=1")


def decisions(*options: str) -> set[tuple[str, str | None]]:
    result = run("retain", str(COMPACTED), "-n", "--json", *OLD, *options)
    assert result.exit_code == 0, result.stderr
    return {(row["decision"], row["rule"]) for row in map(json.loads, result.stdout.splitlines())}


def test_retention_of_a_compacted_topic_requires_its_name_and_the_policy() -> None:
    named, policy = ("-t", "compact-codecs"), ("-c", "cleanup.policy=delete")
    assert decisions() == decisions(*named) == decisions(*policy) == {("kept", "compacted")}
    assert decisions(*named, *policy) == {("would be deleted", "retention.ms")}
    shown = run("retain", str(COMPACTED), "-n", *OLD).stdout
    assert "the topic has been compacted" in shown
    assert "\nkept: compacted: compact-codecs\n" in shown
    assert "name the topic and set cleanup.policy=delete" in shown


def test_a_settings_file_does_not_enable_retention_of_compacted_topics(tmp_path: Path) -> None:
    file = tmp_path / "conf"
    file.write_text("cleanup.policy=delete\n")
    asked = ("-t", "compact-codecs", "--conf-file", str(file))
    assert decisions(*asked) == {("kept", "compacted")}
    assert "cleanup.policy is ignored" in run("retain", str(COMPACTED), "-n", *OLD, *asked).stderr
    assert decisions(*asked, "-c", "cleanup.policy=delete") == {("would be deleted", "retention.ms")}


def test_compact_skips_topics_without_the_policy(tmp_path: Path) -> None:
    data = shutil.copytree(V41 / "plain-none/data", tmp_path / "data")
    before = files((), tmp_path)
    result = run("compact", str(data), "-y", "-c", "min.cleanable.dirty.ratio=0")
    assert files((), tmp_path) == before
    assert result.stdout.count("skipped") == len(native_log.LogDir(data).partitions())
    assert "to compact it anyway, name the topic" in result.stdout


def test_records_without_a_key_are_counted() -> None:
    data = V41 / "compact-nullkeys/round1-before/data"
    result = run("compact", str(data), "-t", "compact-nullkeys", "-n")
    assert re.search(r"[1-9]\d* records without a key: compaction removes them", result.stdout)


@pytest.mark.parametrize("command", ["retain", "compact", "erase"])
def test_the_controllers_log_is_rejected(command: str) -> None:
    data = V41 / "whole-broker/data"
    options = ("--header", "h") if command == "erase" else ()
    result = run(command, str(data), "-t", "__cluster_metadata", "-n", *options)
    assert (result.exit_code, "must not be changed" in result.stderr) == (2, True)
    result = run("delete-records", str(data), "--offset", "__cluster_metadata:0:5", "-n")
    assert (result.exit_code, "must not be changed" in result.stderr) == (2, True)


def test_delete_records_takes_one_offset_a_partition() -> None:
    options = [o for offset in ("5", "7") for o in ("--offset", f"delete-records:0:{offset}")]
    result = run("delete-records", str(V41 / "delete-records/before/data"), *options, "-n")
    assert (result.exit_code, "found several" in result.stderr) == (2, True)


@pytest.mark.parametrize("command", ["retain", "compact", "erase", "delete-records"])
def test_tables_fit_a_terminal_of_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture, options = COMMANDS[command]
    monkeypatch.setattr(changes, "terminal_width", lambda: 80)
    result = run(command, str(V41 / fixture / "data"), *options, "-n")
    assert result.exit_code == 0
    head, first, *others = result.stdout.splitlines()
    assert head.startswith("PARTITION")
    assert first.startswith(f"{fixture.partition('/')[0]}-0 ")
    assert max(map(len, (head, first, *others))) <= 80


def test_an_interrupt_declines_the_confirmation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_is_terminal", lambda: True)
    data = shutil.copytree(V41 / "ret-size/before/data", tmp_path / "data")
    result = run("retain", str(data), "-c", "retention.bytes=8000", text="")
    assert (result.exit_code, "Nothing changed." in result.stderr) == (3, True)


def test_times_in_json_are_epoch_ms() -> None:
    result = run("erase", str(V41 / "plain-none/data"), "--key", "k1", "-n", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    times = [row["timestamp"] for row in rows if row["status"] == "would be erased"]
    assert len(times) > 10
    assert all(
        isinstance(time_ms, int) and 1_600_000_000_000 < time_ms < 1_800_000_000_000 for time_ms in times
    )


def test_huge_numbers_are_usage_errors() -> None:
    data = str(V41 / "ret-size/before/data")
    result = run("retain", data, "-n", "--now-ms", "9223372036854775808")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    result = run("delete-records", data, "-n", "--offset", "ret-size:0:9223372036854775808")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


def test_reasons_give_ages_in_days_and_hours() -> None:
    result = run(
        "retain",
        str(V41 / "ret-size/before/data"),
        "-n",
        "-c",
        "retention.ms=604800000",
        "--now-ms",
        "1800000000000",
    )
    assert re.search(r"\d+ d( \d+ h)? old, retention.ms is 604800000 \(7 d\)", result.stdout)


@pytest.mark.parametrize("command", ["retain", "compact", "erase"])
def test_topics_can_be_excluded(command: str) -> None:
    options = ("--key-prefix", "k") if command == "erase" else ("-c", "cleanup.policy=compact,delete")
    result = run(
        command, str(V41 / "whole-broker/data"), "-n", "--json", "--exclude-topic", "events", *options
    )
    topics = {json.loads(line)["topic"] for line in result.stdout.splitlines()}
    assert "events" not in topics
    assert "payments" in topics
    result = run(command, str(V41 / "whole-broker/data"), "-n", "--exclude-topic", "event", *options)
    assert (result.exit_code, "no topic event" in result.stderr) == (2, True)


def test_binary_keys_can_be_erased(tmp_path: Path) -> None:
    data = str(V41 / "whole-broker/data")
    key = b"\xff\xfe\x1c\x00\x80"
    file = tmp_path / "keys"
    file.write_text(f"{key.hex()}\n\n{b'k31'.hex().upper()}\n")

    def erased(*options: str) -> set[str]:
        result = run("erase", data, "-t", "events", *options, "-n", "--json")
        assert result.exit_code == 0, result.stderr
        rows = map(json.loads, result.stdout.splitlines())
        return {row["keySha256"] for row in rows if row["status"] == "would be erased"}

    digest = hashlib.sha256(key).hexdigest()
    assert erased("--key", key.hex(), "--key-encoding", "hex") == {digest}
    assert erased("--key", base64.b64encode(key).decode(), "--key-encoding", "base64") == {digest}
    assert digest in erased("--key-prefix", "fffe", "--key-encoding", "hex")
    assert erased("--keys-file", str(file), "--key-encoding", "hex") == {
        digest,
        hashlib.sha256(b"k31").hexdigest(),
    }
    result = run("erase", data, "--key", "xyz", "--key-encoding", "hex", "-n")
    assert (result.exit_code, "a key in hex, found 'xyz'" in result.stderr) == (2, True)


@pytest.fixture
def stored_retention(tmp_path: Path) -> Path:
    """A topic that stores retention.ms=-1."""
    data = shutil.copytree(V41 / "ret-time/before/data", tmp_path / "data")
    store(data, "ret-time", {"retention.ms": "-1"})
    return data


def test_the_question_names_stored_settings_that_are_overridden(
    stored_retention: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_is_terminal", lambda: True)
    result = run("retain", str(stored_retention), "-c", "retention.ms=1", text="n\n")
    question = "This overrides stored settings: retention.ms=-1 of ret-time. Proceed?"
    assert (result.exit_code, question in result.stderr) == (3, True)
    assert (
        "settings of ret-time: cleanup.policy=delete (default), retention.ms=1 (given, overrides -1), "
        "retention.bytes (unknown)\n"
    ) in result.stdout
    result = run("retain", str(stored_retention), "-c", "retention.bytes=1", text="n\n")
    assert result.stderr.startswith("Proceed?")


def test_the_default_of_a_broker_is_shown_with_its_source(stored_retention: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.retention.hours=1\nlog.retention.bytes=1073741824\nlog.dirs=/data\n")
    result = run("retain", str(stored_retention), "-n", "--json", "--conf-file", str(file))
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {row["decision"] for row in rows} == {"kept"}
    assert rows[0]["settings"] == [
        {"name": "cleanup.policy", "value": "delete", "source": "default", "overrides": None},
        {"name": "retention.ms", "value": "-1", "source": "stored for topic", "overrides": None},
        {"name": "retention.bytes", "value": "1073741824", "source": "given for broker", "overrides": None},
    ]


def test_compact_shows_its_settings(tmp_path: Path) -> None:
    data = shutil.copytree(V41 / "compact-txn/round1-before/data", tmp_path / "data")
    store(data, "compact-txn", {"cleanup.policy": "compact", "delete.retention.ms": "5"})
    options = ("-c", "min.cleanable.dirty.ratio=0", "-c", "log.cleaner.delete.retention.ms=7")
    shown = run("compact", str(data), "-n", *options).stdout.splitlines()[-1]
    assert shown == (
        "settings of compact-txn: cleanup.policy=compact (stored for topic), min.cleanable.dirty.ratio=0.0 "
        "(given), min.compaction.lag.ms=0 (default), max.compaction.lag.ms=9223372036854775807 (default), "
        "delete.retention.ms=5 (stored for topic), segment.bytes=1073741824 (default)"
    )


def test_a_run_speaks_of_what_was_done(command: tuple[str, ...]) -> None:
    result = run(*command, "--yes")
    assert "would be" not in result.stdout
    assert re.search(r"\b(deleted|cleaned|erased)\b", result.stdout)
