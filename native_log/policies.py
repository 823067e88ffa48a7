"""Decide whether a topic's logs may be compacted or deleted from.

A broker knows the configuration of each topic. A log directory may not contain it. The decisions combine
what the log directory contains (`TopicFacts`) with what the user asks for (`Request`). They are pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from native_log.arguments import topic_names
from native_log.config import (
    InvalidConfigError,
    LogConfig,
    given_broker_fields,
    stored_broker_fields,
    topic_fields,
)
from native_log.effective_config import AppliedSetting, EffectiveConfig, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

PolicySource = Literal["topic", "broker", "given", "default", "cleaner", "internal"]

COMPACTED, POLICY, REMOTE = "compacted", "cleanup.policy", "remote.storage.enable"
"""Why retention keeps a whole log: the topic is compacted; no known policy contains delete; the topic has
remote storage, from which only a broker deletes."""

OVERRIDE = "to delete from it anyway, name the topic and set cleanup.policy=delete"


@dataclass(frozen=True, slots=True, eq=False)
class TopicFacts:
    """What a log directory contains about the configuration of a topic.

    Attributes:
        stored: the topic's configuration in the cluster metadata; None if there is no metadata, or the
            metadata does not contain the topic.
        broker: the broker's dynamic configuration in the cluster metadata, which provides defaults; None if
            there is no metadata. (The defaults in a broker's server.properties are not stored in a log
            directory.)
        was_compacted: cleaner-offset-checkpoint has an entry for one of the topic's partitions.
        is_internal: the topic is internal to Kafka.
        unreadable: why the cluster metadata cannot be read; None if it was read, or does not exist.
    """

    stored: Mapping[str, str] | None = None
    broker: Mapping[str, str] | None = None
    was_compacted: bool = False
    is_internal: bool = False
    unreadable: str | None = None

    def settings(self, *given: Mapping[str, object]) -> EffectiveConfig:
        """Return the topic's settings: stored ones, given ones, and Kafka's defaults.

        Args:
            given: settings by Kafka's names; each mapping overrides those before it. Only those by a topic's
                own name override stored ones.

        Raises InvalidConfigError.
        """
        return EffectiveConfig.combine(given, self.stored, self.broker)

    def is_remote(self) -> bool:
        """Return whether the topic has remote storage (remote.storage.enable)."""
        return self.stored is not None and self.stored.get("remote.storage.enable", "").lower() == "true"


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for.

    Attributes:
        config: settings by Kafka's names. Those by a topic's own name override stored ones; those by a
            broker's name are defaults for what is not stored.
        topics: the topics that the user named; None: the user named no topic and means all.
    """

    config: Mapping[str, object]
    topics: frozenset[str] | None = None

    @classmethod
    def of(cls, topics: str | Iterable[str] | None, config: Mapping[str, object] | None) -> Self:
        """Return a request with checked arguments. Raises InvalidConfigError for invalid settings."""
        LogConfig.parse(config or {})
        return cls(config or {}, None if topics is None else frozenset(topic_names(topics)))

    def names(self, topic: str) -> bool:
        """Return whether the user named this topic."""
        return self.topics is not None and topic in self.topics

    @property
    def policy(self) -> frozenset[str] | None:
        """The cleanup.policy that the user sets for topics; None if the user sets none."""
        return topic_fields(self.config).get("cleanup_policy")

    @property
    def default_policy(self) -> frozenset[str] | None:
        """The log.cleanup.policy that the user gives as the broker's default; None if the user gives none."""
        return given_broker_fields(self.config).get("cleanup_policy")


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """A topic's cleanup.policy as far as the log directory shows it, and the source of that knowledge.

    Attributes:
        values: a subset of compact and delete; None if the policy is unknown.
        source: where the policy comes from; None if it is unknown. "topic" or "broker": the stored
            configuration of the topic or the broker. "given": the log.cleanup.policy that the user gives as
            the broker's default. "default": the metadata contains the topic without a policy, so Kafka's
            default applies (unless the broker's server.properties has another one). "cleaner":
            cleaner-offset-checkpoint. "internal": the topic is internal to Kafka and its policy is not
            stored; `values` is then empty.
    """

    values: frozenset[str] | None
    source: PolicySource | None

    @property
    def is_stored(self) -> bool:
        """Whether the policy is in a stored configuration, rather than inferred."""
        return self.source in ("topic", "broker")

    def applied(self) -> AppliedSetting:
        """Return the policy as a setting for a report."""
        is_unknown = self.values is None or self.source == "internal"
        source = Source.UNKNOWN if self.source is None else _POLICY_SOURCES[self.source]
        return AppliedSetting("cleanup.policy", None if is_unknown else str(self), source)

    def overridden_by(self, given: frozenset[str]) -> AppliedSetting:
        """Return the policy that the user gives for this topic as a setting for a report."""
        overrides = str(self) if self.is_stored and self.values != given else None
        return AppliedSetting("cleanup.policy", policy_text(given), Source.GIVEN, overrides)

    def __str__(self) -> str:
        return policy_text(self.values or frozenset())


