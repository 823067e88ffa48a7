"""Which partitions are selected, by topic, number and kind of directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import native_log
from native_log import UnknownTopicOrPartitionError
from native_log.checkpoints.names import BROKER_TOPICS, INTERNAL_TOPICS, PartitionKind, parse_partition_name
from native_log.logdir.discovery import PartitionDir
from native_log.logdir.selection import PartitionSelection, filter_partitions, internal_topics

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path("/logs")
STRAY, DELETED, FUTURE = "gone-0.1-stray", "gone-1.2-delete", "orders-2.3-future"
FOUND = ("__consumer_offsets-0", "orders-0", "orders-1", "payments-1", STRAY, DELETED, FUTURE)
NORMAL = {PartitionKind.NORMAL}


def directory(name: str) -> PartitionDir:
    parsed = parse_partition_name(name)
    assert parsed is not None
    return PartitionDir.from_name(ROOT / name, parsed)


def selected(
    topics: str | Iterable[str] | None = None,
    exclude_topics: str | Iterable[str] = (),
    *,
    only_by_name: Iterable[str] = (),
    numbers: Iterable[range] | None = None,
    found: Iterable[str] = FOUND,
    **how: Any,
) -> list[str]:
    selection = PartitionSelection.of(topics, exclude_topics, only_by_name=only_by_name, numbers=numbers)
    return [each.path.name for each in filter_partitions(map(directory, found), selection, **how)]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, FOUND),
        ({"topics": "orders"}, ("orders-0", "orders-1", FUTURE)),
        ({"topics": iter(["orders", "gone"])}, ("orders-0", "orders-1", STRAY, DELETED, FUTURE)),
        ({"topics": []}, ()),
        ({"exclude_topics": ["orders", "gone"]}, ("__consumer_offsets-0", "payments-1")),
        ({"topics": ["orders", "payments"], "exclude_topics": "orders"}, ("payments-1",)),
        ({"topics": "orders", "exclude_topics": "orders"}, ()),
        ({"kinds": NORMAL}, FOUND[:4]),
        ({"kinds": {*NORMAL, PartitionKind.FUTURE}}, (*FOUND[:4], FUTURE)),
        ({"kinds": NORMAL, "only_by_name": BROKER_TOPICS}, ("orders-0", "orders-1", "payments-1")),
        ({"topics": "__consumer_offsets", "only_by_name": BROKER_TOPICS}, ("__consumer_offsets-0",)),
        ({"numbers": [range(1)]}, ("__consumer_offsets-0", "orders-0", STRAY)),
        ({"numbers": [range(1, 9)], "kinds": NORMAL}, ("orders-1", "payments-1")),
        ({"numbers": []}, ()),
        ({"required": True, "found": ()}, ()),
    ],
)
def test_selected_partitions(how: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert selected(**how) == list(expected)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"topics": "order"}, r"there is no topic order, but __consumer_offsets, gone, orders, payments$"),
        ({"exclude_topics": "order"}, "there is no topic order,"),
        ({"topics": "orders", "exclude_topics": ["order"]}, "there is no topic order,"),
        ({"topics": "orders", "found": ()}, "there is no topic orders, but no topics at all"),
        (
            {"topics": "gone", "kinds": NORMAL},
            "topic gone has only -delete and -stray directories here; to read",
        ),
        (
            {"topics": "old", "ignored": [directory("old-0.1-delete")]},
            "topic old has only -delete directories",
        ),
        (
            {"numbers": [range(2), range(2, 9)], "topics": "orders", "kinds": NORMAL},
            "a partition 2 to 8 of orders",
        ),
        ({"numbers": [range(7, 8)], "topics": "payments"}, "expected a partition 7 of payments, found 1"),
        ({"numbers": [range(7, 8)], "topics": []}, "expected a partition 7 of no topic, found none"),
        (
            {"topics": "orders", "exclude_topics": "orders", "required": True},
            "expected a topic that is not excluded, found only __consumer_offsets, gone, orders, payments",
        ),
        (
            {"only_by_name": INTERNAL_TOPICS, "found": FOUND[:1], "required": True},
            "expected a topic that is not internal, found only __consumer_offsets; give the names of topics",
        ),
    ],
)
def test_what_matches_nothing_is_an_error(how: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=message) as error:
        selected(**how, paths=[ROOT])
    assert error.value.path == "/logs"


def test_a_path_counts_as_a_name_for_reading_only(caplog: pytest.LogCaptureFixture) -> None:
    offsets = directory(FOUND[0])
    assert internal_topics([offsets], [ROOT]) == INTERNAL_TOPICS
    assert internal_topics([offsets], [offsets.path]) == INTERNAL_TOPICS - {"__consumer_offsets"}

    paths = [ROOT / FOUND[0], ROOT / FOUND[1], ROOT / DELETED]
    names = [path.name for path in paths]
    assert selected(found=names, kinds=NORMAL, only_by_name=BROKER_TOPICS, paths=paths) == ["orders-0"]
    assert caplog.messages == [
        "/logs/__consumer_offsets-0: skipped: __consumer_offsets is processed only if it is named as a topic",
        f"/logs/{DELETED}: skipped: -delete directories are not processed here",
    ]
    caplog.clear()
    assert selected(found=FOUND, kinds=NORMAL, only_by_name=BROKER_TOPICS, paths=[ROOT])
    assert not caplog.messages


@pytest.fixture
def deleted(tmp_path: Path) -> Path:
    """A log directory in which a topic is deleted, and another one is not."""
    with native_log.LogDir.create(tmp_path / "logs") as logs:
        logs.create_topic("gone")
        logs.create_topic("kept")
    (tmp_path / "logs" / "gone-0").rename(tmp_path / "logs" / "gone-0.abc-delete")
    return tmp_path / "logs"


@pytest.mark.parametrize(
    "function",
    [
        native_log.verify,
        native_log.report,
        native_log.compact,
        native_log.retain,
        native_log.recover,
        native_log.reindex,
        lambda path, topics: native_log.salvage(path, path.parent / "new", topics),
        lambda path, topics: native_log.LogDir(path).follow(topics),
        lambda path, topics: native_log.diff(path, path, topics=topics),
    ],
    ids=["verify", "report", "compact", "retain", "recover", "reindex", "salvage", "follow", "diff"],
)
def test_a_deleted_topic_is_rejected_everywhere(deleted: Path, function: Any) -> None:
    with pytest.raises(
        UnknownTopicOrPartitionError, match="topic gone has only -delete directories"
    ) as error:
        function(deleted, "gone")
    assert str(deleted) in str(error.value.path)
    with pytest.raises(UnknownTopicOrPartitionError, match="there is no topic other, but kept"):
        function(deleted, ["kept", "other"])
