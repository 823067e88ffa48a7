"""One changed bit in the header of a batch: readers, verify, recover and appends agree on what is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from native_log import KafkaLogError
from native_log.config import LogConfig
from native_log.log import PartitionLog
from native_log.log.recovery.log_recovery import recover_log
from native_log.log.verification import verify_log
from native_log.segment.files import file_name
from tests.builders.batches import batch
from tests.builders.legacy import message, wrapper
from tests.builders.logs import write_log
from tests.contents import offsets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 2**31
"""No offset is that far above the base offset of its segment."""
OFFSET_BITS = 64
HEADERS = {
    "v0": ([message(0, i) for i in range(4)], 1, 18),
    "v1": ([message(1, i) for i in range(4)], 1, 26),
    "v1 compressed": (
        [wrapper(1, [message(1, k) for k in range(3)], 3 * i + 2, "gzip") for i in range(4)],
        3,
        26,
    ),
    "v2": ([batch(3 * i) for i in range(4)], 3, 61),
}
"""By format: the batches, the number of records in each, and the size of the header in bytes."""


def flips(log: Path, content: list[bytes], index: int, bits: int) -> Iterator[int]:
    """Write the log with each bit of a batch's header changed, and yield the number of the bit."""
    for bit in range(bits):
        changed = bytearray(content[index])
        changed[bit // 8] ^= 1 << bit % 8
        log.write_bytes(b"".join([*content[:index], bytes(changed), *content[index + 1 :]]))
        yield bit


def raised_by(bit: int) -> int:
    """Return by how much a bit of the base offset that was not set raises it."""
    return 1 << (8 * (7 - bit // 8) + bit % 8)


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("magic", HEADERS)
def test_what_is_not_read_is_reported(magic: str, index: int, tmp_path: Path) -> None:
    """Only an offset of the last batch that is raised below the limit cannot be noticed in one copy."""
    content, count, header_bytes = HEADERS[magic]
    path = write_log(tmp_path / "t-0", {0: content})
    whole, last = [*range(4 * count)], index == len(content) - 1
    for bit in flips(path / file_name(0, "log"), content, index, 8 * header_bytes):
        log = PartitionLog.open(path)
        read = offsets(log.read(columns=["offset"], mode="dropMalformed"))
        assert log.log_end_offset <= LIMIT, bit
        if last and bit < OFFSET_BITS and read[: index * count] == whole[: index * count] and read != whole:
            raised = [offset + raised_by(bit) for offset in whole[index * count :]]
            assert read[index * count :] in ([], raised), bit
            if read[index * count :] == raised:
                assert raised[-1] < LIMIT, bit
                continue
        assert set(read) <= set(whole), bit
        if read == whole:
            continue
        assert list(verify_log(log)), bit
        try:
            assert offsets(log.read(columns=["offset"])) == read, bit
        except KafkaLogError:
            continue
        assert log.missing_end is not None, bit


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("magic", HEADERS)
def test_recovery_and_appends_keep_the_limit(magic: str, index: int, tmp_path: Path) -> None:
    content, _, _ = HEADERS[magic]
    for bit in flips(tmp_path / "changed", content, index, OFFSET_BITS):
        path = write_log(tmp_path / f"t-{bit}", {0: [(tmp_path / "changed").read_bytes()]})
        end = PartitionLog.open(path).log_end_offset
        done = recover_log(path, recovery_point=0, log_start_offset=0, config=LogConfig())
        assert done.log_end_offset <= LIMIT, bit
        if index == len(content) - 1 and not done.out_of_order:  # brokers keep batches in any order
            assert done.log_end_offset == end, bit
        with PartitionLog.open(path) as log:
            end = log.log_end_offset
            try:
                log.append(pa.table({"value": [b"v"]}))
            except KafkaLogError:
                assert done.out_of_order, bit
                continue
            assert log.log_end_offset == end + 1 <= LIMIT + 1, bit
