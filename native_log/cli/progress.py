"""A progress bar on stderr, if stderr is a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def show_progress(description: str, total: int, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Show a progress bar until the end of the block. Yield a function that advances it by some steps."""
    if not (shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    # Output goes above the bar, but only if both are on the screen.
    console, above = Console(stderr=True), sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=above) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


@contextmanager
def report_progress(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar as above. Yield a function that takes (work done, total work), in any unit."""
    steps, shown = 1000, 0
    with show_progress(description, steps) as advance:

        def report(done: int, total: int) -> None:
            nonlocal shown
            reached = done * steps // max(1, total)
            if reached > shown:
                advance(reached - shown)
                shown = reached

        yield report
