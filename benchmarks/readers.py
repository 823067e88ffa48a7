"""Contenders that read segment files. Each function returns one for `measure_in_turn`.

All access the key, value, offset and timestamp of each record and check CRCs, on one thread. The kernel and
Java read files in chunks of 4 MiB. The Python clients need a whole file in memory, and reading it is not
timed.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.compute as pc
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record import MemoryRecords as KafkaPythonRecords

from benchmarks.jvm import Jvm
from benchmarks.timing import Pass
from native_log.records import Damage, DecodeOptions, decode_file, scan_headers

CHUNK_BYTES = 4 * 1024 * 1024
SEVEN_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def kernel_decode(segments: Sequence[Path], columns: Sequence[str] = SEVEN_COLUMNS) -> Callable[[], Pass]:
    """Decode with the kernel alone, into one Arrow batch per chunk of the file."""
    options = DecodeOptions(topic="t", partition=0)

    def run() -> Pass:
        rows = 0
        for segment in segments:
            with segment.open("rb", buffering=0) as file:
                position, size = 0, os.fstat(file.fileno()).st_size
                while position < size:
                    end = min(size, position + CHUNK_BYTES)
                    decoded = decode_file(file.fileno(), position, end, columns, options)
                    fail_if(decoded.damage)
                    if decoded.position == position:
                        raise AssertionError(f"{segment}: stuck at {position}")
                    rows += decoded.batch.num_rows
                    position = decoded.position
        return Pass(rows)

    return run


def kernel_scan(segments: Sequence[Path]) -> Callable[[], Pass]:
    """Read batch headers only, with one small read each, as Java's FileRecords does."""

    def run() -> Pass:
        rows = 0
        for segment in segments:
            with segment.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                scanned = scan_headers(file.fileno(), 0, size, max_rows=1 << 20)
                fail_if(scanned.damage)
                rows += pc.sum(scanned.batches["recordCount"]).as_py()
        return Pass(rows)

    return run


def java(jvm: Jvm, method: str) -> Callable[[], Pass]:
    """Read with a running RecordsReader.java, which takes the time; `method` is memory, file or headers."""

    def run() -> Pass:
        rows, seconds = jvm.ask(method).split()
        return Pass(int(rows), float(seconds))

    return run


def aiokafka(segments: Sequence[Path]) -> Callable[[], Pass]:
    return _python_client(AiokafkaRecords, segments)


def kafka_python(segments: Sequence[Path]) -> Callable[[], Pass]:
    return _python_client(KafkaPythonRecords, segments)


def _python_client(client: type, segments: Sequence[Path]) -> Callable[[], Pass]:
    contents = [segment.read_bytes() for segment in segments]

    def run() -> Pass:
        rows = 0
        for content in contents:
            records = client(content)
            while (batch := records.next_batch()) is not None:
                if not batch.validate_crc():
                    raise AssertionError("CRC")
                for record in batch:
                    _ = record.key, record.value, record.offset, record.timestamp
                    rows += 1
        return Pass(rows)

    return run


def fail_if(damage: Damage | None) -> None:
    if damage is not None:
        raise AssertionError(damage)


def in_chunks(segments: Sequence[Path], use: Callable[[memoryview, int], int]) -> None:
    """Call `use` with bytes and their position in the file; it returns the position of the next chunk."""
    buffer = memoryview(bytearray(CHUNK_BYTES))
    for segment in segments:
        size = segment.stat().st_size
        with segment.open("rb", buffering=0) as file:
            position = 0
            while position < size:
                count = os.preadv(file.fileno(), [buffer], position)
                next_position = use(buffer[:count], position)
                if next_position == position:
                    raise AssertionError(f"{segment}: stuck at {position}")
                position = next_position
