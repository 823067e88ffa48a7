"""Compare streaming reads with recordings of Spark's kafka source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .parity import DATA, DATA_LOSS, INTENDED, PARITY
from .read_limits import needs_read_limits
from .stream_query import Checkpoint, Clock, MicroBatch, StreamQuery

STREAMS = [json.loads(line) for line in (PARITY / "streaming.jsonl").read_text().splitlines()]

Batches = list[tuple[dict[str, dict[str, int]], list[list[Any]]]]
"""Of each micro-batch with rows: the end offsets, and (topic, partition, rows, first, last) of each task."""


def recorded_batches(result: dict[str, Any]) -> Batches:
    return [(batch["endOffset"], sorted(batch["taskRows"])) for batch in result["batches"] if batch["rows"]]


def run_phase(phase: dict[str, Any], checkpoint: Checkpoint, clock: Clock) -> Batches:
    query = StreamQuery(checkpoint, **phase["options"], path=DATA)
    if "availableNow" in phase["trigger"]:
        return batches_with_rows(list(query.available_now()))
    if "once" in phase["trigger"]:
        return batches_with_rows([batch for batch in [query.trigger(once=True)] if batch is not None])
    batches: list[MicroBatch] = []
    idle_ms = 0
    while idle_ms <= 8000 and len(batches) != phase.get("batches"):
        batch = query.trigger()
        if batch is None:
            idle_ms += 500
            clock.now_ms += 500
        else:
            batches.append(batch)
            idle_ms = 0
    return batches_with_rows(batches)


def batches_with_rows(batches: list[MicroBatch]) -> Batches:
    return [
        (
            json.loads(batch.end),
            sorted([*key, len(o), min(o), max(o)] for task in batch.tasks for key, o in task.items() if o),
        )
        for batch in batches
        if batch.rows
    ]


def per_partition(tasks: list[list[Any]]) -> list[list[Any]]:
    merged: dict[tuple[str, int], list[Any]] = {}
    for topic, partition, count, first, last in tasks:
        known = merged.setdefault((topic, partition), [topic, partition, 0, first, last])
        known[2:] = [known[2] + count, min(known[3], first), max(known[4], last)]
    return sorted(merged.values())


def check(case: dict[str, Any], number: int, got: Batches | Exception) -> None:
    """Compare one phase of a case with its recording."""
    expected = case["results"][number]
    if "error" in expected:
        if "error" not in INTENDED[case["id"]] or isinstance(got, Exception):
            assert isinstance(got, Exception), got
            assert (expected["error"]["kind"] == "data-loss") == bool(DATA_LOSS.search(str(got)))
        return
    if "error" in INTENDED[case["id"]]:
        assert isinstance(got, Exception), got
        return
    if isinstance(got, Exception):
        raise got
    limits = {name.lower() for name in case["phases"][number]["options"]}
    if not limits & {"minpartitions", "maxrecordsperpartition"}:
        got = [(end, per_partition(tasks)) for end, tasks in got]
    assert got == recorded_batches(expected)


@needs_read_limits
@pytest.mark.parametrize("case", STREAMS, ids=[case["id"] for case in STREAMS])
def test_case(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clock, checkpoint = Clock(monkeypatch), Checkpoint()
    for number, phase in enumerate(case["phases"]):
        try:
            got: Batches | Exception = run_phase(phase, checkpoint, clock)
        except Exception as error:
            got = error
        check(case, number, got)
