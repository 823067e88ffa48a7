"""Print files of a partition directory, by their names' suffixes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from native_log.cli.dump_log.log_file import dump_log_file
from native_log.cli.dump_log.mismatches import Mismatches
from native_log.errors import CorruptIndexError, CorruptRecordError, NotALogDirError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from native_log.cli.dump_log.dump_options import DumpOptions


def dump(
    paths: Sequence[str],
    options: DumpOptions,
    on_damage: Callable[[CorruptRecordError | CorruptIndexError], None],
) -> Mismatches:
    """Print the files in order; for a partition directory, its .log files.

    Args:
        on_damage: called with the error of each damaged file, and of each index that fails the sanity check.
            The file has been printed up to the damage, and the next one follows. kafka-dump-log stops at
            damage, except in a snapshot.

    Raises:
        NotALogDirError: a directory contains no .log.
        click.UsageError: the name of a file contains no offset.
        OSError: a file cannot be read.
    """
    mismatches = Mismatches()
    for file in (file for path in paths for file in _list_files(path)):
        click.echo(f"Dumping {file}")
        try:
            _dump_file(file, options, mismatches)
        except (CorruptRecordError, CorruptIndexError) as error:
            on_damage(error)
    return mismatches


def _dump_file(file: str, options: DumpOptions, mismatches: Mismatches) -> None:
    suffix = Path(file).suffix
    if suffix in (".log", ".checkpoint"):
        gaps = mismatches.non_consecutive.setdefault(str(Path(file).absolute()), [])
        dump_log_file(file, options, gaps)
        return
    from native_log.cli.dump_log import index_files  # needs Arrow, which a .log does not

    how = options.verify_index_only, options.index_sanity_check, mismatches.indexes
    if suffix == ".index":
        index_files.dump_index(file, *how)
    elif suffix == ".timeindex":
        index_files.dump_time_index(file, *how)
    elif suffix == ".txnindex":
        index_files.dump_transaction_index(file)
    elif suffix == ".snapshot":
        index_files.dump_snapshot(file)
    else:
        click.echo(f"Ignoring unknown file {file}", err=True)


def _list_files(path: str) -> Sequence[str]:
    if not Path(path).is_dir():
        return [path]
    files = sorted(map(str, Path(path).glob("*.log")))
    if not files:
        raise NotALogDirError(
            "expected a partition directory with .log files, or a file of a segment", path=path
        )
    return files
