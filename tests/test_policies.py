"""Which topics may be compacted or deleted from: a table of all cases."""

from __future__ import annotations

from typing import Any

import pytest

from native_log.config import InvalidConfigError
from native_log.policies import (
    CompactionPolicy,
    Request,
    RetentionPolicy,
    TopicFacts,
    cleanup_policy,
    compaction_policy,
    retention_policy,
)

DELETE, COMPACT, BOTH = ({"cleanup.policy": p} for p in ("delete", "compact", "compact,delete"))
AGE = {"retention.ms": "5"}
HOUR = {"log.retention.hours": "1"}
BROKER_DELETE, BROKER_COMPACT = ({"log.cleanup.policy": p} for p in ("delete", "compact"))
OLD_DIRECTORY = TopicFacts()
CLEANED = TopicFacts(was_compacted=True)
INTERNAL = TopicFacts(is_internal=True)
UNREADABLE = TopicFacts(unreadable="it is damaged")


def stored(config: dict[str, str], **facts: Any) -> TopicFacts:
    return TopicFacts(stored=config, **facts)


def retained(facts: TopicFacts, config: dict[str, str], *, named: bool) -> str | int:
    """Return the rule that keeps the whole log, or else retention.ms."""
    policy = retention_policy("t", facts, Request.of("t" if named else None, config))
    assert (policy.exemption is None) == ("delete" in policy.config.cleanup_policy)
    return policy.config.retention_ms if policy.exemption is None else policy.exemption.rule


WEEK = 7 * 86_400_000
POLICY = "cleanup.policy"


@pytest.mark.parametrize(
    ("facts", "config", "unnamed", "named"),
    [
        # Nothing is stored: segments are deleted only if retention settings or the policy are given.
        (OLD_DIRECTORY, {}, POLICY, POLICY),
        (OLD_DIRECTORY, AGE, 5, 5),
        (OLD_DIRECTORY, {"retention.bytes": "5"}, -1, -1),
        (OLD_DIRECTORY, DELETE, WEEK, WEEK),
        (OLD_DIRECTORY, {"log.cleanup.policy": "delete"}, WEEK, WEEK),
        (OLD_DIRECTORY, COMPACT | AGE, "compacted", "compacted"),
        (OLD_DIRECTORY, BOTH | AGE, 5, 5),
        (OLD_DIRECTORY, {"cleanup.policy": ""} | AGE, POLICY, POLICY),
        # The topic is compacted, by any sign: segments are deleted only if it is named and the policy given.
        (CLEANED, {}, "compacted", "compacted"),
        (CLEANED, AGE, "compacted", "compacted"),
        (CLEANED, DELETE | AGE, "compacted", 5),
        (CLEANED, BOTH | AGE, "compacted", 5),
        (CLEANED, COMPACT | AGE, "compacted", "compacted"),
        (INTERNAL, AGE, POLICY, POLICY),
        (INTERNAL, DELETE | AGE, POLICY, 5),
        (stored(COMPACT), AGE, "compacted", "compacted"),
        (stored(COMPACT | AGE), {}, "compacted", "compacted"),
        (stored(COMPACT | AGE), DELETE, "compacted", 5),
        (stored({}, was_compacted=True), AGE, "compacted", "compacted"),
        (stored(AGE, broker={"log.cleanup.policy": "compact"}), {}, "compacted", "compacted"),
        # The stored policy contains delete: the stored retention applies, unless one is given.
        (stored(DELETE | AGE), {}, 5, 5),
        (stored(BOTH | AGE), {}, 5, 5),
        (stored(BOTH | AGE, was_compacted=True), {}, 5, 5),
        # A broker's name gives a default for what is not stored.
        (stored(DELETE | AGE), HOUR, 5, 5),
        (stored({"retention.ms": "-1"}), HOUR, -1, -1),
        (stored({}), HOUR, 3_600_000, 3_600_000),
        (stored({}, broker={"log.retention.ms": "7"}), HOUR, 7, 7),
        (stored({}), HOUR | AGE, 5, 5),
        (stored({}), HOUR | {"log.retention.minutes": "1", "log.retention.ms": "9"}, 9, 9),
        (stored({}), HOUR | {"log.retention.minutes": "1"}, 60_000, 60_000),
        (stored({}, broker={"retention.ms": "7"}), {}, POLICY, POLICY),  # no broker has such a setting
        (OLD_DIRECTORY, HOUR, 3_600_000, 3_600_000),
        (TopicFacts(broker={"log.retention.ms": "-1"}), HOUR, POLICY, POLICY),
        (CLEANED, BROKER_DELETE | AGE, "compacted", "compacted"),
        (INTERNAL, BROKER_DELETE | AGE, POLICY, POLICY),
        (UNREADABLE, BROKER_DELETE | AGE, POLICY, POLICY),
        (stored(COMPACT), BROKER_DELETE | AGE, "compacted", "compacted"),
        (stored({}, broker={"log.cleanup.policy": "compact"}), BROKER_DELETE | AGE, *["compacted"] * 2),
        (stored(DELETE | AGE), BROKER_COMPACT, 5, 5),
        (stored(AGE), BROKER_COMPACT, "compacted", "compacted"),
        (OLD_DIRECTORY, BROKER_COMPACT | AGE, "compacted", "compacted"),
        (stored({}), BROKER_DELETE, WEEK, WEEK),
        (stored(DELETE), BROKER_DELETE, POLICY, POLICY),
        (stored({}), BROKER_COMPACT | DELETE | AGE, "compacted", 5),
        (stored(DELETE | AGE), COMPACT, "compacted", "compacted"),
        (stored(DELETE), {}, POLICY, POLICY),  # its retention may be in server.properties
        (stored(DELETE), DELETE, WEEK, WEEK),
        (stored(DELETE | {"retention.bytes": "5"}), {}, -1, -1),
        (stored(DELETE, broker={"log.retention.ms": "7"}), {}, 7, 7),
        (stored(DELETE | AGE, broker={"log.retention.ms": "7"}), {}, 5, 5),
        (stored(DELETE | AGE, broker={"log.cleanup.policy": "compact"}), {}, 5, 5),
        (stored(AGE), {}, 5, 5),  # Kafka's default policy
        (stored({}), {}, POLICY, POLICY),
        (stored({"cleanup.policy": ""} | AGE), {}, POLICY, POLICY),
        # The topic has remote storage.
        (stored(DELETE | AGE | {"remote.storage.enable": "true"}), {}, *["remote.storage.enable"] * 2),
        (stored(DELETE | {"remote.storage.enable": "true"}), DELETE | AGE, "remote.storage.enable", 5),
        # The stored configuration is unreadable or invalid.
        (UNREADABLE, AGE, POLICY, POLICY),
        (UNREADABLE, DELETE | AGE, POLICY, 5),
        (stored({"cleanup.policy": "archive"}), DELETE | AGE, POLICY, POLICY),
        (stored({"retention.ms": "soon"}), {}, POLICY, POLICY),
    ],
)
def test_retention(facts: TopicFacts, config: dict[str, str], unnamed: str | int, named: str | int) -> None:
    assert retained(facts, config, named=False) == unnamed
    assert retained(facts, config, named=True) == named


