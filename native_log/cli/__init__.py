"""The command `kafkalog`: each command parses its options, calls the package and prints the result."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `kafkalog`. This is the entry point of the console script."""
    try:
        from native_log.cli.app import kafkalog
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("kafkalog: the command line needs click and rich: pip install 'click>=8.1' 'rich>=13'")
    kafkalog.main(prog_name="kafkalog")
