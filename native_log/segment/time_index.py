"""The sparse time index of a segment, `.timeindex` (Kafka: TimeIndex)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from native_log.errors import LogTruncatedError
from native_log.segment.entries import TIME_ENTRY, IndexFile, filled_entries
from native_log.storage import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.segment.health import IndexHealth
    from native_log.storage import Storage


@dataclass(frozen=True)
class TimeIndex:
    """Entries (timestamp in ms, relative offset): no record up to that offset has a greater timestamp.

    The timestamp is the maximum of the segment so far. The offset is that of the record with this timestamp,
    or of the last record in its batch.
    """

    base_offset: int
    file: IndexFile

    @classmethod
    def load(cls, path: str | None, base_offset: int, storage: Storage = LOCAL) -> TimeIndex:
        """Read the index at `path`. It is empty if `path` is None or the file does not exist."""
        return cls(base_offset, IndexFile.load(path, TIME_ENTRY, storage))

    @classmethod
    def last_entry(
        cls, path: str | None, base_offset: int, storage: Storage = LOCAL
    ) -> tuple[int, int] | None:
        """Return the last entry of the index at `path` as (timestamp in ms, offset), without the others.

        None: there is no entry, no file, or the file cannot be read.
        """
        if path is None:
            return None
        try:
            with storage.open(path, known=storage.listed(path)) as file:
                size = TIME_ENTRY.size
                data = (
                    file.read((file.size_bytes // size - 1) * size, size) if file.size_bytes >= size else b""
                )
                if not any(data):  # the rest of the file is preallocated
                    count = filled_entries(file, size)
                    data = file.read((count - 1) * size, size) if count else b""
        except (LogTruncatedError, OSError):
            return None
        if not data:
            return None
        timestamp_ms, relative_offset = TIME_ENTRY.unpack(data)
        return timestamp_ms, base_offset + relative_offset

    def __len__(self) -> int:
        return len(self.file)

    def entry(self, index: int) -> tuple[int, int]:
        """Return an entry as (timestamp in ms, offset)."""
        timestamp_ms, relative_offset = self.file[index]
        return timestamp_ms, self.base_offset + relative_offset

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the entries as (timestamp in ms, offset)."""
        return ((timestamp_ms, self.base_offset + relative) for timestamp_ms, relative in self.file)

    def below(self, timestamp_ms: int) -> int:
        """Return the index of the last entry with a lower timestamp; -1 if there is none."""
        return bisect_left(range(len(self)), timestamp_ms, key=lambda i: self.entry(i)[0]) - 1

    def health(self) -> IndexHealth:
        """Check every entry: timestamps strictly increase, offsets never decrease."""
        valid = self.file.valid_entries(
            # Twelve zero bytes are preallocated; timestamp 0 with another offset is an entry.
            lambda entry: entry[0] >= 0 and entry[1] >= 0 and entry != (0, 0),
            lambda previous, entry: previous[0] < entry[0] and previous[1] <= entry[1],
        )
        return self.file.health(valid)
