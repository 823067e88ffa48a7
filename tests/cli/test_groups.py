"""`kafkalog groups`."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from click.testing import CliRunner
from markdown_blocks import ROOT

from native_log.cli.app import kafkalog
from native_log.messages import share_groups
from tests.builders.internal_topics import NOW_MS, SHARE_STATE_TOPIC, InternalTopic, commit, group_record
from tests.builders.messages import encode_key, encode_value

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

SAMPLE = ROOT / "examples/kafka-logs"
SHARE_METADATA = 11


def run(*arguments: object) -> Result:
    return CliRunner().invoke(kafkalog, ["groups", *(str(argument) for argument in arguments)])


def output(*arguments: object) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return str(result.stdout)


def test_all_groups() -> None:
    assert [line.split() for line in output(SAMPLE).splitlines()] == [
        ["GROUP", "TYPE", "STATE", "MEMBERS", "PARTITIONS", "LAG"],
        ["audit", "consumer", "Stable", "1", "1", "85"],
        ["billing", "classic", "Stable", "2", "2", "330"],
        ["nightly-report", "classic", "Empty", "0", "2", "380"],
    ]


def test_the_description_of_groups() -> None:
    billing, audit = output(SAMPLE, "--group", "billing", "-g", "audit").split("\n\n")[::-1]
    head, _, first, second = billing.splitlines()
    assert head == "billing  (classic group, Stable, range, generation 2, 2 members)"
    assert first.split()[:5] == ["orders", "0", "260", "284", "24"]
    assert first.split()[7:9] == ["billing-1", "/127.0.0.1"]
    assert second.split()[:5] == ["orders", "1", "10", "316", "306"]
    assert audit.startswith("audit  (consumer group, Stable, epoch 1, 1 member)")


def test_commits_above_the_checkpointed_high_watermark(tmp_path: Path) -> None:
    """A broker that has just started has not checkpointed it yet."""
    data = shutil.copytree(SAMPLE, tmp_path / "logs")
    (data / "replication-offset-checkpoint").write_text("0\n1\norders 0 200\n")
    result = run(data, "--high-watermark", "checkpoint")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert result.stderr == (
        "kafkalog: 15 offsets are not read in 1 partition: above the high watermark that the broker "
        "checkpointed last, which it does every 5 seconds; try again, or use --high-watermark ignore\n"
    )


def test_json() -> None:
    document = json.loads(output(SAMPLE, "--json", "-g", "audit"))
    (group,) = document["groups"]
    assert (group["group"], group["type"], document["undecodable"]) == ("audit", "consumer", 0)
    (member,), (offset,) = group["members"], group["offsets"]
    assert member["assignment"][0]["topic"] == offset["topic"] == "payments"
    assert (offset["offset"], offset["lag"], type(offset["commitTimestamp"])) == (41, 85, int)


def test_a_share_group(tmp_path: Path) -> None:
    topic = InternalTopic(tmp_path / "logs")
    topic.append(group_record(SHARE_METADATA, key={"groupId": "g"}, epoch=1))
    states = InternalTopic(tmp_path / "other", SHARE_STATE_TOPIC)
    key = {"groupId": "g", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partition": 3}
    value = encode_value(share_groups.RECORDS, 0, 0, startOffset=5, writeTimestamp=NOW_MS)
    states.append((encode_key(share_groups.RECORDS, 0, **key), value), (b"\0\7", b""))
    assert output(tmp_path / "logs").splitlines()[1].split() == ["g", "share", "Empty", "0", "0"]
    result = run(tmp_path / "logs", tmp_path / "other", "-g", "g")
    assert result.stdout.splitlines()[2].split()[:3] == ["AAAAAAAAAAAAAAAAAAAAAQ", "3", "5"]
    assert "__share_group_state-0, offset 1: unknown record type 7" in result.stderr


def test_a_time_that_datetime_does_not_cover(tmp_path: Path) -> None:
    time_ms = 400_000_000_000_000  # in the year 14645
    InternalTopic(tmp_path / "logs").append(commit(1, commitTimestamp=time_ms))
    result = run(tmp_path / "logs", "--json")
    assert json.loads(result.output)["groups"][0]["offsets"][0]["commitTimestamp"] == time_ms
    assert str(time_ms) in run(tmp_path / "logs", "--group", "g").output


def test_a_group_that_is_not_there() -> None:
    result = run(SAMPLE, "--group", "none")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no group none" in result.stderr


def test_records_that_cannot_be_decoded_are_reported(tmp_path: Path) -> None:
    topic = InternalTopic(tmp_path / "logs")
    topic.append(commit(1, group="g\x1b[2J"), (b"\x7f\xff", b""))
    result = run(tmp_path / "logs")
    assert result.exit_code == 1
    assert "__consumer_offsets-0, offset 1: unknown record type 32767" in result.stderr
    assert "\x1b" not in result.stdout
    assert "g\\x1b[2J" in result.stdout


def test_offsets_for_kafka_consumer_groups() -> None:
    lines = output(SAMPLE, "--csv").splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("audit,")
    assert all(len(line.split(",")) == 4 for line in lines)
    of_one = output(SAMPLE, "--group", "billing", "--csv").splitlines()
    assert of_one == [line.removeprefix("billing,") for line in lines if line.startswith("billing,")]
