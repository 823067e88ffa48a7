"""Decide whether a topic's logs may be compacted or deleted from.

A broker knows the configuration of each topic. A log directory may not contain it. The decisions combine
what the log directory contains (`TopicFacts`) with what the user asks for (`Request`). They are pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from native_log.arguments import topic_names
from native_log.config import InvalidConfigError, LogConfig, configured_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

PolicySource = Literal["topic", "broker", "default", "cleaner", "internal"]

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

    @property
    def layers(self) -> tuple[Mapping[str, str], ...]:
        """The stored configurations that apply to the topic. Later ones override earlier ones."""
        return () if self.stored is None else (self.broker or {}, self.stored)

    def settings(self) -> LogConfig:
        """Return the stored settings, with Kafka's defaults. Raises InvalidConfigError."""
        settings = LogConfig()
        for layer in self.layers:
            settings = settings.with_overrides(layer)
        return settings

    def is_remote(self) -> bool:
        """Return whether the topic has remote storage (remote.storage.enable)."""
        return self.stored is not None and self.stored.get("remote.storage.enable", "").lower() == "true"


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for.

    Attributes:
        config: settings by Kafka's names.
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
        """The cleanup.policy that the user sets; None if the user sets none."""
        return _policy_in(self.config)


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """A topic's cleanup.policy as far as the log directory shows it, and the source of that knowledge.

    Attributes:
        values: a subset of compact and delete; None if the policy is unknown.
        source: where the policy comes from; None if it is unknown. "topic" or "broker": the stored
            configuration of the topic or the broker. "default": the metadata contains the topic without a
            policy, so Kafka's default applies (unless the broker's server.properties has another one).
            "cleaner": cleaner-offset-checkpoint. "internal": the topic is internal to Kafka and its policy is
            not stored; `values` is then empty.
    """

    values: frozenset[str] | None
    source: PolicySource | None

    @property
    def is_stored(self) -> bool:
        """Whether the policy is in a stored configuration, rather than inferred."""
        return self.source in ("topic", "broker")

    def __str__(self) -> str:
        return policy_text(self.values or frozenset())


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
    """

    config: LogConfig
    exemption: Exemption | None = None
    is_explicit: bool = False


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """A topic's settings for compaction.

    Attributes:
        config: the settings. cleanup_policy contains delete only if old segments may be deleted too.
        skipped: why the topic is not compacted; None: it is compacted.
        note: which part of the request is not carried out; None: all of it is.
    """

    config: LogConfig
    skipped: str | None = None
    note: str | None = None


def policy_text(policy: frozenset[str]) -> str:
    """Return the policy in the form of the setting: `compact,delete`."""
    return ",".join(sorted(policy)) or "empty"


def cleanup_policy(facts: TopicFacts) -> CleanupPolicy:
    """Return the topic's policy. A stored policy takes precedence over the sign in cleaner-offset-checkpoint.

    Raises InvalidConfigError for an unknown stored policy.
    """
    if facts.stored is not None:
        broker = _policy_in(facts.broker or {})
        stored = _policy_in(facts.stored)
        if stored is not None:
            return CleanupPolicy(stored, "topic")
        if broker is not None:
            return CleanupPolicy(broker, "broker")
    if facts.was_compacted:
        return CleanupPolicy(frozenset({"compact"}), "cleaner")
    if facts.is_internal:
        return CleanupPolicy(frozenset(), "internal")
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


def retention_policy(topic: str, facts: TopicFacts, request: Request) -> RetentionPolicy:
    """Decide whether segments of a topic may be deleted by size and time, and by which settings.

    The user's settings override stored ones. There is one exception: the policy of a compacted topic is only
    overridden if the user names the topic. Kafka's default of retention.ms applies only if the user sets the
    policy, because the broker's default may be in its server.properties, which is not in a log directory.
    """
    try:
        known, settings = cleanup_policy(facts), _settings(facts, request)
    except InvalidConfigError as error:
        return _exempt(LogConfig(), POLICY, f"its stored configuration is invalid: {error}; {OVERRIDE}")
    asked = request.policy
    if asked is not None and "delete" not in asked:
        rule = COMPACTED if "compact" in asked else POLICY
        return _exempt(settings, rule, f"the cleanup.policy given is {policy_text(asked)}")
    if asked is None or not request.names(topic):
        if facts.is_remote():
            reason = "only a broker deletes segments of a topic with remote storage, local ones included"
            return _exempt(settings, REMOTE, f"{reason}; {OVERRIDE}")
        if known.values is not None and "delete" not in known.values:
            rule = COMPACTED if "compact" in known.values else POLICY
            return _exempt(settings, rule, f"{_evidence(known)}; {OVERRIDE}")
        if facts.unreadable is not None:
            return _exempt(settings, POLICY, f"{facts.unreadable}; {OVERRIDE}")
    if asked is None and _fields_set(facts, request).isdisjoint(("retention_ms", "retention_bytes")):
        reason = "its retention is not stored here" if facts.stored is not None else _not_stored(facts)
        return _exempt(settings, POLICY, f"{reason}; set retention.ms or retention.bytes")
    is_explicit = asked is not None and request.names(topic)
    return RetentionPolicy(replace(settings, cleanup_policy=frozenset({"delete"})), is_explicit=is_explicit)


def compaction_policy(topic: str, facts: TopicFacts, request: Request) -> CompactionPolicy:
    """Decide whether a topic is compacted, by which settings, and whether its old segments are deleted too.

    A topic is compacted if the user names it, if its known policy contains compact, or if its policy is
    unknown and the user sets one that contains compact. Its old segments are deleted afterwards if its stored
    policy also contains delete, or if the user names the topic and sets such a policy.
    """
    asked, is_named = request.policy, request.names(topic)
    try:
        known, settings = cleanup_policy(facts), _settings(facts, request)
    except InvalidConfigError as error:
        return CompactionPolicy(LogConfig(), f"its stored configuration is invalid: {error}")
    stored = (known.values or frozenset()) if known.is_stored else frozenset()
    is_unknown = known.values is None and facts.unreadable is None
    is_explicit = is_named or (is_unknown and "compact" in (asked or ()))
    if not is_explicit and "compact" not in (known.values or ()):
        reason = _not_stored(facts) if known.values is None else f"its cleanup.policy is {known}"
        reason = facts.unreadable or reason
        return CompactionPolicy(settings, f"{reason}; to compact it anyway, name the topic")
    may_delete = {"compact", "delete"} <= stored or (is_named and "delete" in (asked or ()))
    wants_delete = "delete" in (stored if asked is None else asked)
    note = None
    if asked is not None and wants_delete and not may_delete:
        note = "old segments are kept; to delete them too, name the topic"
    policy = frozenset({"compact", "delete"} if may_delete and wants_delete else {"compact"})
    return CompactionPolicy(replace(settings, cleanup_policy=policy), None, note)


def _settings(facts: TopicFacts, request: Request) -> LogConfig:
    settings = facts.settings().with_overrides(request.config)
    if request.policy is None and "retention_ms" not in _fields_set(facts, request):
        return replace(settings, retention_ms=-1)
    return settings


def _fields_set(facts: TopicFacts, request: Request) -> frozenset[str]:
    """Return the attributes of LogConfig that the user or a stored configuration sets."""
    return configured_fields(request.config).union(*map(configured_fields, facts.layers))


def _policy_in(config: Mapping[str, object]) -> frozenset[str] | None:
    if "cleanup_policy" not in configured_fields(config):
        return None
    names = ("cleanup.policy", "log.cleanup.policy")
    return LogConfig().with_overrides({name: config[name] for name in names if name in config}).cleanup_policy


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
    if known.source == "broker":
        return f"the broker's stored log.cleanup.policy is {known}"
    return f"its stored cleanup.policy is {known}"


def _exempt(settings: LogConfig, rule: str, reason: str) -> RetentionPolicy:
    return RetentionPolicy(replace(settings, cleanup_policy=frozenset()), Exemption(rule, reason))