def compacted(facts: TopicFacts, config: dict[str, str], *, named: bool) -> str:
    """Return "skipped", "compact" or "compact,delete"; with "!" if there is a note."""
    policy = compaction_policy("t", facts, Request.of("t" if named else None, config))
    if policy.skipped is not None:
        return "skipped"
    return ",".join(sorted(policy.config.cleanup_policy)) + "!" * (policy.note is not None)


@pytest.mark.parametrize(
    ("facts", "config", "unnamed", "named"),
    [
        (OLD_DIRECTORY, {}, "skipped", "compact"),
        (OLD_DIRECTORY, COMPACT, "compact", "compact"),
        (OLD_DIRECTORY, BOTH, "compact!", "compact,delete"),
        (OLD_DIRECTORY, DELETE, "skipped", "compact,delete"),
        (UNREADABLE, COMPACT, "skipped", "compact"),
        (INTERNAL, {}, "skipped", "compact"),
        (INTERNAL, COMPACT, "skipped", "compact"),
        (CLEANED, {}, "compact", "compact"),
        (CLEANED, BOTH, "compact!", "compact,delete"),
        (stored(DELETE), {}, "skipped", "compact"),
        (stored(DELETE), COMPACT, "skipped", "compact"),
        (stored(DELETE, was_compacted=True), {}, "skipped", "compact"),
        (stored({}), {}, "skipped", "compact"),
        (stored({}, was_compacted=True), {}, "compact", "compact"),
        (stored({}, broker={"log.cleanup.policy": "compact"}), {}, "compact", "compact"),
        (stored(COMPACT), {}, "compact", "compact"),
        (stored(COMPACT), BOTH, "compact!", "compact,delete"),
        (stored(BOTH), {}, "compact,delete", "compact,delete"),
        (stored(BOTH), COMPACT, "compact", "compact"),
        (stored({"cleanup.policy": "archive"}), {}, "skipped", "skipped"),
        # A broker's name gives a default for what is not stored.
        (OLD_DIRECTORY, BROKER_COMPACT, "compact", "compact"),
        (UNREADABLE, BROKER_COMPACT, "skipped", "compact"),
        (stored({}), BROKER_COMPACT, "compact", "compact"),
        (stored({}), {"log.cleanup.policy": "compact,delete"}, "compact!", "compact,delete"),
        (stored({}), BROKER_DELETE, "skipped", "compact"),
        (stored(DELETE), BROKER_COMPACT, "skipped", "compact"),
        (stored(BOTH), BROKER_COMPACT, "compact,delete", "compact,delete"),
        (stored(COMPACT), BROKER_DELETE, "compact", "compact"),
    ],
)
def test_compaction(facts: TopicFacts, config: dict[str, str], unnamed: str, named: str) -> None:
    assert compacted(facts, config, named=False) == unnamed
    assert compacted(facts, config, named=True) == named


