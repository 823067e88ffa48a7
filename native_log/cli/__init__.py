"""The command `kafkalog`: each command parses its options, calls the package and prints the result."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from native_log.cli.standard_streams import open_closed_streams
from native_log.cli.termination import terminable


def main() -> None:
    """Run `kafkalog`. This is the entry point of the console script."""
    open_closed_streams()
    try:
        from native_log.cli.app import kafkalog
        from native_log.cli.runner import INTERRUPTED
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(  # noqa: T201
            "kafkalog: the command line needs click and rich: pip install 'click>=8.1' 'rich>=13'",
            file=sys.stderr,
        )
        sys.exit(2)  # a usage error: 1 would say that data is damaged
    try:
        with terminable():
            kafkalog.main(prog_name="kafkalog")
    except SystemExit as exit:
        if exit.code == INTERRUPTED:
            _end_at_once(INTERRUPTED)
        raise
    finally:
        # The work is done, or was interrupted already. Ctrl-C during the exit of the interpreter would print
        # a KeyboardInterrupt of Python's own code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_at_once(code: int) -> NoReturn:
    """End the process. Otherwise Python waits for all threads, and so for the answers of a slow store."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # a closed pipe
            stream.flush()
    os._exit(code)
