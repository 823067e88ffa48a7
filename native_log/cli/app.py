"""The command `kafkalog` itself; each of its commands is a module of `commands`."""

from __future__ import annotations

import click

import native_log
from native_log.cli.commands.cat import cat
from native_log.cli.commands.compact import compact
from native_log.cli.commands.delete_records import delete_records
from native_log.cli.commands.dump_log import dump_log
from native_log.cli.commands.erase import erase
from native_log.cli.commands.ls import ls
from native_log.cli.commands.recover import recover
from native_log.cli.commands.reindex import reindex
from native_log.cli.commands.retain import retain
from native_log.cli.commands.verify import verify
from native_log.cli.runner import Commands


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from native_log.records import IMPLEMENTATION

        click.echo(f"kafkalog {native_log.__version__} (records: {IMPLEMENTATION})")
        ctx.exit()


@click.group(
    cls=Commands,
    invoke_without_command=True,
    # color: click would else remove terminal escapes from printed keys and values, as if they were its own.
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version, and whether the compiled kernel or the plain Python reference reads records.",
)
@click.pass_context
def kafkalog(ctx: click.Context) -> None:
    """Look into Kafka log directories, with no broker.

    PATH is a log directory (a broker's log.dirs, a copy or a snapshot), or a single partition directory.
    Only recover, reindex, retain, compact, delete-records and erase change anything.

    \b
    Exit codes:
      0  done, nothing wrong
      1  damage was found, or something would be cut off or could not be done
      2  wrong usage, path or permission; the directory is in use
      3  the question was answered with no: nothing changed
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _command in (
    *(ls, cat, dump_log, verify, recover, reindex),
    *(retain, compact, delete_records, erase),
):
    kafkalog.add_command(_command)
