"""Check the CRCs and the records of the batches in a file without keeping the records."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from native_log.records.reference.batch import read_batch
from native_log.records.reference.damage import DamagedBatchError
from native_log.records.reference.entry import MAGIC_AT
from native_log.records.reference.scan import ScanOptions, reader, scan_from
from native_log.records.results import DEFAULT_MAX_BATCH_BYTES, Checked

if TYPE_CHECKING:
    from native_log.records.reference.damage import DamageSkipper
    from native_log.records.reference.entry import BatchHeader
    from native_log.records.results import OffsetOrder


def check_file(
    descriptor: int,
    position: int,
    end: int,
    *,
    check_records: bool,
    max_rows: int,
    max_bytes: int,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    order: OffsetOrder | None = None,
    accept_newer: bool = False,
    skipper: DamageSkipper | None = None,
) -> Checked:
    """Scan a file's bytes from `position` (inclusive) to `end` (exclusive), and check CRCs and records.

    The rows are those of `scan` with `check_crcs`. The call ends with the status "limit" after a batch with a
    wrong CRC, after `max_rows` batches, and after batches of `max_bytes` bytes or more. With the status
    "zeros", only as many bytes as a header takes are known to be zero.

    Records are invalid if they cannot be decoded, or if their offsets do not increase from the base offset of
    their batch to its last offset, after those of the batch before.

    Args:
        descriptor: of a file that is open for reading.
        check_records: whether to check records. Those of batches with a wrong CRC are not checked.
        max_batch_bytes, order: as for `scan`.
        accept_newer: whether a batch of a higher magic than 2 is one whose records are invalid, if it has a
            right CRC when it is read as one of magic 2. Otherwise it is damage.
        skipper: continue after damage, including batches with a wrong CRC, if the next batch is near. This
            requires an order. None: stop at damage.

    Raises:
        EOFError: the file ends before `end`.
        OSError: the file cannot be read.
    """
    del skipper
    previous = -1 if order is None else order.next_offset - 1
    size_bytes = 0
    invalid_records = []

    def is_last(header: BatchHeader, batch: memoryview, is_valid: bool | None) -> bool:
        nonlocal previous, size_bytes
        if check_records and is_valid and not _are_valid(header, batch, previous, max_batch_bytes):
            invalid_records.append(header.position)
        previous = header.last_offset
        size_bytes += header.size_bytes
        return not is_valid or size_bytes >= max_bytes

    how = ScanOptions(position, True, accept_newer, max_rows, max_batch_bytes, order)
    scanned = scan_from(reader(descriptor, position, end), how, is_last)
    return Checked(
        scanned.batches,
        scanned.status,
        scanned.position,
        scanned.next_offset,
        scanned.needed_bytes,
        scanned.damage,
        invalid_records,
    )


def _are_valid(header: BatchHeader, batch: memoryview, previous: int, max_batch_bytes: int) -> bool:
    if batch[MAGIC_AT] != header.magic:
        return False
    if header.record_count == 0:
        return True
    try:
        records = read_batch(header, batch, False, max_batch_bytes).records
    except DamagedBatchError:
        return False
    offsets = [record.offset for record in records]
    if not offsets:
        return True
    # The offset of a wrapper is that of its last message.
    from_base = header.is_wrapper or header.offset <= offsets[0]
    increase = all(before < after for before, after in pairwise([previous, *offsets]))
    return from_base and increase and offsets[-1] <= header.last_offset