def test_the_settings_of_a_compaction_come_from_all_sources() -> None:
    facts = stored(
        COMPACT | {"min.cleanable.dirty.ratio": "0.1", "segment.bytes": "9000"},
        broker={"log.segment.bytes": "7000", "log.cleaner.delete.retention.ms": "3"},
    )
    config = {"log.cleaner.min.cleanable.ratio": "0.2", "min.compaction.lag.ms": "4"}
    effective = compaction_policy("t", facts, Request.of(None, config)).config
    assert (effective.min_cleanable_dirty_ratio, effective.segment_bytes) == (0.1, 9000)
    assert (effective.delete_retention_ms, effective.min_compaction_lag_ms) == (3, 4)


def shown(policy: RetentionPolicy | CompactionPolicy) -> list[str]:
    return [str(setting) for setting in policy.settings]


def test_retention_reports_where_its_settings_come_from() -> None:
    def of(facts: TopicFacts, config: dict[str, str], topics: str | None = None) -> list[str]:
        return shown(retention_policy("t", facts, Request.of(topics, config)))

    facts = stored({"retention.ms": "-1"}, broker={"log.retention.bytes": "9"})
    default = "cleanup.policy=delete (default)"
    assert of(facts, HOUR) == [
        default,
        "retention.ms=-1 (stored for topic)",
        "retention.bytes=9 (stored for broker)",
    ]
    assert of(facts, AGE | {"retention.bytes": "9"}) == [
        default,
        "retention.ms=5 (given, overrides -1)",
        "retention.bytes=9 (given)",
    ]
    assert of(stored({}), HOUR) == [
        default,
        "retention.ms=3600000 (given for broker)",
        "retention.bytes (unknown)",
    ]
    assert of(stored(COMPACT), DELETE | AGE)[0] == "cleanup.policy=compact (stored for topic)"
    assert of(stored(COMPACT), DELETE | AGE, "t") == [
        "cleanup.policy=delete (given, overrides compact)",
        "retention.ms=5 (given)",
        "retention.bytes=-1 (default)",
    ]
    assert of(stored({}), BROKER_DELETE)[0] == "cleanup.policy=delete (given for broker)"
    assert of(CLEANED, {})[0] == "cleanup.policy=compact (cleaner)"
    assert of(INTERNAL, {})[0] == "cleanup.policy (internal)"
    assert of(OLD_DIRECTORY, {})[:2] == ["cleanup.policy (unknown)", "retention.ms (unknown)"]
    assert of(stored({"remote.storage.enable": "true"}), {})[-1] == (
        "remote.storage.enable=true (stored for topic)"
    )


def test_compaction_reports_where_its_settings_come_from() -> None:
    def of(facts: TopicFacts, config: dict[str, str], topics: str | None = None) -> list[str]:
        return shown(compaction_policy("t", facts, Request.of(topics, config)))

    facts = stored(BOTH | {"delete.retention.ms": "3"}, broker={"log.segment.bytes": "7000"})
    config = {"min.cleanable.dirty.ratio": "0", "log.cleaner.delete.retention.ms": "4"}
    assert of(facts, config) == [
        "cleanup.policy=compact,delete (stored for topic)",
        "min.cleanable.dirty.ratio=0.0 (given)",
        "min.compaction.lag.ms=0 (default)",
        "max.compaction.lag.ms=9223372036854775807 (default)",
        "delete.retention.ms=3 (stored for topic)",
        "segment.bytes=7000 (stored for broker)",
        "retention.ms (unknown)",
        "retention.bytes (unknown)",
    ]
    assert of(stored(DELETE), {}) == ["cleanup.policy=delete (stored for topic)"]  # skipped
    assert of(stored(DELETE), {}, "t")[0] == "cleanup.policy=delete (stored for topic)"
    assert of(stored(BOTH), COMPACT)[0] == "cleanup.policy=compact (given, overrides compact,delete)"
    assert of(stored(COMPACT), BOTH)[0] == "cleanup.policy=compact (stored for topic)"  # t is not named
    assert of(stored(COMPACT), BOTH, "t")[0] == "cleanup.policy=compact,delete (given, overrides compact)"
    assert of(OLD_DIRECTORY, COMPACT)[0] == "cleanup.policy=compact (given)"
    assert of(stored({}), BROKER_COMPACT)[0] == "cleanup.policy=compact (given for broker)"


@pytest.mark.parametrize(
    ("facts", "policy", "source"),
    [
        (OLD_DIRECTORY, None, None),
        (CLEANED, {"compact"}, "cleaner"),
        (INTERNAL, set(), "internal"),
        (stored({}), {"delete"}, "default"),
        (stored({}, broker={"log.cleanup.policy": "compact"}), {"compact"}, "broker"),
        (stored(BOTH, was_compacted=True), {"compact", "delete"}, "topic"),
    ],
)
def test_the_source_of_a_policy(facts: TopicFacts, policy: set[str] | None, source: str | None) -> None:
    resolved = cleanup_policy(facts)
    assert (resolved.values, resolved.source) == (policy, source)


def test_invalid_settings_are_rejected_at_once() -> None:
    with pytest.raises(InvalidConfigError, match=r"retention\.ms"):
        Request.of(None, {"retention.ms": "soon"})
