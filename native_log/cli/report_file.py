"""Write a report to a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from native_log.reporting import MARK
from native_log.storage import DataFile
from native_log.storage.writing import replace_file

_STDOUT = "-"
_HEAD_BYTES = 1024


def check_report_path(output: str) -> None:
    """Raise click.UsageError if the path is neither new nor an earlier report.

    A mistyped command line must not replace a file of a log.
    """
    if output == _STDOUT:
        return
    path = Path(output)
    if not path.parent.is_dir():
        raise click.UsageError(f"{path.parent}: expected a directory for the report, found none")
    if not path.exists():
        return
    is_report = path.is_file() and MARK.encode() in _head(path)
    if not is_report:
        raise click.UsageError(
            f"{path}: expected a new file or an earlier report, found something else; choose another name, "
            "or remove it first"
        )


def write_report(output: str, page: str) -> None:
    """Write a page to a file, or to stdout. A file is replaced as a whole or not at all."""
    data = page.encode(errors="backslashreplace")
    if output == _STDOUT:
        sys.stdout.buffer.write(data)
    else:
        replace_file(os.path.realpath(output), data)


def _head(path: Path) -> bytes:
    with DataFile(str(path)) as file:
        return file.read(0, _HEAD_BYTES)
