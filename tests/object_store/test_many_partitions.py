"""A request takes tens of milliseconds, so many partitions in a bucket are read at the same time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from native_log import LogDir
from native_log.cli.listing import list_log_dir
from native_log.cli.transaction_listing import list_transactions
from native_log.logdir.verification import open_all_copies
from native_log.storage.remote.object_bucket import ObjectBucket
from tests.builders.golden import DATA

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.object_store

FIXTURE = "golden/kafka-4.1/whole-broker/data"
COMPACTED = {"cleanup.policy": "compact"}
RETAINED = {"cleanup.policy": "delete", "retention.ms": 1}


def topics() -> list[str]:
    return [topic for topic in LogDir(DATA / FIXTURE).topics() if not topic.startswith("__")]


WORK: dict[str, Callable[[list[str], Any, Path], object]] = {
    "open_logs": lambda urls, options, _: LogDir(urls[0], storage_options=options).scan(topics()),
    "copies": lambda urls, options, _: LogDir(urls, storage_options=options),
    "list": lambda urls, options, _: list_log_dir(open_all_copies(urls[0], storage_options=options)),
    "count": lambda urls, options, _: list_log_dir(
        open_all_copies(urls[0], storage_options=options), topics(), counts=True
    ),
    "transactions": lambda urls, options, _: list_transactions(
        LogDir(urls[0], storage_options=options), (), (), 0
    ),
    "lag": lambda urls, options, _: LogDir(urls[0], storage_options=options).lag(),
    "report": lambda urls, options, _: native_log.report(urls[0], storage_options=options),
    "verify": lambda urls, options, _: native_log.verify(urls[0], topics(), storage_options=options),
    "diff": lambda urls, options, _: native_log.diff(
        urls, topics=topics(), storage_options=options
    ).read_all(),
    "retain": lambda urls, options, _: native_log.retain(
        urls[0], topics(), RETAINED, dry_run=True, storage_options=options
    ),
    "compact": lambda urls, options, _: native_log.compact(
        urls[0], topics(), COMPACTED, dry_run=True, storage_options=options
    ),
    "erase": lambda urls, options, _: native_log.erase(
        urls[0], topics(), keys=b"k", dry_run=True, storage_options=options
    ),
    "restore": lambda urls, options, path: native_log.restore(
        urls[0], path / "restored", topics(), storage_options=options
    ),
}


@pytest.mark.parametrize("work", WORK.values(), ids=list(WORK))
@pytest.mark.usefixtures("partitions_meet")
def test_partitions_are_read_at_the_same_time(
    s3: S3Server, tmp_path: Path, work: Callable[[list[str], Any, Path], object]
) -> None:
    if not (s3.root / "other").exists():
        (s3.root / "other").symlink_to(DATA)
    work([f"s3://{bucket}/{FIXTURE}" for bucket in ("data", "other")], s3.options, tmp_path)


def test_manifests_are_read_at_the_same_time(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(3, timeout=60)
    read = ObjectBucket.read

    def meet(bucket: ObjectBucket, key: str, *arguments: Any) -> Any:
        if key.endswith(".rsm-manifest"):
            barrier.wait()
        return read(bucket, key, *arguments)

    monkeypatch.setattr(ObjectBucket, "read", meet)
    folder = "s3://data/golden-tiered/aiven-plain"
    logs = LogDir(
        f"{folder}/data", remote=f"{folder}/tier", remote_prefix="tiered/", storage_options=s3.options
    )
    assert len(logs.partition("or-ders-0", 0).segments) == 10  # nine of them are in remote storage
