"""Whether the transaction of a record was committed."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_NO_MARKER = 2**63 - 1


class TransactionStates:
    """The transactions of a log that were not committed."""

    def __init__(self, transactions: pa.Table) -> None:
        """Take the transactions of a log, as PartitionLog.transactions returns them."""
        columns = ("producerId", "firstOffset", "lastOffset", "state")
        rows = zip(*(transactions.column(name).to_pylist() for name in columns), strict=True)
        self._by_producer: dict[int, list[tuple[int, int, str]]] = {}
        for producer_id, first, last, state in rows:
            if state != "committed":
                ends_at = _NO_MARKER if last is None else last
                self._by_producer.setdefault(producer_id, []).append((first, ends_at, state))
        for spans in self._by_producer.values():
            spans.sort()

    def state(self, producer_id: int, offset: int) -> str:
        """Return the state of the transaction of a record: "committed", "aborted" or "open"."""
        spans = self._by_producer.get(producer_id, [])
        index = bisect_right(spans, offset, key=itemgetter(0)) - 1
        if index >= 0 and offset <= spans[index][1]:
            return spans[index][2]
        return "committed"
