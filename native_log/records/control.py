"""Encode the control batches that end a transaction (Kafka: EndTransactionMarker)."""

from __future__ import annotations

import struct

_VERSION = 0
_ABORT, _COMMIT = 0, 1


def encode_marker(
    *,
    offset: int,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
    leader_epoch: int = -1,
) -> bytes:
    """Return the control batch, of 78 bytes, that ends a producer's transaction.

    Args:
        offset: of the marker.
        producer_id, producer_epoch: of the transaction. A coordinator of Kafka 4.0 or later (KIP-890) uses an
            epoch one higher than that of the data.
        commit: True: the transaction is committed; False: it is aborted.
        coordinator_epoch: of the transaction coordinator.
        timestamp_ms: epoch ms of the transaction's end.
        leader_epoch: of the partition's leader; -1: none.

    Raises:
        ValueError: an offset, producer or time out of range.
    """
    # Imported here: this also imports the codecs of the reference implementation, which readers do not need.
    from native_log.records.reference.entry import CONTROL_FLAG, TRANSACTIONAL_FLAG
    from native_log.records.reference.write import v2_batch, v2_record

    for name, number, end in (
        ("offset", offset, 2**63),
        ("producer_id", producer_id, 2**63),
        ("producer_epoch", producer_epoch, 2**15),
        ("timestamp_ms", timestamp_ms, 2**63),
    ):
        if not 0 <= number < end:
            raise ValueError(f"expected {name} from 0 to {end - 1}, found {number}")
    key = struct.pack(">hh", _VERSION, _COMMIT if commit else _ABORT)
    value = struct.pack(">hi", _VERSION, coordinator_epoch)
    return v2_batch(
        base_offset=offset,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
        last_offset_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        record_count=1,
        records=v2_record(0, 0, key, value, []),
    )
