"""Print files of a partition directory, by their names' suffixes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from native_log.cli.dump_log.index_files import (
    IndexMismatches,
    dump_index,
    dump_snapshot,
    dump_time_index,
    dump_transaction_index,
)
from native_log.cli.dump_log.log_file import dump_log_file
from native_log.errors import NotALogDirError
from native_log.messages.cluster_metadata import decode_metadata_record
from native_log.messages.groups import decode_group_record
from native_log.messages.remote_log import decode_remote_log_record
from native_log.messages.share_groups import decode_share_record
from native_log.messages.transaction_log import decode_transaction_record
from native_log.segment.files import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from native_log.cli.dump_log.log_file import Decoder

DECODERS: dict[str, Decoder] = {
    "offsets": decode_group_record,
    "transactions": decode_transaction_record,
    "cluster": decode_metadata_record,
    "shares": decode_share_record,
    "remote": decode_remote_log_record,
}


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of kafka-dump-log, by its names.

    Attributes:
        decoder: decodes keys and values. If there is one, records are printed.
    """

    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_bytes: int | None = None
    decoder: Decoder | None = None


@dataclass(slots=True)
class Mismatches:
    """What is printed to stderr after all files.

    Attributes:
        non_consecutive: for each path, pairs of offsets of which the second follows the first with a gap.
    """

    indexes: IndexMismatches = field(default_factory=IndexMismatches)
    non_consecutive: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        yield from self.indexes.lines()
        for path, pairs in self.non_consecutive.items():
            yield f"Non-consecutive offsets in {path}"
            for previous, offset in reversed(pairs):
                yield f"  {previous} is followed by {offset}"


def dump(paths: Sequence[str], options: DumpOptions) -> Mismatches:
    """Print the files in order; for a partition directory, its .log files.

    Raises:
        CorruptRecordError: a .log is damaged. What precedes the damage has been printed.
        CorruptIndexError: an index fails the sanity check, or a snapshot is damaged.
        NotALogDirError: a directory contains no .log.
        click.UsageError: the name of a file contains no offset.
        OSError: a file cannot be read.
    """
    mismatches = Mismatches()
    for file in (file for path in paths for file in _list_files(path)):
        click.echo(f"Dumping {file}")
        suffix = Path(file).suffix
        if suffix in (".log", ".checkpoint"):
            gaps = dump_log_file(file, options)
            if gaps:
                mismatches.non_consecutive.setdefault(str(Path(file).absolute()), []).extend(gaps)
        elif suffix == ".index":
            dump_index(file, options.verify_index_only, options.index_sanity_check, mismatches.indexes)
        elif suffix == ".timeindex":
            dump_time_index(file, options.verify_index_only, options.index_sanity_check, mismatches.indexes)
        elif suffix == ".txnindex":
            dump_transaction_index(file)
        elif suffix == ".snapshot":
            dump_snapshot(file)
        else:
            click.echo(f"Ignoring unknown file {file}", err=True)
    return mismatches


def _list_files(path: str) -> Sequence[str]:
    if not Path(path).is_dir():
        return [path]
    files = sorted(map(str, Path(path).glob(f"*.{LOG}")))
    if not files:
        raise NotALogDirError(
            "expected a partition directory with .log files, or a file of a segment", path=path
        )
    return files
