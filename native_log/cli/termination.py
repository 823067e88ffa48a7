"""End at SIGTERM, which systemd, Kubernetes and `timeout` send, as at Ctrl-C."""

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

    So work in progress is undone and reported, and whoever sent the signal sees that it was obeyed.
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
