"""Which offsets survive does not depend on how keys are gathered, cut and merged. Without Spark."""

from __future__ import annotations

import pickle
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_spark.compaction import keys
from kafkalog_spark.compaction.planning import jobs, splits
from kafkalog_spark.spreading import row, rows
from native_log import LogDir
from native_log.cleaner.local import compaction_config
from native_log.cleaner.plan import plan_round, what_is_cleanable
from native_log.cleaner.survivors import find_survivors
from native_log.records import Survivors
from tests.cleaner.support import ALWAYS, rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_spark.compaction.values import Note
    from native_log.cleaner.plan import Round

NEWEST = [one for one in rounds() if "4.1" in str(one.before)]
ROOM = 1 << 20


def planned() -> list[Round]:
    config = compaction_config({**ALWAYS, "segment.bytes": "40000"})
    logs = [LogDir(one.before / "data").partition(one.topic, 0) for one in NEWEST]
    return [plan_round(log, what_is_cleanable(log, config, 0), config, 0) for log in logs]


def survivors(
    found: list[Round], split_bytes: int, max_bytes: int, records: int = 1000
) -> tuple[list[Survivors], int]:
    """Of each round, and how many records have no key: by the tasks, were there that many records."""
    to_do = jobs([(round, records) for round in found], dedupe_bytes=32 << 20, cores=16)
    tasks = [row(0, pickle.dumps(split)) for job in to_do for split in splits(job, split_bytes)]
    packs = rows(keys.gather_keys(iter(tasks), max_bytes))
    borders = [(job.first_bundle, job.first_group, job.borders) for job in to_do]
    by_group: dict[int, list[Survivors]] = {}
    null_keys = 0
    for _, of_bucket in groupby(sorted(packs, key=lambda one: one.number), lambda one: one.number):
        for group, part, payload, note in rows(keys.merge_packs(_sent(of_bucket), borders)):
            assert part > 0
            if note is not None:
                noted: Note = pickle.loads(note)
                assert noted.error is None
                null_keys += noted.null_keys
            if payload is not None:
                by_group.setdefault(group, []).append(Survivors.from_bytes(payload))
    united = []
    for job in to_do:
        numbers = range(job.first_group, job.first_group + len(job.round.groups))
        united.append(Survivors().union(*(one for number in numbers for one in by_group.get(number, []))))
    return united, null_keys


def _sent(packs: Any) -> Iterator[Any]:
    return (row(one.number, one.payload, one.part, one.note) for one in packs)


@pytest.mark.parametrize("worth_a_map", [-1.0, 0.5, 1e9], ids=["maps", "as it is", "lists"])
@pytest.mark.parametrize(("split_bytes", "max_bytes"), [(ROOM, ROOM), (3000, ROOM), (3000, 900), (ROOM, 300)])
def test_as_found_by_one_map(
    monkeypatch: pytest.MonkeyPatch, worth_a_map: float, split_bytes: int, max_bytes: int
) -> None:
    found = planned()
    expected = [find_survivors(round, ROOM) for round in found]
    monkeypatch.setattr(keys, "TRIAL_BYTES", 500)
    monkeypatch.setattr(keys, "WORTH_A_MAP", worth_a_map)

    by_tasks, null_keys = survivors(found, split_bytes, max_bytes)

    assert by_tasks == [offsets for offsets, _ in expected]
    assert null_keys == sum(without for _, without in expected)


def test_bundles_of_many_buckets() -> None:
    found = planned()
    (job,) = jobs([(found[0], 3_000_000)], dedupe_bytes=32 << 20, cores=2)
    assert (job.bundles, job.buckets) == (4, 6)
    expected = [find_survivors(round, ROOM)[0] for round in found]
    by_tasks, _ = survivors(found, 3000, ROOM, records=3_000_000)
    assert by_tasks == expected


def test_a_key_that_fits_in_no_map() -> None:
    round = planned()[0]
    (job,) = jobs([(round, 1)], dedupe_bytes=1000, cores=1)
    tasks = [row(0, pickle.dumps(split)) for split in splits(job, ROOM)]
    notes = [found.note for found in rows(keys.gather_keys(iter(tasks), 10)) if found.note is not None]
    assert "log.cleaner.dedupe.buffer.size" in pickle.loads(notes[0]).error
