from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.checkpoints.offset_checkpoints import (
    MalformedCheckpointError,
    parse_offset_checkpoint,
    read_offset_checkpoint,
)
from native_log.logdir import OffsetCheckpoints
from tests.builders.golden import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("", {}),
        ("0\n", {}),
        ("0", {}),
        ("0\n0\n", {}),
        ("0\n2\ntopicA 0 1234\ntopic.b-c 11 0\n", {("topicA", 0): 1234, ("topic.b-c", 11): 0}),
        ("0\n1\nt 0 9223372036854775807", {("t", 0): 2**63 - 1}),
        ("0\n1\nt\t0   5 \n", {("t", 0): 5}),
    ],
)
def test_grammar(text: str, offsets: dict[tuple[str, int], int]) -> None:
    assert parse_offset_checkpoint(text) == offsets


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1\n0\n", 1, "version 0, found 1"),
        ("x\n0\n", 1, "'x'"),
        ("\n", 1, "''"),
        ("0\nx\n", 2, "'x'"),
        ("0\n2\nt 0 1\n", 2, "expected 2 entries, found 1"),
        ("0\n1\nt 0 1\nt 1 1\n", 2, "expected 1 entries, found 2"),
        ("0\n1\nt 0\n", 3, "'t 0'"),
        ("0\n1\nt 0 1 1\n", 3, "'t 0 1 1'"),
        ("0\n1\n t 0 1\n", 3, "' t 0 1'"),
        ("0\n1\nt zero 1\n", 3, "'zero'"),
        ("0\n1\nt 2147483648 1\n", 3, "'2147483648'"),
        ("0\n2\nt 0 1\nt 1 9223372036854775808\n", 4, "'9223372036854775808'"),
        ("0\n1\nt 0 1\n\n", 4, "''"),
        ("0\n1\nt 0 ١\n", 3, "'١'"),
    ],
)
def test_malformed(text: str, line: int, message: str) -> None:
    with pytest.raises(MalformedCheckpointError, match=f"line {line}: ") as error:
        parse_offset_checkpoint(text)
    assert message in str(error.value)


@given(
    st.dictionaries(
        st.tuples(st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 2**31 - 1)),
        st.integers(0, 2**63 - 1),
    )
)
def test_written_checkpoints_are_read_and_a_missing_line_is_noticed(
    offsets: dict[tuple[str, int], int],
) -> None:
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    text = f"0\n{len(lines)}\n" + "".join(lines)
    assert parse_offset_checkpoint(text) == offsets
    if lines:
        with pytest.raises(MalformedCheckpointError):
            parse_offset_checkpoint(text.removesuffix(lines[-1]))


def test_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert read_offset_checkpoint(tmp_path / "log-start-offset-checkpoint") == {}


def test_windows_line_endings(tmp_path: Path) -> None:
    file = tmp_path / "log-start-offset-checkpoint"
    file.write_bytes(b"0\r\n1\r\nt 0 5\r\n")
    assert read_offset_checkpoint(file) == {("t", 0): 5}


@pytest.mark.parametrize("content", [b"0\n1\nt 0\n", b"\xff\xfe\x00", b"\0" * 4096])
def test_a_malformed_file_is_empty_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    file = tmp_path / "log-start-offset-checkpoint"
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING, "native_log"):
        assert read_offset_checkpoint(file) == {}
    (record,) = caplog.records
    assert str(file) in record.getMessage()
    assert "line " in record.getMessage()


def test_a_brokers_checkpoints() -> None:
    checkpoints = OffsetCheckpoints.read(GOLDEN / "kafka-4.1/whole-broker/data")
    assert checkpoints.log_start_offsets == {("trimmed", 0): 75}
    assert checkpoints.first_dirty_offsets == {("state", 0): 424}
    assert checkpoints.high_watermarks[("events", 2)] == 195
    assert checkpoints.recovery_points == checkpoints.high_watermarks
    assert len(checkpoints.recovery_points) == 11
