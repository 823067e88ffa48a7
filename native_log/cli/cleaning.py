"""`kafkalog retain`, `compact`, `delete-records` and `erase`."""

from __future__ import annotations

import hashlib
import time
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
    topics_options,
)
from native_log.cli.times import format_time_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa


@click.command(short_help="Delete old segments.")
@paths_argument
@topics_options("all but Kafka's internal ones")
@changes.settings_options
@changes.consent_options
def retain(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    conf: Any,
    conf_file: Any,
    now_ms: int | None,
    **consent: bool,
) -> None:
    """Delete old segments, by log start offset, size and time, as a broker does.

    What would go is shown first, segment by segment, and asked about. Settings: retention.ms,
    retention.bytes, cleanup.policy, file.delete.delay.ms. Files are renamed to .deleted, and removed by a run
    file.delete.delay.ms later.
    """
    from native_log.retention import retain as run

    config = changes.settings(conf, conf_file)
    now = _now_ms() if now_ms is None else now_ms

    def job(dry_run: bool, report: Callable[[int, int], None]) -> pa.Table:
        return run(
            paths,
            topics or None,
            config,
            now,
            dry_run,
            exclude_topics=exclude_topics,
            on_progress=report,
        )

    changes.carry_out(
        job, "looking at partitions", _show_retained, lambda row: row["decision"] == "deleted", **consent
    )


def _show_retained(table: pa.Table, dry_run: bool) -> None:
    rows = table.to_pylist()
    changes.print_table(
        ("PARTITION", "FROM", "TO", "SIZE", "LAST TIME", ""),
        [
            (
                _partition(row),
                row["baseOffset"],
                row["endOffset"],
                changes.size(row["sizeInBytes"]),
                _time(row["largestTimestampMs"]),
                row["decision"],
            )
            for row in rows
        ],
        [": ".join(filter(None, (row["rule"], row["reason"]))) for row in rows],
    )
    gone = [row for row in rows if row["decision"] == "deleted"]
    partitions = len({(row["topic"], row["partition"]) for row in gone})
    click.echo(
        f"{changes.count(len(gone), 'segment')} of {changes.count(partitions, 'partition')} "
        f"{'would be deleted' if dry_run else 'deleted'}, "
        f"{changes.size(sum(row['sizeInBytes'] for row in gone))}"
    )


@click.command(short_help="Leave the newest record of each key.")
@paths_argument
@topics_options("all but Kafka's internal ones")
@changes.settings_options
@changes.consent_options
def compact(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    conf: Any,
    conf_file: Any,
    now_ms: int | None,
    **consent: bool,
) -> None:
    """Leave the newest record of each key, as a broker's cleaner does.

    What would go is counted first, and asked about: records and bytes, keys that live and keys that are
    deleted, when the next tombstones expire. Settings: min.cleanable.dirty.ratio,
    min.compaction.lag.ms, max.compaction.lag.ms, delete.retention.ms, segment.bytes, log.cleaner.threads,
    log.cleaner.dedupe.buffer.size.

    Segments below the log start offset go, too; with cleanup.policy=compact,delete also those that
    retention.ms and retention.bytes ask for, as by `kafkalog retain`.
    """
    from native_log.cleaner import compact as run

    config = changes.settings(conf, conf_file)
    now = _now_ms() if now_ms is None else now_ms

    def job(dry_run: bool, report: Callable[[int, int], None]) -> pa.Table:
        return run(
            paths,
            topics or None,
            config,
            now,
            dry_run,
            exclude_topics=exclude_topics,
            on_progress=report,
        )

    changes.carry_out(
        job,
        "compacting",
        _show_compacted,
        lambda row: row["status"] == "cleaned" or row["segmentsDeleted"] > 0,
        **consent,
    )


