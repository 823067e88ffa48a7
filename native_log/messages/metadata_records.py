"""Decode the records of a cluster's metadata in the order in which they take effect.

In Kafka, this is part of MetadataBatchLoader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from native_log.messages.cluster_metadata import RECORDS
from native_log.messages.reading import Buffer, MessageError, read_frame, read_message

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

_BEGIN_TRANSACTION, _END_TRANSACTION, _ABORT_TRANSACTION = 23, 24, 25
_TRANSACTION_TYPES = (_BEGIN_TRANSACTION, _END_TRANSACTION, _ABORT_TRANSACTION)

Origin = TypeVar("Origin")


@dataclass(frozen=True, slots=True)
class MetadataRecord(Generic[Origin]):
    """A decoded record.

    Attributes:
        api_key: its type.
        data: its fields.
        origin: what was given with its bytes.
    """

    api_key: int
    data: dict[str, Any]
    origin: Origin


class MetadataRecords(Generic[Origin]):
    """Decodes records, and holds those of a transaction (KIP-868) back until it ends."""

    def __init__(self, types: Container[int] = RECORDS, *, skips_others: bool = False) -> None:
        """Begin without an open transaction.

        Args:
            types: the API keys to decode.
            skips_others: ignore records of other types; by default they are an error.
        """
        self._types = types
        self._skips_others = skips_others
        self._transaction: list[MetadataRecord[Origin]] | None = None

    def decode(self, value: bytes, origin: Origin) -> Sequence[MetadataRecord[Origin]]:
        """Return the records that take effect with this one, in their order.

        Those of a transaction take effect when it ends. If it is aborted, they never do.

        Raises:
            MessageError: the record cannot be decoded, or its type or version is unknown.
        """
        buffer = Buffer(value)
        api_key, version = read_frame(buffer)
        if api_key in _TRANSACTION_TYPES:
            ended, self._transaction = self._transaction, [] if api_key == _BEGIN_TRANSACTION else None
            return ended or () if api_key == _END_TRANSACTION else ()
        if api_key not in self._types:
            if self._skips_others:
                return ()
            raise MessageError(f"unknown metadata record with id {api_key} of version {version}")
        message = RECORDS[api_key]
        if version not in message.versions:
            raise MessageError(f"expected version {message.versions.last} of {message.name}, found {version}")
        record = MetadataRecord(api_key, read_message(message, version, buffer), origin)
        if self._transaction is None:
            return (record,)
        self._transaction.append(record)
        return ()
