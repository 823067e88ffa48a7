"""Decoders of the records of Kafka's internal topics."""

from __future__ import annotations

from collections.abc import Callable

from native_log.messages.cluster_metadata import decode_metadata_record
from native_log.messages.groups import decode_group_record
from native_log.messages.remote_log import decode_remote_log_record
from native_log.messages.share_groups import decode_share_record
from native_log.messages.transaction_log import decode_transaction_record

Decoder = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]
"""Turn offset, key and value of a record into the texts of key and payload; None: print nothing."""

DECODERS: dict[str, Decoder] = {
    "offsets": decode_group_record,
    "transactions": decode_transaction_record,
    "cluster": decode_metadata_record,
    "shares": decode_share_record,
    "remote": decode_remote_log_record,
}
