"""Commits that are decoded column by column are those that are decoded one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log import CONSUMER_OFFSETS_SCHEMA
from native_log.internal_topics import commit_columns
from native_log.internal_topics.consumer_offsets import all_commits, latest_commits
from native_log.internal_topics.offset_expiration import OffsetRetention
from native_log.internal_topics.records import RECORD_FIELDS, records_of, to_batches
from native_log.internal_topics.schemas import TIMESTAMP
from native_log.internal_topics.transactions import TransactionStates
from native_log.log.producers.transactions import transactions_table
from tests.builders.internal_topics import NOW_MS, PRODUCER, commit, group_record, history_of

from . import reference_commits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.builders.internal_topics import Pair

RETENTION = OffsetRetention(NOW_MS)
TRANSACTIONS = transactions_table([])
TOPIC_IDS = st.sampled_from(["A" * 22, "AAAAAAAAAAAAAAAAAAAAAQ", "_____________________w"])
METADATA = st.sampled_from(
    [b"", b"m", b"x" * 126, b"x" * 127, b"x" * 20_000, "ü€𝄞".encode(), b"\xed\xa0\x80", b"\xff"]
)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.sampled_from([-1, 0, NOW_MS, (2**63 - 1) // 1000, (2**63 - 1) // 1000 + 1]) | INT64
NAMES = st.sampled_from(["", "g", "gröup", "x" * 300])
OTHERS: list[Pair] = [
    commit(None),
    commit(None, kind=0),
    group_record(2, 3, key={"group": "g"}, members=[]),
    (b"\0\x02\0\1g", None),
    (None, b"\0\4"),
    (b"", None),
    (b"\x7f\xff", b""),
    (commit(1)[0], b""),
    # Sizes that are negative numbers.
    (b"\0\1\xff\xff" + b"x" * 0xFFFF + b"\0\0" + bytes(4), commit(1)[1]),
    (commit(1)[0], b"\0\3" + bytes(12) + b"\xff\xff" + bytes(8)),
    (commit(1)[0], b"\0\4" + bytes(12) + b"\0" + bytes(9)),
]


@st.composite
def commits(draw: st.DrawFn) -> Pair:
    version = draw(st.integers(0, 4) | st.just(4))
    fields: dict[str, Any] = {"metadata": draw(METADATA), "commitTimestamp": draw(TIMES)}
    if version == 1:
        fields["expireTimestamp"] = draw(TIMES)
    if version >= 3:
        fields["leaderEpoch"] = draw(st.integers(-(2**31), 2**31 - 1))
    if version == 4 and draw(st.booleans()):
        fields["topicId"] = draw(TOPIC_IDS)
    place = draw(NAMES), draw(NAMES), draw(st.integers(-(2**31), 2**31 - 1))
    return commit(draw(INT64), *place, version=version, **fields)


@st.composite
def damaged(draw: st.DrawFn) -> Pair:
    """Return a commit with a changed byte, without its end or with more bytes."""
    pair = list(draw(commits()))
    index = draw(st.integers(0, 1))
    data = bytearray(pair[index] or b"")
    kind, at = draw(st.sampled_from("-+x")), draw(st.integers(0, len(data) - 1))
    if kind == "-":
        del data[at:]
    elif kind == "+":
        data += b"\0"
    else:
        data[at] = draw(st.integers(0, 255))
    pair[index] = bytes(data)
    return pair[0], pair[1]


def values_of(batches: list[pa.RecordBatch]) -> list[list[Any]]:
    """Return the columns. Times are numbers, because a datetime cannot have all of them."""
    table = pa.Table.from_batches(batches, CONSUMER_OFFSETS_SCHEMA)
    return [
        (column.cast(pa.int64()) if column.type == TIMESTAMP else column).to_pylist()
        for column in table.columns
    ]


def unordered(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return sorted(map(str, zip(*values_of(list(batches)), strict=True)))


@given(st.lists(commits() | damaged() | st.sampled_from(OTHERS), max_size=12), st.data())
def test_both_ways_give_the_same_rows(pairs: list[Pair], data: st.DataObject) -> None:
    flags = data.draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    expired = sorted(data.draw(st.sets(st.integers(0, 24), max_size=5)))
    cut = data.draw(st.integers(0, len(pairs)))
    spans = [(0, 6, "aborted"), (9, None, "open")]
    names = ("producerId", "firstOffset", "lastOffset", "state")
    ended = [dict(zip(names, (PRODUCER, *span), strict=True)) for span in spans]
    transactions = TransactionStates(pa.Table.from_pylist(ended))
    history = history_of(pairs, flags)
    one_by_one = reference_commits.all_commits(records_of(history), 5, transactions, expired)
    expected = list(to_batches(one_by_one, CONSUMER_OFFSETS_SCHEMA))
    actual = list(all_commits([history[:cut], history[cut:]], 5, transactions, expired))
    assert values_of(actual) == values_of(expected)

    latest = history.select(RECORD_FIELDS)
    rows = reference_commits.latest_commits(records_of(latest), 5, {}, RETENTION)
    actual = list(latest_commits([latest[:cut], latest[cut:]], 5, {}, RETENTION))
    assert unordered(actual) == unordered(to_batches(rows, CONSUMER_OFFSETS_SCHEMA))


@pytest.mark.parametrize("version", [3, 4])
def test_commits_of_todays_brokers_are_decoded_in_columns(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a history takes ten times as long."""
    monkeypatch.setattr(commit_columns, "commit_rows", lambda records, _: map(pytest.fail, map(str, records)))
    topic_id = {"topicId": "AAAAAAAAAAAAAAAAAAAAAQ"} if version == 4 else {}
    pairs = [commit(1, version=version), commit(2, version=version, metadata="m", **topic_id), commit(None)]
    (batch,) = all_commits([history_of(pairs, [False] * 3)], 0, TransactionStates(TRANSACTIONS), [])
    assert batch.column("offset").to_pylist() == [1, 2, None]
    assert batch.column("topicId").to_pylist() == [None, topic_id.get("topicId"), None]
