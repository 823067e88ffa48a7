"""Which topics may be compacted or deleted from: a table of all cases."""

from __future__ import annotations

from typing import Any

import pytest

from native_log.config import InvalidConfigError
from native_log.policies import (
    Request,
    TopicFacts,
    cleanup_policy,
    compaction_policy,
    retention_policy,
)

DELETE, COMPACT, BOTH = ({"cleanup.policy": p} for p in ("delete", "compact", "compact,delete"))
AGE = {"retention.ms": "5"}
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
        (stored(DELETE | AGE), {"log.retention.hours": "1"}, 3_600_000, 3_600_000),
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
    ],
)
def test_compaction(facts: TopicFacts, config: dict[str, str], unnamed: str, named: str) -> None:
    assert compacted(facts, config, named=False) == unnamed
    assert compacted(facts, config, named=True) == named


def test_given_settings_override_stored_ones_of_any_name() -> None:
    facts = stored(
        COMPACT | {"min.cleanable.dirty.ratio": "0.1", "segment.bytes": "9000"},
        broker={"log.segment.bytes": "7000", "log.cleaner.delete.retention.ms": "3"},
    )
    config = {"log.cleaner.min.cleanable.ratio": "0.2"}
    effective = compaction_policy("t", facts, Request.of(None, config)).config
    assert (effective.min_cleanable_dirty_ratio, effective.segment_bytes, effective.delete_retention_ms) == (
        0.2,
        9000,
        3,
    )


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
