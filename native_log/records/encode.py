"""What `encode` comes to, and what it asks for: the same for both implementations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class Encoded:
    """Records as batches.

    Attributes:
        data: the bytes, batches one behind the other.
        batches: what `scan` with check_crcs says of them (BATCH_SCHEMA).
    """

    data: Buffer
    batches: pa.RecordBatch
