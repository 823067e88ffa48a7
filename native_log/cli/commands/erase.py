"""`kafkalog erase`."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from native_log.cli import changes
from native_log.cli.options import (
    header_conditions,
    key_bytes,
    key_encoding_option,
    paths_argument,
    storage_option,
    topics_options,
)
from native_log.sizes import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa


@click.command(short_help="Rewrite logs without the records of given keys.")
@paths_argument
@storage_option
@topics_options("all topics except internal ones")
@click.option("--key", "-k", "keys", multiple=True, help="Erase records with this key (may be repeated).")
@click.option(
    "--keys-file",
    type=click.File("rb"),
    help="Erase records with one of these keys, one on each line. Empty lines are skipped. - is stdin.",
)
@click.option(
    "--key-prefix",
    "prefixes",
    multiple=True,
    help="Erase records with this prefix of the key (may be repeated).",
)
@key_encoding_option
@click.option(
    "--header",
    "headers",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Erase records with this header, with this or any value (may be repeated).",
)
@click.option("--tombstone", is_flag=True, help="Keep key and offset, and erase value and headers.")
@changes.confirmation_options
def erase(
    paths: tuple[str, ...],
    storage_options: dict[str, str],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    keys: tuple[str, ...],
    keys_file: BinaryIO | None,
    prefixes: tuple[str, ...],
    key_encoding: str,
    headers: tuple[str, ...],
    tombstone: bool,
    **confirmation: bool,
) -> None:
    """Rewrite logs without the records that meet one of the conditions.

    All other records keep their offsets. The command first shows which records it would erase and asks for
    confirmation. The report identifies each record by the SHA-256 of its key. Keys that can be guessed
    can be found by it: treat the report as personal data.

    After the rewrite the logs are searched again. To prove the erasure later, run the same command with
    --dry-run: it reports no record.

    Other replicas, tiered storage, backups and copies of the volume are not changed. Places in the log
    directories that may hold copies are listed at the end.
    """
    from native_log.erasure import erase as run
    from native_log.outcomes import is_outcome

    lines = keys_file.read().splitlines() if keys_file else []
    texts: list[str | bytes] = [*keys, *filter(None, lines)]
    whole_keys = [key_bytes(key, key_encoding) for key in texts]
    key_prefixes = [key_bytes(prefix, key_encoding) for prefix in prefixes]

    def job(dry_run: bool, report: Callable[[int, int], None]) -> pa.Table:
        return run(
            paths,
            topics or None,
            exclude_topics=exclude_topics,
            keys=whole_keys,
            key_prefix=key_prefixes,
            header=header_conditions(headers),
            how="tombstone" if tombstone else "drop",
            dry_run=dry_run,
            on_progress=report,
            storage_options=storage_options,
        )

    changes.carry_out(
        job,
        "erasing",
        partial(_show, whole_keys),
        lambda row: any(is_outcome(row["status"], outcome) for outcome in ("erased", "removed")),
        **confirmation,
    )


def _show(keys: Sequence[bytes], table: pa.Table, dry_run: bool) -> None:
    from native_log.outcomes import planned

    rows = changes.rows_of(table)
    listed = [row for row in rows if row["status"] != "copy"]
    changes.print_table(
        ("PARTITION", "", "OFFSET", "TIME", "KEY BYTES"),
        [
            (
                changes.partition_name(row),
                row["status"],
                row["offset"],
                changes.time_cell(row["timestamp"]),
                row["keyBytes"],
            )
            for row in listed
        ],
        [_details(row) for row in listed],
    )
    by_status = Counter(row["status"] for row in rows)
    outcome = planned("erased") if dry_run else "erased"
    click.echo(f"{format_count(by_status[outcome], 'record')} {outcome}")
    import hashlib  # not needed to start other commands

    digests = {hashlib.sha256(key).hexdigest() for key in keys}
    missing = len(digests.difference(row["keySha256"] for row in rows))
    if missing and not by_status["failed"]:
        click.echo(f"{format_count(missing, 'key')} of {len(digests)} not found in the partitions searched")
    if by_status["failed"]:
        click.echo(f"{format_count(by_status['failed'], 'partition')} failed and may still have such records")
    elif not dry_run:
        click.echo("0 such records are left in the partitions searched")
    if by_status["copy"]:
        click.echo(f"{format_count(by_status['copy'], 'place')} not searched, which may hold copies")
        for row in rows:
            if row["status"] == "copy":
                click.echo(f"  {row['segment']}: {row['reason']}")


def _details(row: dict[str, Any]) -> str:
    digest = row["keySha256"] and f"key SHA-256 {row['keySha256']}"
    return " ".join(filter(None, (digest, row["segment"] and f"in {row['segment']}", row["reason"])))