def _show_compacted(table: pa.Table, dry_run: bool) -> None:
    rows = table.to_pylist()
    changes.print_table(
        ("PARTITION", "", "DIRTY", "RECORDS", "KEPT", "SIZE", "KEPT"),
        [
            (
                _partition(row),
                row["status"],
                row["dirtyRatio"],
                row["recordsBefore"],
                row["recordsAfter"],
                changes.size(row["bytesBefore"]),
                changes.size(row["bytesAfter"]),
            )
            for row in rows
        ],
        [_compaction_details(row) for row in rows],
    )
    done = [row for row in rows if row["status"] == "cleaned"]
    won = sum(row["bytesBefore"] - row["bytesAfter"] for row in done)
    records = sum(row["recordsBefore"] - row["recordsAfter"] for row in done)
    click.echo(
        f"{changes.count(len(done), 'partition')} {'would be cleaned' if dry_run else 'cleaned'}: "
        f"{changes.count(records, 'record')} less, {changes.size(won)} won"
    )
    without_key = sum(row["nullKeys"] for row in rows)
    if without_key:
        click.echo(
            f"{changes.count(without_key, 'record')} without a key: compaction drops them, and brokers take "
            "none in topics that are compacted"
        )
    deleted = sum(row["segmentsDeleted"] for row in rows)
    if deleted:
        click.echo(
            f"{changes.count(deleted, 'old segment')} {'would be deleted' if dry_run else 'deleted'}, "
            f"{changes.size(sum(row['bytesDeleted'] for row in rows))}"
        )


def _compaction_details(row: dict[str, Any]) -> str:
    parts = [row["reason"]]
    if row["segmentsBefore"]:
        parts.append(changes.count(row["segmentsBefore"], "segment"))
    if row["liveKeys"] is not None:
        parts.append(f"{row['liveKeys']:,} live and {row['deadKeys']:,} dead keys")
    if row["firstExpiryMs"] is not None:
        parts.append(f"the next tombstones expire {_time(row['firstExpiryMs'])}")
    if row["wasCleaned"]:
        parts.append(f"last cleaned {_time(row['lastCleanedMs']) or 'before'}")
    if row["segmentsDeleted"]:
        parts.append(f"{changes.count(row['segmentsDeleted'], 'segment')} past retention")
    return "; ".join(filter(None, parts))


class PartitionOffset(click.ParamType[tuple[str, int, int]]):
    name = "TOPIC:PARTITION:OFFSET"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        try:
            topic, partition, offset = str(value).rsplit(":", 2)
            found = topic, int(partition), int(offset)
        except ValueError:
            found = "", 0, -2
        if not -1 <= found[2] < 2**63:
            self.fail(f"expected TOPIC:PARTITION:OFFSET, found {value!r}", param, ctx)
        return found


@click.command("delete-records", short_help="Delete what lies below an offset.")
@paths_argument
@click.option(
    "--offset",
    "offsets",
    type=PartitionOffset(),
    multiple=True,
    required=True,
    help="The first offset that stays; -1: the high watermark (may be repeated).",
)
@changes.consent_options
def delete_records(paths: tuple[str, ...], offsets: Any, **consent: bool) -> None:
    """Delete the records below an offset: the log start moves there.

    Segments that lie wholly below go with the next `kafkalog retain`.
    """
    from native_log.retention import delete_records as run

    wanted = {(topic, partition): offset for topic, partition, offset in offsets}
    if len(wanted) < len(offsets):
        raise click.UsageError("one --offset a partition was expected, found several")

    def job(dry_run: bool, _: Callable[[int, int], None]) -> pa.Table:
        return run(paths, wanted, dry_run)

    changes.carry_out(
        job,
        "looking at partitions",
        _show_deleted,
        lambda row: row["logStartOffset"] > row["logStartOffsetBefore"],
        **consent,
    )


def _show_deleted(table: pa.Table, dry_run: bool) -> None:
    changes.print_table(
        ("PARTITION", "START", "NEW START" if dry_run else "STARTS NOW", "HW"),
        [
            (_partition(row), row["logStartOffsetBefore"], row["logStartOffset"], row["highWatermark"])
            for row in table.to_pylist()
        ],
    )


