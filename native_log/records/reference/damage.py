"""The exceptions that end a read."""

from __future__ import annotations

from native_log.records.results import Damage


class DamagedBatchError(Exception):
    """A batch cannot be read. `kind` is that of Damage. The caller adds the position of the batch."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Stop(Exception):  # noqa: N818  (the end of the data is not an error)
    """A call ends at this position. The fields are those of Decoded and Scanned."""

    def __init__(self, status: str, needed_bytes: int = 0, damage: Damage | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.needed_bytes = needed_bytes
        self.damage = damage

    @classmethod
    def damaged(cls, error: DamagedBatchError, position: int, size_bytes: int, offset: int) -> Stop:
        return cls("damaged", damage=Damage(error.kind, position, size_bytes, offset, error.message))
