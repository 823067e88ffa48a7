"""A progress bar on stderr, where somebody looks at it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(what: str, total: int, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Gives a function to tell how much more is done. Shown only if stderr is a terminal, gone at the end."""
    if not (shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    # What is printed meanwhile goes above the bar, but only where both are on the screen.
    console, above = Console(stderr=True), sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=above) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)


@contextmanager
def reporting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to tell (how much is done, of how much), in whatever unit. Shown as by `progress`."""
    steps, shown = 1000, 0
    with progress(what, steps) as advance:

        def report(done: int, total: int) -> None:
            nonlocal shown
            reached = done * steps // max(1, total)
            if reached > shown:
                advance(reached - shown)
                shown = reached

        yield report
