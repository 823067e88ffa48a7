from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_log.logdir import PartitionKind, is_legal_topic, parse_partition_name

UID = "a81a7fcf8a9b41cfb1c5d72f7471f273"


@pytest.mark.parametrize(
    ("name", "topic", "partition", "kind"),
    [
        ("events-0", "events", 0, "normal"),
        ("a-b-7", "a-b", 7, "normal"),
        ("a-b-c--7", "a-b-c-", 7, "normal"),
        ("t-2147483647", "t", 2147483647, "normal"),
        ("t-007", "t", 7, "normal"),
        ("__cluster_metadata-0", "__cluster_metadata", 0, "normal"),
        # Topics may end with the suffixes of marked directories.
        ("x-delete-0", "x-delete", 0, "normal"),
        ("a.b.c-future-1", "a.b.c-future", 1, "normal"),
        ("x.y-stray-3", "x.y-stray", 3, "normal"),
        (f"x.y-delete-0.{UID}-delete", "x.y-delete", 0, "delete"),
        (f"gone-0.{UID}-delete", "gone", 0, "delete"),
        (f"spread-0.{UID}-future", "spread", 0, "future"),
        (f"a.b-12.{UID}-stray", "a.b", 12, "stray"),
        ("t-0.anything-delete", "t", 0, "delete"),
        ("t" * 249 + "-2147483647", "t" * 249, 2147483647, "normal"),
    ],
)
def test_partition_names(name: str, topic: str, partition: int, kind: str) -> None:
    parsed = parse_partition_name(name)
    assert parsed is not None
    assert (parsed.topic, parsed.partition, parsed.kind) == (topic, partition, kind)


@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        "remote-log-index-cache",
        "",
        "-1",
        "topic-",
        "topic",
        "t-2147483648",
        "t-1x",
        "t-１",  # a digit in Unicode, which brokers do not write
        "my topic-0",
        "..-0",
        "t" * 250 + "-0",
        "x-delete",
        "t-0-delete",
        f"t-0{UID}-delete",
        f"t.{UID}-delete",
        f"t-x.{UID}-future",
    ],
)
def test_names_of_other_directories(name: str) -> None:
    assert parse_partition_name(name) is None


@pytest.mark.parametrize(
    ("topic", "legal"), [("a", True), (".a", True), (".", False), ("..", False), ("ä", False)]
)
def test_legal_topics(topic: str, legal: bool) -> None:
    assert is_legal_topic(topic) is legal


_TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(is_legal_topic)
_PARTITIONS = st.integers(0, 2**31 - 1)


@given(_TOPICS, _PARTITIONS)
def test_every_topic_is_parsed_from_its_directory_name(topic: str, partition: int) -> None:
    parsed = parse_partition_name(f"{topic}-{partition}")
    assert parsed is not None
    assert (parsed.topic, parsed.partition, parsed.kind) == (topic, partition, PartitionKind.NORMAL)


@given(_TOPICS, _PARTITIONS, st.sampled_from(["delete", "stray"]))
def test_marked_names_truncate_the_topic_as_a_broker_does(topic: str, partition: int, kind: str) -> None:
    suffix = f"-{partition}.{UID}-{kind}"
    left = topic[: 255 - len(suffix)]  # UnifiedLog.logDeleteDirName
    parsed = parse_partition_name(left + suffix)
    if is_legal_topic(left):
        assert parsed is not None
        assert (parsed.topic, parsed.partition, parsed.kind) == (left, partition, kind)
