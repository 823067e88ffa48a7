"""The command `kafkalog`. Each of its commands is a module in `commands`."""

from __future__ import annotations

import click

import native_log
from native_log.cli.commands.cat import cat
from native_log.cli.commands.compact import compact
from native_log.cli.commands.delete_records import delete_records
from native_log.cli.commands.diff import diff
from native_log.cli.commands.dump_log import dump_log
from native_log.cli.commands.erase import erase
from native_log.cli.commands.groups import groups
from native_log.cli.commands.ls import ls
from native_log.cli.commands.produce import produce
from native_log.cli.commands.recover import recover
from native_log.cli.commands.reindex import reindex
from native_log.cli.commands.report import report
from native_log.cli.commands.retain import retain
from native_log.cli.commands.salvage import salvage
from native_log.cli.commands.verify import verify
from native_log.cli.runner import Commands


def _print_version(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        from native_log.records import IMPLEMENTATION

        click.echo(f"kafkalog {native_log.__version__} (records: {IMPLEMENTATION})")
        ctx.exit()


@click.group(
    cls=Commands,
    invoke_without_command=True,
    # color: otherwise click removes terminal escapes from keys and values, as if they were its own.
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, and whether the compiled kernel or the plain Python reference reads records.",
)
@click.pass_context
def kafkalog(ctx: click.Context) -> None:
    """Inspect and maintain Kafka log directories without a broker.

    PATH is a log directory (one of a broker's log.dirs, a copy or a snapshot), or a single partition
    directory. Only produce, recover, reindex, retain, compact, delete-records and erase change files.
    salvage writes a new directory, report a page.

    \b
    Exit codes:
      0  done, nothing wrong
      1  damage or differences were found, data would be truncated, a partition failed, or a record was not
         written
      2  wrong usage, path or permission; the directory is in use
      3  the confirmation was declined; nothing changed
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _command in (
    *(ls, report, cat, groups, dump_log, verify, diff, recover, reindex, salvage),
    *(produce, retain, compact, delete_records, erase),
):
    kafkalog.add_command(_command)
