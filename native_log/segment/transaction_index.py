"""The aborted transactions of a segment, `.txnindex` (Kafka: TransactionIndex, AbortedTxn)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.segment.health import MISSING, UNREADABLE, IndexHealth, index_health, warn_unreadable
from native_log.storage import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from native_log.storage import Storage

ABORTED_ENTRY = struct.Struct(">hqqqq")
"""version, producer id, first offset, last offset, last stable offset"""
_VERSION = 0


@dataclass(frozen=True, slots=True)
class AbortedTxn:
    """An aborted transaction.

    Attributes:
        first_offset, last_offset: inclusive; `last_offset` is the offset of the ABORT marker.
        last_stable_offset: the last stable offset when the entry was written: the first offset of the oldest
            other transaction that was open, or the offset after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class TransactionIndex:
    """The entries of a `.txnindex` file.

    Brokers write the file after the log, so it may lack transactions whose ABORT markers are in the log. Read
    the markers if you need all aborted transactions.
    """

    entries: tuple[AbortedTxn, ...]
    health: IndexHealth
    error: OSError | None = None
    """Why the file could not be read; None if it could."""

    def all_entries(self) -> tuple[AbortedTxn, ...]:
        """Return the entries in order to rewrite the file. Raises OSError if it could not be read."""
        if self.error is not None:
            raise self.error
        return self.entries

    @classmethod
    def load(cls, path: str | None, base_offset: int, storage: Storage = LOCAL) -> TransactionIndex:
        """Read the index at `path`. It is empty if `path` is None or the file does not exist."""
        if path is None:
            return cls((), MISSING)
        try:
            with storage.open(path) as file:
                data = file.read(0, file.size_bytes)
        except FileNotFoundError:
            return cls((), MISSING)
        except OSError as error:
            warn_unreadable(path, error)
            return cls((), UNREADABLE, error)
        entries: list[AbortedTxn] = []
        for position in range(0, len(data) - len(data) % ABORTED_ENTRY.size, ABORTED_ENTRY.size):
            version, *fields = ABORTED_ENTRY.unpack_from(data, position)
            txn = AbortedTxn(*fields)
            previous = entries[-1].last_offset if entries else base_offset - 1
            if version != _VERSION or not previous < txn.last_offset or txn.first_offset > txn.last_offset:
                break
            entries.append(txn)
        rest = data[len(entries) * ABORTED_ENTRY.size :]
        return cls(tuple(entries), index_health(len(data), ABORTED_ENTRY.size, len(entries), rest))


def transaction_index_bytes(transactions: Iterable[AbortedTxn]) -> bytes:
    """The entries of a `.txnindex`."""
    return b"".join(
        ABORTED_ENTRY.pack(_VERSION, t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset)
        for t in transactions
    )
