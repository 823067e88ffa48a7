"""The survey of a log does not depend on how the log is divided or read."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import native_log
from native_log import CorruptRecordError
from native_log.compaction import rewrite
from native_log.compaction.rounds import find_cleanable_range, plan_round
from native_log.compaction.survey import Survey, survey_log
from native_log.config import LogConfig
from native_log.log import PartitionLog
from tests.builders.batches import ABORT, TRANSACTIONAL, Rec, marker, v2
from tests.builders.compaction_rounds import ALWAYS, broker_rounds, round_id
from tests.builders.logs import write_log
from tests.contents import files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders.compaction_rounds import BrokerRound

WITH_TRANSACTIONS = [case for case in broker_rounds() if case.topic == "compact-txn"]


@pytest.mark.parametrize("case", WITH_TRANSACTIONS, ids=round_id)
@pytest.mark.parametrize("parts", [2, 3, 100])
def test_surveys_of_parts_join_to_the_survey_of_the_log(case: BrokerRound, parts: int) -> None:
    log = PartitionLog.open(case.before / "data" / f"{case.topic}-0")
    count = len(log.segments)
    cuts = sorted({count * number // parts for number in range(parts + 1)})
    assert len(cuts) > 2

    joined = Survey()
    for first, end in pairwise(cuts):
        joined.extend(survey_log(log, first, end))

    whole = survey_log(log)
    assert joined.transactions() == whole.transactions()
    assert joined.producers == whole.producers
    bases = [segment.base_offset for segment in log.segments]
    assert list(joined.open_producers(bases)) == list(whole.open_producers(bases))
    config = LogConfig.parse(ALWAYS)
    cleanable = find_cleanable_range(log, config, 0)
    assert plan_round(log, cleanable, config, 0, joined) == plan_round(log, cleanable, config, 0)


def test_the_fixtures_have_transactions_and_producers() -> None:
    surveys = [
        survey_log(PartitionLog.open(case.before / "data" / f"{case.topic}-0")) for case in WITH_TRANSACTIONS
    ]
    assert any(survey.transactions() for survey in surveys)
    assert any(survey.producers.by_id for survey in surveys)


@pytest.mark.parametrize("damaged", [0, 1])
def test_damage_in_aborted_batches_is_noticed(damaged: int, tmp_path: Path) -> None:
    """They are dropped without being read, but their headers decide what else is dropped."""
    content = [
        v2([Rec(b"k")], offset, attributes=TRANSACTIONAL, producer_id=7, base_sequence=offset)
        for offset in (0, 1)
    ]
    content[damaged] = content[damaged][:-1] + b"!"
    path = write_log(tmp_path / "t-0", {0: [*content, marker(2, 7, ABORT)], 3: [v2([Rec(b"k")], 3)]})
    with pytest.raises(CorruptRecordError, match=f"offset {damaged}"):
        survey_log(PartitionLog.open(path))
    (row,) = native_log.compact(tmp_path, "t", ALWAYS).to_pylist()
    assert row["status"] == "failed"
    assert f"offset {damaged}" in row["reason"]
    assert [file.name for file in sorted(path.glob("*.log"))] == [f"{0:020d}.log", f"{3:020d}.log"]


@pytest.mark.parametrize("case", broker_rounds(), ids=round_id)
def test_verdicts_do_not_depend_on_the_size_of_chunks(
    case: BrokerRound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for number, chunk_bytes in enumerate((1 << 20, 700)):
        data = case.copy(tmp_path / str(number))
        monkeypatch.setattr(rewrite, "_VERDICT_CHUNK_BYTES", chunk_bytes)
        native_log.compact(data, case.topic, config=case.config, now_ms=case.now_ms)
        results.append(files(data))
    assert results[0] == results[1]
