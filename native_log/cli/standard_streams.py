"""Standard streams that the caller has closed (`>&-`)."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Connect closed standard streams to /dev/null.

    Otherwise a file that is opened next, such as a log, could take the descriptor of a stream, and output
    would be written into it.
    """
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
