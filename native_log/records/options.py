"""Options of the record functions. One value holds the arguments that stay the same from call to call.

Each option is defined here once, except for `RewriteOptions`, which `compaction` defines. Both
implementations read the attributes: the compiled kernel into structs of the same names
(kernel/python/src/options.rs). To add an option, add the field here, add it to the struct, and use it in both
implementations.

What changes from call to call stays an argument of the call: the bytes, their position in the file, and what
is known of the order of their offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from native_log.codecs import CODECS
from native_log.records.results import DEFAULT_MAX_BATCH_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class InputOptions:
    """Which records of the input to use, and what to check."""

    start_offset: int | None = None
    """Inclusive: skip records with smaller offsets. None: no lower bound."""
    end_offset: int | None = None
    """Exclusive: skip records from this offset on. None: no upper bound. Reading continues after a skipped
    batch, because offsets on disk need not increase."""
    aborted: Buffer = b""
    """Aborted transactions, whose records are skipped: triples of native int64 (producerId, firstOffset,
    lastOffset inclusive), sorted by producerId and firstOffset."""
    check_crcs: bool = True
    """Check the CRC of each batch of magic 2, of each plain message, and of each message in a wrapper.
    Batches that are skipped by their offsets, or as aborted, are not checked."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """The most bytes one batch may have, as stored and as decompressed. A larger batch is damaged (kind
    "too-large")."""


@dataclass(frozen=True, slots=True)
class DecodeOptions(InputOptions):
    """Options of `decode` and `decode_file`."""

    max_rows: int | None = None
    """Start no further batch once there are this many rows. At least one batch is decoded."""
    max_bytes: int | None = None
    """Start no further batch once the columns take this many bytes of Arrow memory. At least one batch is
    decoded, and no more than 1 GiB and one batch."""
    control: bool = False
    """Whether to return the records of control batches (transaction markers) too."""
    topic: str | None = None
    """The value of the column `topic`."""
    partition: int | None = None
    """The value of the column `partition`."""
    segment: str | None = None
    """The value of the column `segment`: the name of the .log file."""
    conditions: Any = None
    """A `Conditions` of the same implementation: drop records that do not meet them. None: there are none."""
    skipper: Any = None
    """A `DamageSkipper` of the same implementation: continue after damage if the next batch is near, and CRCs
    and order are checked. None: stop at damage."""


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Options of `format_batches`."""

    records: bool = True
    """Print a line for each record, not only for each batch (Kafka: --deep-iteration)."""
    record_metadata: bool = True
    """Print offset, timestamp, sizes, sequence number and header names of records (Kafka: the opposite of
    --skip-record-metadata)."""
    contents: bool = True
    """Print keys and values (Kafka: --print-data-log)."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """As in InputOptions."""


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """Options of `encode`.

    Raises:
        ValueError: an option is out of range, or two options contradict each other (Kafka:
            MemoryRecordsBuilder).
    """

    magic: int = 2
    """The format: 2; or 1 or 0, the formats before Kafka 0.11. Magic 0 and 1 have no headers, no producers
    and no transactions, and compress several records within one wrapper message."""
    compression: str = "none"
    """none, gzip, snappy, lz4 or zstd (magic 2 only)."""
    level: int | None = None
    """Of the codec, see native_log.codecs. None: Kafka's default level."""
    batch_size: int = 16384
    """Bytes of a batch, like the producer's `batch.size`. 0: one batch for each record. A record larger than
    this gets its own batch."""
    max_message_bytes: int | None = None
    """The most bytes of a batch, header included, after compression. None: no limit."""
    leader_epoch: int = -1
    """Of all batches. -1 is what a producer sends."""
    producer_id: int = -1
    """-1: no idempotent producer."""
    producer_epoch: int = -1
    is_transactional: bool = False
    """Mark the batches as transactional. Requires a producer_id."""
    timestamp_type: int = 0
    """0 (CreateTime); 1 (LogAppendTime) marks the batches LogAppendTime, with `append_time_ms` as their
    maximum timestamp. Their records keep their own timestamps, which readers then ignore."""
    append_time_ms: int = -1
    """Epoch ms. See timestamp_type."""
    now_ms: int = -1
    """Epoch ms: the timestamp of records that have none."""

    def __post_init__(self) -> None:
        expect(self.magic in (0, 1, 2), "magic 0, 1 or 2", self.magic)
        codec = CODECS.get(self.compression)
        if codec is None:
            raise ValueError(f"expected a compression of {', '.join(CODECS)}, found {self.compression!r}")
        if self.level is not None and not codec.has_level(self.level):
            if codec.default_level is None:
                raise ValueError(
                    f"expected no level, because compression {codec.name} has none, found {self.level}"
                )
            raise ValueError(f"expected as level of {codec.name} {codec.levels}, found {self.level}")
        expect(self.magic in codec.magics, f"magic 2, which {codec.name} needs", self.magic)
        expect(
            self.timestamp_type in (0, 1),
            "timestamp_type 0 (CreateTime) or 1 (LogAppendTime)",
            self.timestamp_type,
        )
        expect(self.batch_size >= 0, "a batch_size of 0 bytes or more", self.batch_size)
        most = self.max_message_bytes
        expect(most is None or most >= 0, "max_message_bytes >= 0", most)
        expect(-1 <= self.leader_epoch < 2**31, "a leader_epoch from -1 to 2^31 - 1", self.leader_epoch)
        expect(-1 <= self.producer_id < 2**63, "a producer_id from -1 to 2^63 - 1", self.producer_id)
        expect(-1 <= self.producer_epoch < 2**15, "a producer_epoch from -1 to 32767", self.producer_epoch)
        if self.producer_id >= 0:
            expect(self.magic == 2, "magic 2 for batches with a producer_id", self.magic)
            expect(
                self.producer_epoch >= 0,
                "a producer_epoch of 0 or more with a producer_id",
                self.producer_epoch,
            )
        else:
            expect(not self.is_transactional, "a producer_id for transactional batches", self.producer_id)


def expect(is_valid: bool, expected: str, value: object) -> None:
    """Raise ValueError unless the value of an option is valid."""
    if not is_valid:
        raise ValueError(f"expected {expected}, found {value!r}")
