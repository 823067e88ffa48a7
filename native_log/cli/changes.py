"""What the commands that change logs have in common: settings, a look before anything is done, tables."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.options import EPOCH_MS, together
from native_log.cli.progress import reporting
from native_log.cli.runner import DATA_ERROR, DECLINED
from native_log.cli.sizes import human_size
from native_log.cli.tables import lines, terminal_width
from native_log.cli.times import format_time_ms
from native_log.config import InvalidConfigError, unknown_settings
from native_log.settings_file import merge_settings, parse_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    Job = Callable[[bool, Callable[[int, int], None]], pa.Table]


logger = logging.getLogger(__name__)


class Setting(click.ParamType[tuple[str, str]]):
    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        try:
            return parse_setting(str(value))
        except InvalidConfigError as error:
            self.fail(str(error), param, ctx)


consent_options = together(
    (
        click.option(
            "--dry-run", "-n", is_flag=True, help="Change nothing, only show what would be done and why."
        ),
        click.option("--yes", "-y", is_flag=True, help="Do it without showing first and asking."),
        click.option("--json", "as_json", is_flag=True, help="JSON Lines: sizes in bytes, times in ms."),
    )
)
settings_options = together(
    (
        click.option(
            "--conf",
            "-c",
            type=Setting(),
            multiple=True,
            help="A setting by its topic's or broker's name (may be repeated); overrules --conf-file.",
        ),
        click.option(
            "--conf-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Settings, a NAME=VALUE a line.",
        ),
        click.option(
            "--now-ms",
            type=EPOCH_MS,
            metavar="MS",
            help="The time to measure ages from, epoch ms; else now.",
        ),
    )
)


def settings(conf: Sequence[tuple[str, str]], conf_file: Path | None) -> dict[str, str]:
    """Those of the file, overruled by those of the command line. What has no effect there is told of: it is
    given on purpose, unlike in a file, which may be a broker's."""
    for name in unknown_settings(name for name, _ in conf):
        logger.warning("%s is no setting of these commands: it has no effect", name)
    try:
        return merge_settings(conf_file, dict(conf))
    except InvalidConfigError as error:
        raise click.UsageError(str(error)) from None


def carry_out(
    job: Job,
    what: str,
    show: Callable[[pa.Table, bool], None],
    changes: Callable[[dict[str, Any]], bool],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Does a job once it was looked at and said yes to. Ends with exit code 1 if a row says "failed".

    Args:
        job: given whether it is only to be told, and a function to tell its progress to.
        what: the work, for the progress bar.
        show: the table, and whether it is only told, to text.
        changes: whether a row of the table stands for a change.
    """
    if not (dry_run or yes):
        check_is_asked(not as_json)
    show_rows = _as_json if as_json else show
    if dry_run or not yes:
        plan = _run(job, what, True)
        show_rows(plan, True)
        if dry_run or not any(changes(row) for row in plan.to_pylist()):
            _exit(plan)
            return
        confirm()
    done = _run(job, what, False)
    show_rows(done, False)
    _exit(done)


def _run(job: Job, what: str, dry_run: bool) -> pa.Table:
    try:
        with reporting(what) as report:
            return job(dry_run, report)
    except ValueError as error:  # a setting that cannot be meant
        raise click.UsageError(str(error)) from None


def _is_asked() -> bool:
    """Whether there is someone to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def check_is_asked(can_ask: bool = True) -> None:
    """Raises UsageError where there is no one to ask before logs are changed."""
    if not (can_ask and _is_asked()):
        raise click.UsageError(
            "this changes logs: look first with --dry-run, and then do it with --yes (in a terminal it is "
            "shown, and asked for)"
        )


def confirm() -> None:
    """Ask whether to go on. Ends with exit code 3 if the answer is no, or an interrupt."""
    try:
        answer = click.confirm("Do it?", err=True)
    except click.Abort:
        click.echo(err=True)
        answer = False
    if not answer:
        click.echo("Nothing changed.", err=True)
        raise SystemExit(DECLINED)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as dictionaries, timestamps as epoch ms: Python's datetime does not reach all of Kafka's."""
    import pyarrow as pa

    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = table.column(index).cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
            table = table.set_column(index, field.name, times)
    return table.to_pylist()  # type: ignore[no-any-return]


def _as_json(table: pa.Table, _: bool) -> None:
    for row in rows_of(table):
        click.echo(json.dumps(row, ensure_ascii=False))


def _exit(table: pa.Table) -> None:
    outcome = "status" if "status" in table.column_names else "decision"
    if outcome in table.column_names and "failed" in table.column(outcome).unique().to_pylist():
        raise SystemExit(DATA_ERROR)


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[object]], details: Sequence[str | None] = ()
) -> None:
    """Print a table that fits the terminal, if stdout is one; see `tables.lines`."""
    click.echo("\n".join(lines(head, rows, details, terminal_width())))


def size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else human_size(size_bytes)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def partition_name(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def time_text(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_time_ms(time_ms)
