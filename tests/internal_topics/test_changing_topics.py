"""Tables of internal topics that a broker compacts while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from native_log import LogDir
from native_log.messages import share_groups, transaction_log
from native_log.segment.files import file_name
from tests.builders.batches import Rec, v2
from tests.builders.copies import delete_segment
from tests.builders.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, commit
from tests.builders.logs import write_log
from tests.builders.messages import encode_key, encode_value

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders.internal_topics import Pair

ROLLS = (10, 20)


def transaction(producer_id: int) -> Pair:
    fields = {"transactionStatus": 0, "transactionStartTimestampMs": -1, "transactionPartitions": None}
    return (
        encode_key(transaction_log.RECORDS, 0, transactionalId="t"),
        encode_value(transaction_log.RECORDS, 0, 1, producerId=producer_id, **fields),
    )


def snapshot(start_offset: int) -> Pair:
    key = encode_key(share_groups.RECORDS, 0, groupId="g", topicId="AAAAAAAAAAAAAAAAAAAAAQ", partition=0)
    return key, encode_value(share_groups.RECORDS, 0, 0, startOffset=start_offset, stateBatches=[])


TABLES = {
    "consumer_offsets": (OFFSETS_TOPIC, commit, "offset"),
    "lag": (OFFSETS_TOPIC, commit, "offset"),
    "groups": (OFFSETS_TOPIC, commit, "recordOffset"),
    "transaction_state": (TRANSACTIONS_TOPIC, transaction, "producerId"),
    "share_groups": (SHARE_STATE_TOPIC, snapshot, "startOffset"),
}
"""By name: the topic, a function that returns the record with a number, and the column that shows it."""


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize("name", TABLES)
def test_a_key_that_is_written_again_is_not_lost(name: str, is_compacted: bool, tmp_path: Path) -> None:
    """A broker removes a record because of a newer one, which was not there when the log was opened."""
    topic, record, column = TABLES[name]

    def batch(offset: int) -> bytes:
        key, value = record(offset)
        return v2([Rec(key, value)], offset)

    directory = write_log(tmp_path / f"{topic}-0", {0: [batch(0)]})
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 1\n")
    table: Any = getattr(LogDir(tmp_path, high_watermark="checkpoint"), name)()
    for offset in ROLLS:
        write_log(directory, {offset: [batch(offset)]})
    delete_segment(directory, 0)
    if is_compacted:
        (directory / file_name(ROLLS[0], "log")).rename(directory / file_name(0, "log"))
    (row,) = table.read_all().to_pylist()
    assert row[column] == ROLLS[0]
