"""Print a .log or .checkpoint file: batches, and records on request.

Threads format ranges of whole batches; their texts are written in the order of the file. Nothing here needs
Arrow, which takes longer to import than a segment takes to print. What few files need is imported where it is
needed.
"""

from __future__ import annotations

import re
import sys
import threading
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from native_log.cli.dump_log.file_names import base_offset_of
from native_log.errors import CorruptRecordError
from native_log.prefetch import map_ahead
from native_log.records import MAX_BATCH_BYTES, Formatted, TextOptions, divide_file, format_batches
from native_log.storage import DataFile, Window
from native_log.system import available_cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from native_log.cli.dump_log.dump_options import DumpOptions
    from native_log.records import Damage, Divided

_CHECKPOINT = re.compile(r"([0-9]+)-([0-9]+)")
_RANGE_BYTES = 512 << 10
"""How much of a file a thread formats at a time: a range and its text stay in the CPU cache."""
_MAX_BATCHES = 1 << 12
"""How many headers to read at a time, before threads begin to format these batches."""


def dump_log_file(path: str, options: DumpOptions, gaps: list[tuple[int, int]]) -> None:
    """Print the batches of a .log or .checkpoint file, and their records if the options require them.

    Args:
        gaps: receives pairs of offsets of consecutive records between which there is a gap.

    Raises:
        CorruptRecordError: the file is damaged. What precedes the damage has been printed.
    """
    previous = None
    with DataFile(path) as file:
        click.echo(_title(Path(path)))
        output = sys.stdout.buffer
        end = file.size_bytes if options.max_bytes is None else min(file.size_bytes, options.max_bytes)
        ranges = _WholeBatches(file, end)
        formatted = map_ahead(_Formatter(file, options).format, ranges, available_cores())
        for part in chain.from_iterable(formatted):
            output.write(part.text)
            if part.first_offset is not None:
                if previous is not None and part.first_offset != previous + 1:
                    gaps.append((previous, part.first_offset))
                gaps += part.gaps
                previous = part.last_offset
            if part.damage is not None:
                output.flush()
                raise _corrupt_record_error(path, part.damage)
        output.flush()
        left = ranges.left
        if left.status in ("damaged", "zeros") and not _is_incomplete_batch(file, left.position, end):
            raise _corrupt_record_error(path, _damage(file, left, end))
        if options.max_bytes is None and left.position < end:
            click.echo(f"Found {end - left.position} invalid bytes at the end of {Path(path).name}")


class _WholeBatches:
    """The byte ranges of a file that threads format: start and end (exclusive), with whole batches each.

    Attributes:
        left: after the iteration, where and why the batches end.
    """

    left: Divided

    def __init__(self, file: DataFile, end: int) -> None:
        self._file = file
        self._end = end

    def __iter__(self) -> Iterator[tuple[int, int]]:
        divide = partial(
            divide_file, range_bytes=_RANGE_BYTES, max_rows=_MAX_BATCHES, max_batch_bytes=MAX_BATCH_BYTES
        )
        position = 0
        while True:
            self.left = self._file.read_by(divide, position, self._end)
            yield from self.left.ranges
            position = self.left.position
            if self.left.status != "limit":
                return


class _ThreadWindow(threading.local):
    """A window of each thread."""

    def __init__(self) -> None:
        self.window = Window()


class _Formatter:
    """Formats ranges of a file. Threads may share it."""

    def __init__(self, file: DataFile, options: DumpOptions) -> None:
        self._file = file
        self._of_thread = _ThreadWindow()
        self._options = TextOptions(
            records=options.deep_iteration or options.print_data_log or options.decoder is not None,
            record_metadata=not options.skip_record_metadata,
            contents=options.print_data_log,
            max_batch_bytes=MAX_BATCH_BYTES,
        )
        self._decoder = options.decoder

    def format(self, range_: tuple[int, int]) -> list[Formatted]:
        """Return the texts of a range of whole batches, up to the first damaged batch."""
        start, end = range_
        data = self._of_thread.window.at(self._file, start, end, end - start)
        if self._decoder is not None:
            return self._decode(data, start)
        parts, position = [], start
        while position < end:
            part = format_batches(data[position - start :], self._options, base_position=position)
            if part.status == "limit":
                batch = _first_batch(data[part.position - start :])
                parts += [part, *self._decode(batch, part.position)]
                position = part.position + len(batch)
            else:
                parts.append(part)
                position = end
            if parts[-1].damage is not None:
                break
        return parts

    def _decode(self, data: memoryview, position: int) -> list[Formatted]:
        """Return the texts of batches that `format_batches` does not format."""
        from native_log.cli.dump_log.decoded_batches import BatchFormatter

        return list(BatchFormatter(self._options, self._decoder).format(data, position))


def _first_batch(data: memoryview) -> memoryview:
    """Return the batch with which `data` begins."""
    return data[: 12 + int.from_bytes(data[8:12], "big")]


def _is_incomplete_batch(file: DataFile, position: int, end: int) -> bool:
    """Return whether kafka-dump-log treats what begins at `position` as a batch that continues after `end`.

    The tool decides this by the size field alone (Kafka: FileLogInputStream).
    """
    from native_log.records.reference.entry import MIN_ENTRY_BYTES, MIN_SIZE, PREFIX_BYTES

    left = end - position
    if left <= MIN_ENTRY_BYTES:
        return True
    size = int.from_bytes(file.read(position + 8, 4), "big", signed=True)
    return size >= MIN_SIZE and PREFIX_BYTES + size > left


def _title(path: Path) -> str:
    if path.suffix == ".log":
        return f"Log starting offset: {base_offset_of(path)}"
    match = _CHECKPOINT.match(path.name)
    return (
        f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}"
        if match
        else "KRaft bootstrap snapshot"
    )


def _damage(file: DataFile, left: Divided, end: int) -> Damage:
    """Return the damage at which the batches end."""
    from native_log.segment.chunks import BatchCursor
    from native_log.segment.damage import damage_of

    cursor = BatchCursor(file, left.position, end)
    return damage_of(cursor.advance(left, end - left.position), end)


def _corrupt_record_error(path: str, damage: Damage) -> CorruptRecordError:
    return CorruptRecordError(damage.message, path=path, position=damage.position, offset=damage.offset)
