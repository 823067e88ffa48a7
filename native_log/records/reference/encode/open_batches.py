"""The batches of a producer that take records (Kafka: RecordAccumulator.append)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.records.reference.partitioner import partition_of_key

if TYPE_CHECKING:
    from collections.abc import Callable

_NS_PER_MS = 1_000_000


class AppendedRecord:
    """A record that was appended to a batch.

    Attributes:
        batch: the batch.
        index: the index of the record in the batch.
        timestamp: epoch ms.
        key_size, value_size: in bytes; -1: null.
    """

    __slots__ = ("batch", "index", "key_size", "timestamp", "value_size")

    def __init__(
        self,
        batch: Any = None,
        index: int = 0,
        timestamp: int = -1,
        key_size: int = -1,
        value_size: int = -1,
    ) -> None:
        self.batch = batch
        self.index = index
        self.timestamp = timestamp
        self.key_size = key_size
        self.value_size = value_size


class OpenBatches:
    """The batches of one topic to which records can be appended without any other work.

    A batch is an object with the attributes `builder`, a BatchBuilder, and `callbacks`, a list.

    Args:
        record_type: the subclass of AppendedRecord that `append` returns.
        clock_ns: returns the current time in epoch ns.
        by_partition: the batch of each partition, for records with a key. The caller may change the list.
        sticky: see below.
        ignore_keys: treat records with keys like those without.

    Attributes:
        sticky: the batch of records without a key. A closed one takes none.
        on_full: called when a record has filled its batch; None: nothing is.
    """

    def __init__(
        self,
        record_type: type[AppendedRecord],
        clock_ns: Callable[[], int],
        by_partition: list[Any],
        sticky: Any,
        *,
        ignore_keys: bool = False,
    ) -> None:
        self._record_type = record_type
        self._clock_ns = clock_ns
        self._ignore_keys = ignore_keys
        self._by_partition = by_partition
        self.sticky = sticky
        self.on_full: Callable[[], object] | None = None

    def append(
        self,
        value: Any,
        key: Any = None,
        headers: Any = None,
        timestamp_ms: Any = None,
        callback: Callable[..., object] | None = None,
    ) -> Any:
        """Append a record to its batch, if the batch has room.

        In the kernel, no other thread runs from the append to the batch until the callback is in
        `callbacks`.

        Args:
            value, key: bytes, str (appended as UTF-8) or None.
            headers: a list of pairs of name and value; None: there are none.
            timestamp_ms: None: the current time.
            callback: appended to the batch's `callbacks`, in a pair with the record.

        Returns:
            The AppendedRecord. None: nothing was appended, because the batch is closed or has no room, or
            because an argument is another one than these.
        """
        if not all(content is None or isinstance(content, bytes | str) for content in (value, key)):
            return None
        are_listed = headers is None or isinstance(headers, list)
        if not are_listed or not (timestamp_ms is None or _is_timestamp(timestamp_ms)):
            return None
        try:
            value, key = (each.encode() if isinstance(each, str) else each for each in (value, key))
            batch = self.sticky
            if key is not None and not self._ignore_keys:
                if not self._by_partition:
                    return None
                batch = self._by_partition[partition_of_key(key, len(self._by_partition))]
            timestamp_ms = self._clock_ns() // _NS_PER_MS if timestamp_ms is None else timestamp_ms
            count = batch.builder.append(value, key, headers, timestamp_ms)
        except (AttributeError, TypeError, ValueError):
            return None
        if not count:
            return None
        sizes = (-1 if content is None else len(content) for content in (key, value))
        record = self._record_type(batch, abs(count) - 1, timestamp_ms, *sizes)
        if callback is not None:
            batch.callbacks.append((callback, record))
        if count < 0 and self.on_full is not None:
            self.on_full()
        return record


def _is_timestamp(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 2**63
