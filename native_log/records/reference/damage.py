"""How reading comes to a stop."""

from __future__ import annotations

from native_log.records.schema import Damage


class DamagedBatchError(Exception):
    """The batch at hand cannot be read. `kind` as in Damage; who catches it knows where the batch lies."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Stop(Exception):  # noqa: N818  (the end of the data is no error)
    """Nothing more can be read at this position; the fields are those of Decoded and Scanned."""

    def __init__(self, status: str, needed_bytes: int = 0, damage: Damage | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.needed_bytes = needed_bytes
        self.damage = damage

    @classmethod
    def damaged(cls, found: DamagedBatchError, position: int, size_bytes: int, offset: int) -> Stop:
        return cls("damaged", damage=Damage(found.kind, position, size_bytes, offset, found.message))
