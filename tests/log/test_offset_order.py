"""Batches that occur twice or have a changed base offset: all readers agree which ones are damaged."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import native_log
from native_log import LogDir
from native_log.config import LogConfig
from native_log.errors import CorruptRecordError
from native_log.log import PartitionLog
from native_log.log.recovery.log_recovery import recover_log
from native_log.log.verification import verify_log
from native_log.records import scan
from native_log.segment.entries import OFFSET_ENTRY
from native_log.segment.files import file_name
from tests.builders.batches import batch
from tests.builders.copies import batches, rows_of, write_copy
from tests.builders.legacy import message, wrapper
from tests.builders.logs import write_log
from tests.contents import offsets
from tests.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

SIZE = len(batch(0))


def at(data: bytes, offset: int) -> bytes:
    """Return the batch with another base offset."""
    return offset.to_bytes(8, "big", signed=True) + data[8:]


class Case(NamedTuple):
    segments: dict[int, list[bytes]]
    damaged: tuple[int, int, int]
    """The damaged batch: its segment, its index in it, and the first missing offset."""
    rows: list[int]


TWICE = Case({0: [batch(0), batch(3), batch(3), batch(6)]}, (0, 2, 6), [*range(9)])
RAISED = Case(
    {0: [batch(0), batch(3)], 6: [batch(6), at(batch(9), 1009), batch(12)], 15: [batch(15)]},
    (6, 1, 9),
    [*range(9), *range(12, 18)],
)
RAISED_A_LITTLE = Case(
    {0: [batch(0), at(batch(3), 4), batch(6), batch(9)]}, (0, 1, 3), [0, 1, 2, *range(6, 12)]
)
LOWERED = Case({0: [batch(0), batch(3), at(batch(6), 2), batch(9)]}, (0, 2, 6), [*range(6), 9, 10, 11])
OVERLAP = Case({0: [batch(0), batch(3)], 3: [batch(3), batch(6)]}, (0, 1, 3), [*range(9)])
TWICE_AT_THE_END = Case({0: [batch(0), batch(3), batch(3)]}, (0, 2, 6), [*range(6)])
MANY_TWICE = Case(
    {0: [batch(i) for i in (0, 3, 6, 9, 0, 3, 6, 9, 12)], 15: [batch(15)]}, (0, 4, 12), [*range(18)]
)
BEYOND_THE_LIMIT = Case(
    {0: [batch(0), batch(3)], 6: [batch(6), at(batch(9), 6 + 2**31)]}, (6, 1, 9), [*range(9)]
)
FAR_BEYOND_THE_LIMIT = Case({0: [batch(0), batch(3), at(batch(6), 6 + 2**40)]}, (0, 2, 6), [*range(6)])
CASES = {
    "twice": TWICE,
    "raised": RAISED,
    "raised a little": RAISED_A_LITTLE,
    "lowered": LOWERED,
    "overlap": OVERLAP,
    "twice at the end": TWICE_AT_THE_END,
    "many twice": MANY_TWICE,
    "beyond the limit": BEYOND_THE_LIMIT,
    "far beyond the limit": FAR_BEYOND_THE_LIMIT,
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def open_log(case: Case, tmp_path: Path) -> PartitionLog:
    return PartitionLog.open(write_log(tmp_path / "t-0", case.segments))


def damage(case: Case, log: PartitionLog) -> tuple[str, int, int]:
    """Return (path, position, offset) of the damaged batch."""
    base, index, offset = case.damaged
    return f"{log.path}/{base:020d}.log", index * SIZE, offset


def test_reading_in_all_modes(case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(case, tmp_path)
    path, position, offset = damage(case, log)
    read: list[int] = []
    with pytest.raises(CorruptRecordError) as raised:
        for part in log.read(columns=["offset"]):
            read += offsets([part])
    assert (raised.value.path, raised.value.position, raised.value.offset) == (path, position, offset)
    assert read == case.rows[: case.rows.index(offset)] if offset in case.rows else read == sorted(read)
    seen: list[Any] = []
    with caplog.at_level(logging.WARNING):
        assert offsets(log.read(columns=["offset"], mode="dropMalformed", on_damage=seen.append)) == case.rows
    assert [(damaged.path, damaged.position, damaged.offset) for damaged in seen] == [
        (path, position, offset)
    ]
    assert [path in record.getMessage() for record in caplog.records] == [True]
    columns = ["offset", "position", "segment", "_corrupt_record"]
    rows = [row for part in log.read(columns=columns, mode="permissive") for row in part.to_pylist()]
    (corrupt,) = (row for row in rows if row["_corrupt_record"])
    assert (f"{log.path}/{corrupt['segment']}", corrupt["position"], corrupt["offset"]) == (
        path,
        position,
        offset,
    )


def test_every_reader_of_headers(case: Case, tmp_path: Path) -> None:
    log = open_log(case, tmp_path)
    path, position, offset = damage(case, log)
    for look in (
        lambda: list(log.batches()),
        log.transactions,
        lambda: list(log.range().latest(["offset"])),
    ):
        with pytest.raises(CorruptRecordError) as raised:
            look()
        assert (raised.value.path, raised.value.position, raised.value.offset) == (path, position, offset)
    headers = [row for part in log.batches(mode="dropMalformed") for row in part.to_pylist()]
    assert [row["baseOffset"] for row in headers] == case.rows[::3]
    assert offsets(log.range().latest(["offset"], mode="dropMalformed")) == [case.rows[-1]]


def test_the_log_ends_at_its_last_batch_in_order(case: Case, tmp_path: Path) -> None:
    assert open_log(case, tmp_path).log_end_offset == case.rows[-1] + 1


def test_verify_reports_it_once(case: Case, tmp_path: Path) -> None:
    log = open_log(case, tmp_path)
    problems = [problem for problem in verify_log(log) if problem.path.endswith(".log")]
    assert [(problem.path, problem.position, problem.offset) for problem in problems] == [damage(case, log)]


def test_compaction_rejects_it(case: Case, tmp_path: Path) -> None:
    log = open_log(case, tmp_path)
    write_log(tmp_path / "t-0", {1000: [batch(1000)]})  # otherwise there is only an active segment
    before = {path.name: path.read_bytes() for path in log.path.glob("*.log")}
    (done,) = native_log.compact(
        tmp_path, ["t"], {"min.cleanable.dirty.ratio": 0, "cleanup.policy": "compact"}
    ).to_pylist()
    path, position, _ = damage(case, log)
    assert done["status"] == "failed"
    assert path in done["reason"] and f"position {position}" in done["reason"]
    assert {path.name: path.read_bytes() for path in log.path.glob("*.log")} == before


def test_lookups_skip_it(case: Case, tmp_path: Path) -> None:
    log = open_log(case, tmp_path)
    for start in range(log.log_end_offset + 1):
        for end in {start, start + 1, start + 5, log.log_end_offset} - {*range(start)}:
            if end > log.log_end_offset:
                continue
            read = offsets(log.read(start, end, ["offset"], mode="dropMalformed"))
            assert read == [offset for offset in case.rows if start <= offset < end]


@pytest.mark.parametrize("raised_by", [2**31, 2**40, 2**62])
def test_nothing_is_appended_after_an_offset_beyond_the_limit(raised_by: int, tmp_path: Path) -> None:
    """The limit is the greatest offset that an entry of the segment's offset index can hold."""
    path = tmp_path / "t-0"
    path.mkdir()
    with PartitionLog.open(path) as log:
        for value in (b"0", b"1"):
            log.append(pa.table({"value": [value]}))
    file = path / file_name(0, "log")
    data = file.read_bytes()
    half = len(data) // 2
    file.write_bytes(data[:half] + at(data[half:], 1 + raised_by))
    followed = PartitionLog.open(path).follow(0, ["offset"], timeout_ms=0, mode="dropMalformed")
    assert offsets(followed) == [0]
    before = file.read_bytes()
    (tmp_path / ".kafka_cleanshutdown").touch()
    with (
        LogDir(tmp_path).partition("t", 0) as log,
        pytest.raises(CorruptRecordError, match=f"from 1 to before {2**31}"),
    ):
        log.append(pa.table({"value": [b"2"]}))
    assert file.read_bytes() == before


