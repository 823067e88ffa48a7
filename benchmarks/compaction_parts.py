"""Measure the steps of a compaction on one thread, and a copy and a decode of the same bytes to compare."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.corpus import COMPACT, Corpus, warm
from benchmarks.readers import fail_if, in_chunks, kernel_decode
from benchmarks.timing import Measurement, Pass, measure_in_turn
from native_log.records import InputOptions, OffsetMap, RewriteOptions, Survivors, rewrite_file

PARTS = "parts of a compaction"
MAP_BYTES = 1 << 30
OUTPUT_BYTES = 4 << 20


def measure(corpus: Corpus, runs: int) -> Iterator[Measurement]:
    for topic in (topic for topic in COMPACT if topic.partitions == 1):
        segments = corpus.segments(topic.name)
        warm(segments)
        rows = corpus.records[topic.name]
        every, half = Survivors(), Survivors(range(0, rows, 2))
        every.add_range(0, rows)
        yield from measure_in_turn(
            PARTS,
            topic.name,
            {
                "copy of the bytes": _copy(segments, rows),
                "decode seven columns": kernel_decode(segments),
                "build the offset map": _build_map(segments),
                "rewrite, all kept": _rewrite(segments, every, rows),
                "rewrite, every other record dropped": _rewrite(segments, half, rows),
            },
            size_bytes=corpus.size_bytes(topic.name),
            rows=rows,
            runs=runs,
        )


def _copy(segments: Sequence[Path], rows: int) -> Callable[[], Pass]:
    """Read the bytes and copy them once in memory."""

    def run() -> Pass:
        target = memoryview(bytearray(4 << 20))

        def use(chunk: memoryview, position: int) -> int:
            target[: len(chunk)] = chunk
            return position + len(chunk)

        in_chunks(segments, use)
        return Pass(rows)

    return run


def _build_map(segments: Sequence[Path]) -> Callable[[], Pass]:
    def run() -> Pass:
        offsets, options, rows = OffsetMap(MAP_BYTES), InputOptions(), 0

        def use(chunk: memoryview, position: int) -> int:
            nonlocal rows
            result = offsets.put_batches(chunk, options, base_position=position)
            fail_if(result.damage)
            rows += result.records
            return result.position

        in_chunks(segments, use)
        offsets.survivors()
        return Pass(rows)

    return run


def _rewrite(segments: Sequence[Path], survivors: Survivors, end: int) -> Callable[[], Pass]:
    def run() -> Pass:
        rows = written = 0
        options = RewriteOptions(survivors, end, now_ms=0, delete_horizon_ms=None)
        for segment in segments:
            with segment.open("rb", buffering=0) as file:
                position, size = 0, os.fstat(file.fileno()).st_size
                while position < size:
                    result = rewrite_file(file.fileno(), position, size, options, max_bytes=OUTPUT_BYTES)
                    fail_if(result.damage)
                    rows += result.stats.records_read
                    written += len(result.data)
                    position = result.position
        return Pass(rows, written_bytes=written)

    return run
