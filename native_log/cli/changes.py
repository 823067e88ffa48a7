"""What the commands that change logs share: settings, the preview before a change, tables."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from native_log.cli.options import EPOCH_MS, combine
from native_log.cli.progress import report_progress
from native_log.cli.runner import DATA_ERROR, DECLINED
from native_log.cli.tables import format_table, terminal_width, wrap
from native_log.sizes import format_size
from native_log.times import format_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    Job = Callable[[bool, Callable[[int, int], None]], pa.Table]

# The modules of settings are imported where they are used: each command of kafkalog imports this module.
logger = logging.getLogger(__name__)


class Setting(click.ParamType):
    name = "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        from native_log.config import InvalidConfigError
        from native_log.settings_file import parse_setting

        try:
            return parse_setting(str(value))
        except InvalidConfigError as error:
            self.fail(str(error), param, ctx)


confirmation_options = combine(
    (
        click.option("--dry-run", "-n", is_flag=True, help="Only show what would be done, and why."),
        click.option("--yes", "-y", is_flag=True, help="Do not show and confirm the changes first."),
        click.option(
            "--json", "as_json", is_flag=True, help="Print JSON Lines, with sizes in bytes and times in ms."
        ),
    )
)
config_options = combine(
    (
        click.option(
            "--conf",
            "-c",
            type=Setting(),
            multiple=True,
            help="A setting, by its topic's or broker's name (may be repeated). Overrides --conf-file.",
        ),
        click.option(
            "--conf-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A file with one NAME=VALUE on each line.",
        ),
    )
)
settings_options = combine(
    (
        config_options,
        click.option(
            "--now-ms",
            type=EPOCH_MS,
            metavar="MS",
            help="Compute ages as of this time, in epoch ms. Default: now.",
        ),
    )
)


def load_settings(conf: Sequence[tuple[str, str]], conf_file: Path | None) -> dict[str, str]:
    """Return the settings in the file, overridden by the ones on the command line.

    Raise UsageError for an invalid value. Warn about unknown settings on the command line, but not in the
    file, which may be a broker's.
    """
    from native_log.config import InvalidConfigError, LogConfig, unknown_settings
    from native_log.settings_file import merge_settings

    for name in unknown_settings(name for name, _ in conf):
        logger.warning("expected a setting of a log, found %s, which has no effect", name)
    try:
        settings = merge_settings(conf_file, dict(conf))
        LogConfig.parse(settings)
    except InvalidConfigError as error:
        raise click.UsageError(str(error)) from None
    return settings


def carry_out(
    job: Job,
    description: str,
    show: Callable[[pa.Table, bool], None],
    changes: Callable[[dict[str, Any]], bool],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what a job would do, ask for confirmation, and run the job.

    The question names the stored settings that given ones override. Exit with code 1 if a row of the report
    has the status or decision "failed".

    Args:
        job: takes whether to make a dry run, and a function to report progress; returns a report.
        description: the description of the progress bar.
        show: prints a report; also takes whether it is that of a dry run.
        changes: returns whether a row of a report is a change.
    """
    if not (dry_run or yes):
        require_terminal(can_ask=not as_json)
    from native_log.cli.setting_lines import describe_overrides

    show_rows = print_json if as_json else show
    if dry_run or not yes:
        plan = _run(job, description, True)
        show_rows(plan, True)
        changed = [row for row in rows_of(plan) if changes(row)]
        if dry_run or not changed:
            _exit_if_failed(plan)
            return
        confirm(describe_overrides(changed))
    done = _run(job, description, False)
    show_rows(done, False)
    _exit_if_failed(done)


def _run(job: Job, description: str, dry_run: bool) -> pa.Table:
    try:
        with report_progress(description) as report:
            return job(dry_run, report)
    except ValueError as error:  # an invalid setting
        raise click.UsageError(str(error)) from None


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_terminal(*, can_ask: bool = True) -> None:
    """Raise UsageError if nobody can confirm a change of logs."""
    if not (can_ask and _is_terminal()):
        raise click.UsageError(
            "expected --dry-run, --yes or a terminal that can confirm the changes, found none; look at the "
            "changes with --dry-run first, then make them with --yes"
        )


def confirm(remark: str | None = None) -> None:
    """Ask for confirmation. Exit with code 3 if it is declined or interrupted.

    Args:
        remark: what to say before the question.
    """
    try:
        answer = click.confirm(" ".join(filter(None, (remark, "Proceed?"))), err=True)
    except click.Abort:
        click.echo(err=True)
        answer = False
    if not answer:
        click.echo("Nothing changed.", err=True)
        raise SystemExit(DECLINED)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as dictionaries, with timestamps as epoch ms: datetime does not cover all of them."""
    import pyarrow as pa

    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = table.column(index).cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
            table = table.set_column(index, field.name, times)
    return table.to_pylist()  # type: ignore[no-any-return]


def print_json(table: pa.Table, _: bool = False) -> None:
    """Print each row of a report as a JSON object."""
    for row in rows_of(table):
        click.echo(json.dumps(row, ensure_ascii=False))


def _exit_if_failed(table: pa.Table) -> None:
    outcome = "status" if "status" in table.column_names else "decision"
    if outcome in table.column_names and "failed" in table.column(outcome).unique().to_pylist():
        raise SystemExit(DATA_ERROR)


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[object]], details: Sequence[str | None] = ()
) -> None:
    """Print a table. If stdout is a terminal, the table fits it; see `tables.format_table`."""
    click.echo("\n".join(format_table(head, rows, details, terminal_width())))


def print_settings(rows: Sequence[dict[str, Any]]) -> None:
    """Print the settings in the rows of a report, with their sources."""
    from native_log.cli.setting_lines import describe_settings

    for line in describe_settings(rows):
        click.echo("\n".join(wrap(line, terminal_width())))


def size_cell(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else format_size(size_bytes)


def partition_name(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def time_cell(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_time_ms(time_ms)