class Recovered(NamedTuple):
    """The result of recovery by a broker 4.1.1: the log end offset, and the sizes of the segments."""

    end: int
    sizes: dict[int, int]
    has_kept: bool


LARGE = {"size": 3000}
LARGE_SIZE = len(batch(0, **LARGE))


@pytest.mark.parametrize(
    ("segments", "left"),
    [
        ({0: [batch(0), batch(3), batch(3), batch(6)]}, Recovered(9, {0: 4 * SIZE}, True)),
        ({0: [batch(o, **LARGE) for o in (0, 3, 3, 6)]}, Recovered(0, {0: 0}, False)),
        ({0: [batch(o, **LARGE) for o in (0, 3, 3)]}, Recovered(0, {0: 0}, False)),
        ({0: [batch(o, **LARGE) for o in (0, 3, 0, 3, 6)], 9: [batch(9)]}, Recovered(0, {0: 0}, False)),
        ({0: [batch(0), batch(1003), batch(6)], 9: [batch(9)]}, Recovered(12, {0: 3 * SIZE, 9: SIZE}, True)),
        ({0: [batch(o, **LARGE) for o in (0, 1003, 6, 9)], 12: [batch(12)]}, Recovered(0, {0: 0}, False)),
        (
            {0: [batch(o, **LARGE) for o in (0, 3, 1006)], 12: [batch(12)]},
            Recovered(15, {0: 3 * LARGE_SIZE, 12: SIZE}, True),
        ),
        ({0: [batch(o, **LARGE) for o in (0, 3, 1006)]}, Recovered(1009, {0: 3 * LARGE_SIZE}, False)),
        ({0: [batch(0), batch(3), batch(1), batch(9)]}, Recovered(12, {0: 4 * SIZE}, True)),
        ({0: [batch(0), batch(3)], 4: [batch(4)]}, Recovered(7, {0: 2 * SIZE, 4: SIZE}, True)),
    ],
)
def test_recovery_truncates_where_a_broker_does(
    segments: dict[int, list[bytes]], left: Recovered, tmp_path: Path
) -> None:
    """Decreasing offsets are noticed when an index entry is added. The whole segment is then emptied."""
    path = write_log(tmp_path / "t-0", segments)
    done = recover_log(path, recovery_point=0, log_start_offset=0, config=LogConfig())
    assert done.log_end_offset == left.end
    assert {int(log.stem): log.stat().st_size for log in path.glob("*.log")} == left.sizes
    assert bool(done.out_of_order) == left.has_kept
    problems = [problem for problem in verify_log(PartitionLog.open(path)) if problem.path.endswith(".log")]
    assert bool(problems) == left.has_kept
    if problems:
        (segment, damaged), *_ = done.out_of_order
        assert (problems[0].path, problems[0].position) == (str(segment.path), damaged.position)


