"""Recordings of Spark's kafka source (tests/data/spark-parity), and the intended differences."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARITY = Path(__file__).parent.parent / "data" / "spark-parity"
DATA = str(PARITY / "data")

CASES = [json.loads(line) for line in (PARITY / "cases.jsonl").read_text().splitlines()]
INTENDED: dict[str, set[str]] = defaultdict(set)
"""By case id, the aspects (rows, tasks, error) in which kafkalog differs on purpose."""
for deviation in json.loads((PARITY / "known-deviations.json").read_text()):
    for case_id in deviation["cases"]:
        INTENDED[case_id] |= set(deviation["aspects"])

DATA_LOSS = re.compile(r"KAFKA_DATA_LOSS")


@dataclass
class Outcome:
    """The result of a read: the offsets of each task by topic and partition, or an error."""

    tasks: list[dict[tuple[str, int], list[int]]]
    error: str | None = None
    stage: str | None = None
    schema: str | None = None


def differences(case: dict[str, Any], got: Outcome) -> list[str]:
    """Return the aspects that differ from the recording: error, stage, kind, rows, schema, tasks."""
    expected = case.get("error")
    if expected or got.error is not None:
        if not expected or got.error is None:
            return ["error"]
        out = ["stage"] if expected["when"] == "load" and got.stage != "load" else []
        is_data = expected["kind"] in ("data-loss", "timeout")
        return out + (["kind"] if is_data != bool(DATA_LOSS.search(got.error)) else [])
    rows: dict[str, list[int]] = defaultdict(list)
    for task in got.tasks:
        for (topic, partition), offsets in task.items():
            rows[f"{topic}-{partition}"] += offsets
    out = [] if {tp: _summarize(sorted(o)) for tp, o in rows.items() if o} == case["rows"] else ["rows"]
    if got.schema is not None and got.schema != case["schema"]:
        out.append("schema")
    if case["count"] and {"minpartitions", "maxrecordsperpartition"} & {k.lower() for k in case["options"]}:
        ranges = Counter(
            (topic, partition, len(o), min(o), max(o))
            for task in got.tasks
            for (topic, partition), o in task.items()
            if o
        )
        if len(got.tasks) != case["tasks"] or ranges != Counter(tuple(t[1:]) for t in case["taskRows"]):
            out.append("tasks")
    return out


def unintended_differences(case: dict[str, Any], got: Outcome) -> list[str]:
    """Return the aspects that differ from the recording without intention."""
    return [aspect for aspect in differences(case, got) if aspect not in INTENDED[case["id"]]]


def _summarize(offsets: list[int]) -> Any:
    """Return long lists as count, first, last and hash, as they are recorded."""
    if len(offsets) <= 40:
        return offsets
    text = ",".join(map(str, offsets))
    return {
        "count": len(offsets),
        "first": offsets[0],
        "last": offsets[-1],
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