_POLICY_SOURCES: dict[PolicySource, Source] = {
    "topic": Source.TOPIC,
    "broker": Source.BROKER,
    "given": Source.GIVEN_FOR_BROKER,
    "default": Source.DEFAULT,
    "cleaner": Source.CLEANER,
    "internal": Source.INTERNAL,
}


@dataclass(frozen=True, slots=True)
class Exemption:
    """Why retention by size and time does not apply to a topic.

    Attributes:
        rule: COMPACTED, POLICY or REMOTE.
        reason: the reason in words.
    """

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """A topic's settings for retention.

    Attributes:
        config: the settings. cleanup_policy is {"delete"}, or empty with an exemption.
        exemption: why only data below the log start offset is deleted; None: `config` applies.
        is_explicit: the user named the topic and set its policy.
        settings: the settings that decided, for the report.
    """

    config: LogConfig
    exemption: Exemption | None = None
    is_explicit: bool = False
    settings: tuple[AppliedSetting, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """A topic's settings for compaction.

    Attributes:
        config: the settings. cleanup_policy contains delete only if old segments may be deleted too.
        skipped: why the topic is not compacted; None: it is compacted.
        note: which part of the request is not carried out; None: all of it is.
        settings: the settings that decided, for the report.
    """

    config: LogConfig
    skipped: str | None = None
    note: str | None = None
    settings: tuple[AppliedSetting, ...] = ()


def policy_text(policy: frozenset[str]) -> str:
    """Return the policy in the form of the setting: `compact,delete`."""
    return ",".join(sorted(policy)) or "empty"


def cleanup_policy(facts: TopicFacts, default: frozenset[str] | None = None) -> CleanupPolicy:
    """Return the topic's policy. A stored policy takes precedence over the sign in cleaner-offset-checkpoint.

    Args:
        default: the log.cleanup.policy that the user gives as the broker's default. It applies if nothing
            else shows the topic's policy and the metadata is not unreadable.

    Raises InvalidConfigError for an unknown stored policy.
    """
    if facts.stored is not None:
        stored = topic_fields(facts.stored).get("cleanup_policy")
        if stored is not None:
            return CleanupPolicy(stored, "topic")
        broker = stored_broker_fields(facts.broker or {}).get("cleanup_policy")
        if broker is not None:
            return CleanupPolicy(broker, "broker")
    if facts.was_compacted:
        return CleanupPolicy(frozenset({"compact"}), "cleaner")
    if facts.is_internal:
        return CleanupPolicy(frozenset(), "internal")
    if default is not None and facts.unreadable is None:
        return CleanupPolicy(default, "given")
    if facts.stored is not None:
        return CleanupPolicy(frozenset({"delete"}), "default")
    return CleanupPolicy(None, None)


class Gaps(StrEnum):
    """Whether compaction explains offsets without records."""

    COMPACTED = "compacted"  # the topic is compacted
    UNKNOWN = "unknown"  # the topic may be compacted
    UNEXPLAINED = "unexplained"  # the topic is not compacted


def explain_gaps(facts: TopicFacts) -> Gaps:
    """Return whether compaction explains gaps in the logs of a topic.

    The checkpoint of the cleaner alone cannot show that a gap has another reason: a follower copies a log
    that its leader has compacted.
    """
    try:
        values = cleanup_policy(facts).values
    except InvalidConfigError:
        return Gaps.UNKNOWN
    if facts.was_compacted or facts.is_internal or "compact" in (values or ()):
        return Gaps.COMPACTED
    return Gaps.UNKNOWN if values is None else Gaps.UNEXPLAINED


def describe_policy(facts: TopicFacts) -> tuple[str | None, PolicySource | None]:
    """Return the topic's policy in words, and its source; (None, None) if it is unknown or invalid."""
    try:
        known = cleanup_policy(facts)
    except InvalidConfigError:
        return None, None
    return (None if known.values is None or known.source == "internal" else str(known)), known.source


@dataclass(frozen=True, slots=True)
class _Limits:
    """A topic's settings with those limits of retention that may be applied.

    Attributes:
        effective: the settings from all sources.
        config: these settings, without the limits that are unknown.
        applied: retention.ms and retention.bytes, for the report.
        are_known: whether one of the two is known.
    """

    effective: EffectiveConfig
    config: LogConfig
    applied: tuple[AppliedSetting, ...]
    are_known: bool

    @classmethod
    def of(cls, facts: TopicFacts, request: Request, policy: CleanupPolicy) -> Self:
        """Return the settings of a topic.

        A limit is known if it is given, or stored for the topic; also if it is stored for the broker and the
        metadata contains the topic. If the policy is given, a missing limit is Kafka's default.

        Raises InvalidConfigError.
        """
        effective = facts.settings(request.config)
        sources = {Source.GIVEN, Source.TOPIC, Source.GIVEN_FOR_BROKER}
        if facts.stored is not None:
            sources.add(Source.BROKER)
        is_policy_given = request.policy is not None or policy.source == "given"
        unknown = [
            attribute
            for attribute in ("retention_ms", "retention_bytes")
            if not (is_policy_given or effective.source(attribute) in sources)
        ]
        applied = tuple(
            AppliedSetting(attribute.replace("_", "."), None, Source.UNKNOWN)
            if attribute in unknown
            else effective.applied(attribute)
            for attribute in ("retention_ms", "retention_bytes")
        )
        no_limits: dict[str, Any] = dict.fromkeys(unknown, -1)
        config = replace(effective.config, **no_limits)
        return cls(effective, config, applied, len(unknown) < len(applied))


def retention_policy(topic: str, facts: TopicFacts, request: Request) -> RetentionPolicy:
    """Decide whether segments of a topic may be deleted by size and time, and by which settings.

    Settings that the user gives by a topic's own name override stored ones. There is one exception: the
    policy of a compacted topic is only overridden if the user names the topic. Kafka's default of
    retention.ms applies only if the user gives the policy, because the broker's default may be in its
    server.properties, which is not in a log directory.
    """
    try:
        known = cleanup_policy(facts, request.default_policy)
        limits = _Limits.of(facts, request, known)
    except InvalidConfigError as error:
        reason = f"its stored configuration is invalid: {error}; {OVERRIDE}"
        return RetentionPolicy(LogConfig(cleanup_policy=frozenset()), Exemption(POLICY, reason))
    asked = request.policy
    exemption = _exemption(topic, facts, request, known)
    is_overridden = asked is not None and (exemption is None or "delete" not in asked)
    policy = known.overridden_by(asked) if asked is not None and is_overridden else known.applied()
    settings = (policy, *limits.applied)
    if exemption is not None and exemption.rule == REMOTE:
        settings += (AppliedSetting(REMOTE, "true", Source.TOPIC),)
    if exemption is None and not limits.are_known:
        reason = "its retention is not stored here" if facts.stored is not None else _not_stored(facts)
        exemption = Exemption(POLICY, f"{reason}; set retention.ms or retention.bytes")
    values = frozenset({"delete"}) if exemption is None else frozenset[str]()
    is_explicit = asked is not None and request.names(topic)
    return RetentionPolicy(replace(limits.config, cleanup_policy=values), exemption, is_explicit, settings)


def _exemption(topic: str, facts: TopicFacts, request: Request, known: CleanupPolicy) -> Exemption | None:
    """Return why the policy, as far as it is known, keeps segments of a topic; None if it does not."""
    asked = request.policy
    if asked is not None and "delete" not in asked:
        rule = COMPACTED if "compact" in asked else POLICY
        return Exemption(rule, f"the cleanup.policy given is {policy_text(asked)}")
    if asked is not None and request.names(topic):
        return None
    if facts.is_remote():
        reason = "only a broker deletes segments of a topic with remote storage, local ones included"
        return Exemption(REMOTE, f"{reason}; {OVERRIDE}")
    if known.values is not None and "delete" not in known.values:
        rule = COMPACTED if "compact" in known.values else POLICY
        return Exemption(rule, f"{_evidence(known)}; {OVERRIDE}")
    if facts.unreadable is not None:
        return Exemption(POLICY, f"{facts.unreadable}; {OVERRIDE}")
    return None


_COMPACTION_ATTRIBUTES = (
    *("min_cleanable_dirty_ratio", "min_compaction_lag_ms", "max_compaction_lag_ms"),
    *("delete_retention_ms", "segment_bytes"),
)
"""Settings that decide what a compaction does, in the order of the report."""


def compaction_policy(topic: str, facts: TopicFacts, request: Request) -> CompactionPolicy:
    """Decide whether a topic is compacted, by which settings, and whether its old segments are deleted too.

    A topic is compacted if the user names it, if its known policy contains compact, or if its policy is
    unknown and the user sets one that contains compact. Its old segments are deleted afterwards if its stored
    policy also contains delete, or if the user names the topic and gives such a policy.
    """
    asked, is_named = request.policy, request.names(topic)
    try:
        known = cleanup_policy(facts, request.default_policy)
        limits = _Limits.of(facts, request, known)
    except InvalidConfigError as error:
        return CompactionPolicy(LogConfig(), f"its stored configuration is invalid: {error}")
    values = known.values or frozenset()
    is_unknown = known.values is None and facts.unreadable is None
    is_explicit = is_named or (is_unknown and "compact" in (asked or ()))
    if not is_explicit and "compact" not in values:
        reason = _not_stored(facts) if known.values is None else f"its cleanup.policy is {known}"
        reason = facts.unreadable or reason
        skipped = f"{reason}; to compact it anyway, name the topic"
        return CompactionPolicy(limits.config, skipped, settings=(known.applied(),))
    stored = values if known.is_stored else frozenset[str]()
    given = values if asked is None and known.source == "given" and "compact" in values else asked
    may_delete = {"compact", "delete"} <= stored or (is_named and "delete" in (given or ()))
    wants_delete = "delete" in (stored if given is None else given)
    note = None
    if given is not None and wants_delete and not may_delete:
        note = "old segments are kept; to delete them too, name the topic"
    policy = frozenset({"compact", "delete"} if may_delete and wants_delete else {"compact"})
    is_known = asked is None or policy == stored
    settings = (
        known.applied() if is_known else known.overridden_by(policy),
        *map(limits.effective.applied, _COMPACTION_ATTRIBUTES),
        *(limits.applied if "delete" in policy else ()),
    )
    return CompactionPolicy(replace(limits.config, cleanup_policy=policy), None, note, settings)


def _not_stored(facts: TopicFacts) -> str:
    if facts.broker is None:
        return (
            "its configuration is not stored here (no __cluster_metadata-0: the broker keeps it in another "
            "directory, or the cluster used ZooKeeper)"
        )
    return "its configuration is not stored here (the cluster metadata does not contain the topic)"


def _evidence(known: CleanupPolicy) -> str:
    if known.source == "cleaner":
        return "the topic has been compacted (cleaner-offset-checkpoint)"
    if known.source == "internal":
        return "the topic is internal to Kafka"
    if known.source == "given":
        return f"the log.cleanup.policy given is {known}"
    if known.source == "broker":
        return f"the broker's stored log.cleanup.policy is {known}"
    return f"its stored cleanup.policy is {known}"
