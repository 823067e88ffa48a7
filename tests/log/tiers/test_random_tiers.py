"""Remote storage written by leaders that change and fail: the joined log is what was produced."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from native_log import LogDir
from tests.builders.copies import damage, rows
from tests.builders.tiered_cluster import DELETED, DELETING, KINDS, Cluster, TrackedCluster
from tests.effort import examples

few = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("elect"), few),
    st.tuples(st.just("upload"), st.integers(1, 4), st.just(())),
    st.tuples(st.just("upload"), st.integers(1, 4), st.sets(st.sampled_from(KINDS), min_size=1)),
    st.tuples(st.just("delete_local"), few),
    st.tuples(st.just("delete_remote"), few),
)
tracked_steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("elect"), st.integers(0, 5)),
    st.tuples(st.just("upload"), st.integers(1, 4), few),
    st.tuples(st.just("fail"), st.integers(1, 4), few, st.sets(st.sampled_from(KINDS))),
    st.tuples(st.just("delete_local"), few),
    st.tuples(st.just("delete_remote"), few, st.sampled_from([DELETING, DELETED])),
)


def check_log(cluster: Cluster, logs: LogDir) -> None:
    """Compare the log, and two ranges of it, with what was produced."""
    log = logs.partition("t", 0)
    expected = cluster.rows()
    assert (log.log_start_offset, log.log_end_offset) == (cluster.start, cluster.end)
    assert rows(log.read()) == expected
    middle = (cluster.start + cluster.end) // 2
    assert rows(log.read(middle)) == [row for row in expected if row[0] >= middle]
    assert rows(log.read(filter=f"offset < {middle}")) == [row for row in expected if row[0] < middle]


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.lists(steps, max_size=16))
def test_without_metadata_copies_must_not_overlap(history: list[tuple]) -> None:
    with tempfile.TemporaryDirectory() as name:
        cluster = Cluster(Path(name) / "tier")
        for step, *arguments in [("append", 5), ("upload", 2, ()), *history]:
            getattr(cluster, step)(*arguments)
        note(str(cluster))
        cluster.write_local(Path(name) / "data")
        check_log(cluster, LogDir(Path(name) / "data", remote=cluster.tier))


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(tracked_steps, max_size=20), st.integers(0, 8), st.booleans())
def test_with_metadata_copies_may_overlap(history: list[tuple], older: int, is_first: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        cluster, folder = TrackedCluster(Path(name) / "tier"), Path(name)
        for step, *arguments in [("append", 5), ("upload", 2, 0), *history]:
            note(f"{step} {arguments}")
            getattr(cluster, step)(*arguments)
        note(str(cluster))
        cluster.write_local(folder / "data")
        # One of the two copies of the metadata is older: its broker stopped first.
        cluster.write_metadata(folder / "newer")
        cluster.write_metadata(folder / "older", max(1, len(cluster.metadata) - older))
        copies = ["older", "newer"] if is_first else ["newer", "older"]
        metadata = [folder / copy for copy in copies]
        check_log(cluster, LogDir(folder / "data", remote=cluster.tier, remote_metadata=metadata))


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@example([("upload", 4, 0), ("append", 2)], 5, 4)
@given(st.lists(tracked_steps, max_size=16), st.integers(0, 6), st.integers(0, 20))
def test_copies_are_merged_and_joined(history: list[tuple], lag: int, damaged: int) -> None:
    """Damage in the leading copy is repaired from a follower, or from remote storage."""
    with tempfile.TemporaryDirectory() as name:
        cluster, folder = TrackedCluster(Path(name) / "tier"), Path(name)
        for step, *arguments in [("append", 5), ("upload", 2, 0), *history]:
            getattr(cluster, step)(*arguments)
        leader = cluster.write_local(folder / "leader")
        cluster.write_local(folder / "follower", lag)
        cluster.write_metadata(folder / "leader")
        local = [batch for batch in cluster.log if batch.offset >= cluster.local_start]
        held = [
            batch for i, batch in enumerate(local) if i < len(local) - lag or batch.offset < cluster.covered
        ]
        note(str(cluster))
        if held[damaged:] and held[damaged] is not local[-1]:
            damage(leader, held[damaged])
        copies = LogDir(folder / "leader", folder / "follower", remote=cluster.tier, replicas="merge")
        check_log(cluster, copies)


@pytest.mark.parametrize("is_unclean", [True, False])
def test_records_that_an_unclean_election_removed_are_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_unclean: bool
) -> None:
    cluster = TrackedCluster(tmp_path / "tier")
    cluster.append(5)
    cluster.upload(6, 0)
    if is_unclean:
        cluster.elect(3)
        cluster.append(1)
    else:
        del cluster.log[4:]
    cluster.write_local(tmp_path / "data")
    cluster.write_metadata(tmp_path / "data")
    check_log(cluster, LogDir(tmp_path / "data", remote=cluster.tier))
    assert ("this directory lacks the last records" in caplog.text) is not is_unclean
