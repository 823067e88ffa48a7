"""Names of the files of segments."""

from __future__ import annotations

import pytest

from native_log.segment.files import FileName, file_name, parse_file_name


@pytest.mark.parametrize(
    ("name", "offset", "kind", "state"),
    [
        ("00000000000000368769.log", 368769, "log", ""),
        ("7.log", 7, "log", ""),
        ("000000000000000000000000042.index", 42, "index", ""),
        ("09223372036854775807.timeindex", 2**63 - 1, "timeindex", ""),
        ("00000000000000000000.txnindex.cleaned", 0, "txnindex", "cleaned"),
        ("00000000000000000123.index.deleted", 123, "index", "deleted"),
        ("00000000000000000000.log.swap", 0, "log", "swap"),
        ("00000000000000000010.snapshot", 10, "snapshot", ""),
        ("00000000000000000010.snapshot.deleted", 10, "snapshot", "deleted"),
    ],
)
def test_file_names_are_parsed(name: str, offset: int, kind: str, state: str) -> None:
    assert parse_file_name(name) == FileName(name, offset, kind, state)


@pytest.mark.parametrize(
    "name",
    [
        "partition.metadata",
        "leader-epoch-checkpoint",
        ".log",
        "0.log.tmp",
        "0.log.swap.deleted",
        "x0.log",
        "-1.log",
        "0.logs",
        "0.checkpoint",
        "00000000000000000000.log~",
        "09223372036854775808.log",  # no offset is as great
        "٣.log",  # a digit, but not a broker's
    ],
)
def test_other_names_are_rejected(name: str) -> None:
    assert parse_file_name(name) is None


@pytest.mark.parametrize("offset", [0, 9007199254740993, 2**63 - 1])
def test_file_names_of_brokers(offset: int) -> None:
    name = file_name(offset, "index", "swap")
    assert len(name) == 20 + len(".index.swap")
    assert parse_file_name(name) == FileName(name, offset, "index", "swap")