def test_a_decreasing_time_index_empties_the_segment_too(tmp_path: Path) -> None:
    """The raised batch is between two index entries, but has the maximum timestamp for the first of them."""
    times = [0, 50, 10, 60, 60]
    starts = [0, 1003, 6, 9, 12]
    data = [
        batch(offset, size=size, base_timestamp=10**12 + time, max_timestamp=10**12 + time)
        for offset, size, time in zip(starts, (3000, 20, 3000, 3000, 3000), times, strict=True)
    ]
    path = write_log(tmp_path / "t-0", {0: data})
    done = recover_log(path, recovery_point=0, log_start_offset=0, config=LogConfig())
    assert (done.log_end_offset, done.checked[0].valid_bytes) == (0, 0)
    assert "increasing offsets" in (done.reason or "")


COLUMNS = ["offset", "value", "position", "segment", "_corrupt_record"]


@st.composite
def shuffled(draw: st.DrawFn) -> dict[int, list[bytes]]:
    """Draw segments of small batches. Some occur twice, are moved or have a flipped bit."""
    segments: dict[int, list[bytes]] = {}
    offset = 0
    for _ in range(draw(st.integers(1, 3))):
        parts = segments[offset] = []
        for _ in range(draw(st.integers(1, 12))):
            count = draw(st.integers(1, 4))
            parts.append(batch(offset, count, draw(st.sampled_from([20, 20, 400]))))
            offset += count + draw(st.sampled_from([0, 0, 0, 5]))
    for _ in range(draw(st.integers(1, 3))):
        parts = segments[draw(st.sampled_from(sorted(segments)))]
        index = draw(st.integers(0, len(parts) - 1))
        what = draw(st.sampled_from(["twice", "again", "moved", "flipped"]))
        if what == "twice":
            parts.insert(index, parts[index])
        elif what == "again":
            end = draw(st.integers(index, len(parts)))
            parts[end:end] = parts[index:end]
        elif what == "moved":
            now = int.from_bytes(parts[index][:8], "big")
            parts[index] = at(parts[index], max(0, now + draw(st.integers(-30, 30))))
        else:
            position = draw(st.integers(8, len(parts[index]) - 1))
            flipped = parts[index][position] ^ 1 << draw(st.integers(0, 7))
            parts[index] = parts[index][:position] + bytes([flipped]) + parts[index][position + 1 :]
    return segments


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_any_split_gives_the_same_rows(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write_log(tmp_path_factory.mktemp("shuffled") / "t-0", data.draw(shuffled()))
    if data.draw(st.booleans()):
        for segment in PartitionLog.open(path).segments:
            _index(path, segment.base_offset, data.draw(st.sampled_from([0, 300])))
    log = PartitionLog.open(path)
    whole = log.range()

    def rows(ranges: list[Any]) -> list[tuple[Any, ...]]:
        batches = [part for each in ranges for part in each.read(COLUMNS, mode="permissive")]
        return [tuple(row.values()) for part in batches for row in part.to_pylist()]

    expected = rows([whole])
    good = [row[0] for row in expected if row[-1] is None]
    assert good == sorted(set(good))
    parts = whole.split(data.draw(st.integers(50, 2000)))
    assert rows(parts) == expected
    at_offsets = data.draw(st.lists(st.integers(0, max(1, whole.end_offset)), max_size=4))
    assert [row for row in rows(whole.split_at(at_offsets)) if row[-1] is None] == [
        row for row in expected if row[-1] is None
    ]


def _index(path: Path, base_offset: int, interval_bytes: int) -> None:
    """Return the offset index that a broker would write for these headers."""
    data = (path / f"{base_offset:020d}.log").read_bytes()
    entries, last_position, last_offset = b"", 0, -1
    for row in scan(data).batches.to_pylist():
        relative = row["lastOffset"] - base_offset
        if row["position"] - last_position > interval_bytes and 0 <= relative < 2**31:
            if relative <= last_offset:
                return
            entries += OFFSET_ENTRY.pack(relative, row["position"])
            last_position, last_offset = row["position"], relative
    (path / f"{base_offset:020d}.index").write_bytes(entries)


def test_records_of_a_wrapper_that_repeat_offsets_are_damaged(tmp_path: Path) -> None:
    """The header has only the last offset, so it does not show this."""
    first, second = ([message(1, offset) for offset in range(count)] for count in (5, 6))
    path = write_log(tmp_path / "t-0", {0: [wrapper(1, first, 4, "gzip"), wrapper(1, second, 8, "gzip")]})
    log = PartitionLog.open(path)
    with pytest.raises(CorruptRecordError, match="offsets from 5 on, after the previous batch, found 3 to 8"):
        log.read().read_all()
    assert offsets(log.read(columns=["offset"], mode="dropMalformed")) == [*range(5)]
    problems = [str(problem) for problem in verify_log(log) if problem.path.endswith(".log")]
    assert len(problems) == 1
    assert "expected records with increasing offsets from 5 to 8, found [3, 4" in problems[0]


def test_an_offset_in_a_gap_after_the_last_batch_follows_earlier_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0), batch(0), batch(3)], 20: [batch(20)]})
    parts = PartitionLog.open(path).range().split_at([10])
    rows = [offsets(part.read(["offset"], mode="dropMalformed")) for part in parts]
    assert rows == [[*range(6)], [20, 21, 22]]