@click.command(short_help="Rewrite logs without given keys.")
@paths_argument
@topics_options("all but Kafka's internal ones")
@click.option("--key", "-k", "keys", multiple=True, help="Records with this key (may be repeated).")
@click.option(
    "--keys-file",
    type=click.File("rb"),
    help="Records with one of these keys, a line each; empty lines are skipped (- is stdin).",
)
@click.option(
    "--key-prefix", "prefixes", multiple=True, help="Records whose key begins so (may be repeated)."
)
@key_encoding_option
@click.option(
    "--header",
    "headers",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Records with this header, of this value or of any (may be repeated).",
)
@click.option(
    "--tombstone", is_flag=True, help="Leave key and offset, as if deleted, instead of dropping the record."
)
@changes.consent_options
def erase(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    exclude_topics: tuple[str, ...],
    keys: tuple[str, ...],
    keys_file: BinaryIO | None,
    prefixes: tuple[str, ...],
    key_encoding: str,
    headers: tuple[str, ...],
    tombstone: bool,
    **consent: bool,
) -> None:
    """Rewrite logs without the records that meet one of the conditions.

    For requests to be forgotten: all other offsets stay, and a report tells each record that went, by the
    SHA-256 of its key. It is shown first, and asked about.

    What lies elsewhere is not touched: other replicas, tiered storage, backups, copies of the volume. Places
    in the log directories that may hold copies are listed at the end.
    """
    from native_log.erasure import erase as run

    lines = keys_file.read().splitlines() if keys_file else []
    given: list[str | bytes] = [*keys, *filter(None, lines)]
    wanted = [key_bytes(key, key_encoding) for key in given]
    beginnings = [key_bytes(prefix, key_encoding) for prefix in prefixes]

    def job(dry_run: bool, report: Callable[[int, int], None]) -> pa.Table:
        return run(
            paths,
            topics or None,
            exclude_topics=exclude_topics,
            keys=wanted,
            key_prefix=beginnings,
            header=header_conditions(headers),
            how="tombstone" if tombstone else "drop",
            dry_run=dry_run,
            on_progress=report,
        )

    changes.carry_out(
        job,
        "erasing",
        partial(_show_erased, wanted),
        lambda row: row["status"] in ("erased", "removed"),
        **consent,
    )


def _show_erased(keys: Sequence[bytes], table: pa.Table, dry_run: bool) -> None:
    rows = changes.rows_of(table)
    listed = [row for row in rows if row["status"] != "copy"]
    changes.print_table(
        ("PARTITION", "", "OFFSET", "TIME", "KEY BYTES"),
        [
            (_partition(row), row["status"], row["offset"], _time(row["timestamp"]), row["keyBytes"])
            for row in listed
        ],
        [_erasure_details(row) for row in listed],
    )
    by_status = Counter(row["status"] for row in rows)
    click.echo(f"{changes.count(by_status['erased'], 'record')} {'would be erased' if dry_run else 'erased'}")
    digests = {hashlib.sha256(key).hexdigest() for key in keys}
    missing = len(digests.difference(row["keySha256"] for row in rows))
    if missing and not by_status["failed"]:
        click.echo(f"{changes.count(missing, 'key')} of {len(digests)} not found in the partitions searched")
    if by_status["failed"]:
        click.echo(f"{changes.count(by_status['failed'], 'partition')} failed: records may be left there")
    if by_status["copy"]:
        click.echo(f"{changes.count(by_status['copy'], 'place')} not searched: copies may be left there")
        for row in rows:
            if row["status"] == "copy":
                click.echo(f"  {row['segment']}: {row['reason']}")


def _erasure_details(row: dict[str, Any]) -> str:
    digest = row["keySha256"] and f"key SHA-256 {row['keySha256']}"
    return " ".join(filter(None, (digest, row["segment"] and f"in {row['segment']}", row["reason"])))


def _partition(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_time_ms(time_ms)


def _now_ms() -> int:
    return int(time.time() * 1000)


COMMANDS = (retain, compact, delete_records, erase)
