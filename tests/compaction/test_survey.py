"""What headers tell of a log does not depend on how the log is looked through, or cut."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import native_log
from native_log.compaction import rewrite
from native_log.compaction.rounds import find_cleanable, plan_round
from native_log.compaction.survey import Survey, survey
from native_log.config import LogConfig
from native_log.log import PartitionLog

from .support import ALWAYS, files, round_id, rounds

if TYPE_CHECKING:
    from pathlib import Path

    from .support import BrokersRound

TRANSACTIONAL = [one for one in rounds() if one.topic == "compact-txn"]


@pytest.mark.parametrize("one", TRANSACTIONAL, ids=round_id)
@pytest.mark.parametrize("parts", [2, 3, 100])
def test_parts_make_the_whole(one: BrokersRound, parts: int) -> None:
    log = PartitionLog.open(one.before / "data" / f"{one.topic}-0")
    count = len(log.segments)
    cuts = sorted({count * number // parts for number in range(parts + 1)})
    assert len(cuts) > 2

    joined = Survey()
    for first, end in pairwise(cuts):
        joined.add(survey(log, first, end))

    whole = survey(log)
    assert joined.transactions() == whole.transactions()
    assert joined.producers == whole.producers
    bases = [segment.base_offset for segment in log.segments]
    assert list(joined.open_at(bases)) == list(whole.open_at(bases))
    config = LogConfig.parse(ALWAYS)
    found = find_cleanable(log, config, 0)
    assert plan_round(log, found, config, 0, surveyed=joined) == plan_round(log, found, config, 0)


def test_there_is_something_to_tell() -> None:
    told = [survey(PartitionLog.open(one.before / "data" / f"{one.topic}-0")) for one in TRANSACTIONAL]
    assert any(found.transactions() for found in told)
    assert any(found.producers.by_id for found in told)


@pytest.mark.parametrize("one", rounds(), ids=round_id)
def test_verdicts_do_not_depend_on_what_is_in_memory(
    one: BrokersRound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number, chunk_bytes in enumerate((1 << 20, 700)):
        data = one.copy(tmp_path / str(number))
        monkeypatch.setattr(rewrite, "_READ_BYTES", chunk_bytes)
        native_log.compact(data, one.topic, config=one.config, now_ms=one.now_ms)
        found.append(files(data))
    assert found[0] == found[1]
