"""End on SIGTERM as on Ctrl-C. systemd, Kubernetes and `timeout` send this signal."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM raise a KeyboardInterrupt in the block, and end the process by the signal after the block.

    The command can clean up and report what it has done, and the sender sees the usual exit status.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    is_received = False

    def interrupt(*_: object) -> None:
        nonlocal is_received
        is_received = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if is_received:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGTERM)
