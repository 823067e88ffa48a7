"""The exceptions that end a read, and how a read continues after damage."""

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


class DamageSkipper:
    """Lets `decode`, `decode_file` and `check_file` continue after damage if the next batch is near.

    A damaged log can have thousands of damaged ranges in each MiB. So the kernel finds near batches by
    itself, by the rules of `native_log.segment.damage`. The reference leaves all of them to its callers.
    """

    def __init__(self, end: int, has_whole_file: bool) -> None:
        """Take the position where the batches of the file end.

        Args:
            has_whole_file: whether the descriptor in the order has all bytes of the file, not only those of
                the call.
        """
