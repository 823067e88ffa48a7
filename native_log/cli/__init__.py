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
        print(  # noqa: T201
            "kafkalog: the command line needs click and rich: pip install 'click>=8.1' 'rich>=13'",
            file=sys.stderr,
        )
        sys.exit(2)  # a usage error: 1 would say that data is damaged
    kafkalog.main(prog_name="kafkalog")