@pytest.mark.parametrize("inner", [(0, 1), (1, 2)])
def test_verify_reports_a_wrapper_that_begins_below_its_segment(
    inner: tuple[int, int], tmp_path: Path
) -> None:
    """The header has only the last offset."""
    last = 99 + inner[1]
    data = wrapper(0, [message(0, 99 + offset) for offset in inner], last, "gzip")
    log = PartitionLog.open(write_log(tmp_path / "t-0", {0: [batch(0)], 100: [data]}))
    kinds = [problem.kind for problem in verify_log(log) if problem.path.endswith(".log")]
    assert kinds == ([] if inner[0] else ["records"])


def test_verify_names_the_index_of_a_swapped_segment(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", {0: [batch(0)]})
    for kind in ("log", "index"):
        (path / file_name(0, kind)).rename(path / f"{file_name(0, kind)}.swap")
    (path / f"{file_name(0, 'index')}.swap").write_bytes(OFFSET_ENTRY.pack(2, 7))
    paths = [
        problem.path for problem in verify_log(PartitionLog.open(path)) if problem.kind == "offset-index"
    ]
    assert paths == [f"{path}/{file_name(0, 'index')}.swap"]


def test_a_copy_with_segments_before_and_after_a_compaction(tmp_path: Path) -> None:
    """aws s3 sync without --delete leaves the segments that a broker has replaced by a larger one."""
    whole = batches(0, 12)
    write_copy(tmp_path / "before", whole, rolls=[9, 18])
    write_copy(tmp_path / "after", whole, rolls=[27])
    copy = tmp_path / "before" / "t-0"
    shutil.copytree(tmp_path / "after" / "t-0", copy, dirs_exist_ok=True)
    log = LogDir(tmp_path / "before").partition("t", 0)
    expected = (
        "0{20}.log, position 525.*0{19}9.log begins with offset 9.*the segments overlap.*without --delete"
    )
    with pytest.raises(CorruptRecordError, match=expected):
        log.read().read_all()
    found = offsets(log.read(columns=["offset"], mode="dropMalformed"))
    assert found == [offset for offset, _ in rows_of(whole)]
