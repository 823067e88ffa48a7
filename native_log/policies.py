"""What may be done to a topic's logs: is its cleanup.policy known to ask for compaction or deletion?

A broker knows the configuration of each topic; a log directory may not hold it. These decisions are pure:
`TopicFacts` is what the directory holds, `Request` what the user asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from native_log.arguments import topic_names
from native_log.config import InvalidConfigError, LogConfig, configured_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

PolicySource = Literal["topic", "broker", "default", "cleaner", "internal"]

COMPACTED, POLICY, REMOTE = "compacted", "cleanup.policy", "remote.storage.enable"
"""Why retention keeps a whole log: the topic is compacted; nothing known asks for deletion; the topic's older
segments are in remote storage."""

OVERRIDE = "to delete from it anyway, name the topic and set cleanup.policy=delete"


@dataclass(frozen=True, slots=True, eq=False)
class TopicFacts:
    """What a log directory holds about the configuration of a topic.

    Attributes:
        stored: the topic's configuration in the cluster metadata; None if the metadata does not have the
            topic, or is not there.
        broker: the broker's dynamic configuration in the cluster metadata, which provides defaults; None if
            the metadata is not there. (The defaults in its server.properties are not stored in a log
            directory.)
        was_compacted: cleaner-offset-checkpoint has an entry for one of the topic's partitions.
        is_internal: Kafka keeps this topic for itself.
        unreadable: why the cluster metadata cannot be read; None if it can, or is not there.
    """

    stored: Mapping[str, str] | None = None
    broker: Mapping[str, str] | None = None
    was_compacted: bool = False
    is_internal: bool = False
    unreadable: str | None = None

    @property
    def layers(self) -> tuple[Mapping[str, str], ...]:
        """The stored configurations that apply to the topic; later ones override earlier ones."""
        return () if self.stored is None else (self.broker or {}, self.stored)

    def settings(self) -> LogConfig:
        """Return the stored settings, with Kafka's defaults. Raises InvalidConfigError."""
        settings = LogConfig()
        for layer in self.layers:
            settings = settings.with_overrides(layer)
        return settings

    def is_remote(self) -> bool:
        return self.stored is not None and self.stored.get("remote.storage.enable", "").lower() == "true"


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for.

    Attributes:
        config: settings by Kafka's names.
        topics: the topics that the user named; None: none, the request is about all topics.
    """

    config: Mapping[str, object]
    topics: frozenset[str] | None = None

    @classmethod
    def of(cls, topics: str | Iterable[str] | None, config: Mapping[str, object] | None) -> Self:
        """Raise InvalidConfigError for settings that are not valid."""
        LogConfig.parse(config or {})
        return cls(config or {}, None if topics is None else frozenset(topic_names(topics)))

    def names(self, topic: str) -> bool:
        return self.topics is not None and topic in self.topics

    @property
    def policy(self) -> frozenset[str] | None:
        """The cleanup.policy that the user gives, if any."""
        return _policy_in(self.config)


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """A topic's policy as far as the directory tells, and what tells it.

    Attributes:
        values: subset of compact, delete; None if nothing tells.
        source: "topic" and "broker": the stored configuration of the topic or the broker; "default": the
            metadata has the topic but no policy, so it is Kafka's default (unless server.properties says
            otherwise); "cleaner": cleaner-offset-checkpoint; "internal": one of Kafka's own topics, whose
            stored policy is missing, so that nothing asks for compaction or deletion.
    """

    values: frozenset[str] | None
    source: PolicySource | None

    @property
    def is_stored(self) -> bool:
        return self.source in ("topic", "broker")

    def __str__(self) -> str:
        return policy_text(self.values or frozenset())


@dataclass(frozen=True, slots=True)
class Exemption:
    """Why retention by size and time does not apply to a topic: a rule, and the reason in words."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """A topic's settings for retention.

    Attributes:
        exemption: why only data below the log start offset is deleted; None: `config` says.
        is_explicit: the user names the topic and gives its policy.
    """

    config: LogConfig
    exemption: Exemption | None = None
    is_explicit: bool = False


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """A topic's settings for compaction; its cleanup_policy contains delete only if that may be done too.

    Attributes:
        skipped: why the topic is not compacted; None: it is.
        note: what the user asks for and does not get; None: nothing.
    """

    config: LogConfig
    skipped: str | None = None
    note: str | None = None


def policy_text(policy: frozenset[str]) -> str:
    """Return the policy as it is written in a setting: `compact,delete`."""
    return ",".join(sorted(policy)) or "empty"


def cleanup_policy(facts: TopicFacts) -> CleanupPolicy:
    """Return the topic's policy. An explicitly stored one decides; a cleaner's checkpoint is only a sign.

    Raises InvalidConfigError for a stored policy that is not known.
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


def describe_policy(facts: TopicFacts) -> tuple[str | None, PolicySource | None]:
    """Return the topic's policy in words, and its source; None: nothing tells, or it is not understood."""
    try:
        known = cleanup_policy(facts)
    except InvalidConfigError:
        return None, None
    return (None if known.values is None or known.source == "internal" else str(known)), known.source


def retention_policy(topic: str, facts: TopicFacts, request: Request) -> RetentionPolicy:
    """Decide whether segments of a topic may be deleted by size and time, and by which settings.

    The user's settings override stored ones, but for the policy of a topic that is compacted: this takes a
    request that names the topic. Kafka's default of retention.ms applies only where the user gives the
    policy: the broker's own default may be in its server.properties, which is not here.
    """
    try:
        known, settings = cleanup_policy(facts), _settings(facts, request)
    except InvalidConfigError as error:
        return _kept(LogConfig(), POLICY, f"its stored configuration is not understood: {error}; {OVERRIDE}")
    asked = request.policy
    if asked is not None and "delete" not in asked:
        return _kept(settings, COMPACTED if "compact" in asked else POLICY,
                     f"the cleanup.policy given is {policy_text(asked)}")  # fmt: skip
    if asked is None or not request.names(topic):
        if facts.is_remote():
            return _kept(settings, REMOTE, "only a broker deletes segments of a topic with remote storage, "
                         f"here and there alike; {OVERRIDE}")  # fmt: skip
        if known.values is not None and "delete" not in known.values:
            rule = COMPACTED if "compact" in known.values else POLICY
            return _kept(settings, rule, f"{_sign(known)}; {OVERRIDE}")
        if facts.unreadable is not None:
            return _kept(settings, POLICY, f"{facts.unreadable}; {OVERRIDE}")
    if asked is None and _given(facts, request).isdisjoint(("retention_ms", "retention_bytes")):
        why = "its retention is not stored here" if facts.stored is not None else _not_stored(facts)
        return _kept(settings, POLICY, f"{why}; set retention.ms or retention.bytes")
    is_explicit = asked is not None and request.names(topic)
    return RetentionPolicy(replace(settings, cleanup_policy=frozenset({"delete"})), is_explicit=is_explicit)


def compaction_policy(topic: str, facts: TopicFacts, request: Request) -> CompactionPolicy:
    """Decide whether a topic is compacted, by which settings, and whether old segments are deleted after.

    It is compacted if the user names it, if its policy is known to contain compact, or if nothing is known of
    its policy and the user gives one with compact. Old segments are deleted if the policy is known to contain
    delete too, or the user names the topic and gives such a policy.
    """
    asked, is_named = request.policy, request.names(topic)
    try:
        known, settings = cleanup_policy(facts), _settings(facts, request)
    except InvalidConfigError as error:
        return CompactionPolicy(LogConfig(), f"its stored configuration is not understood: {error}")
    stored = (known.values or frozenset()) if known.is_stored else frozenset()
    is_unknown = known.values is None and facts.unreadable is None
    is_explicit = is_named or (is_unknown and "compact" in (asked or ()))
    if not is_explicit and "compact" not in (known.values or ()):
        why = _not_stored(facts) if known.values is None else f"its cleanup.policy is {known}"
        why = facts.unreadable or why
        return CompactionPolicy(settings, f"{why}; to compact it anyway, name the topic")
    may_delete = {"compact", "delete"} <= stored or (is_named and "delete" in (asked or ()))
    wants_delete = "delete" in (stored if asked is None else asked)
    note = None
    if asked is not None and wants_delete and not may_delete:
        note = "old segments are kept; to delete them too, name the topic"
    policy = frozenset({"compact", "delete"} if may_delete and wants_delete else {"compact"})
    return CompactionPolicy(replace(settings, cleanup_policy=policy), None, note)


def _settings(facts: TopicFacts, request: Request) -> LogConfig:
    settings = facts.settings().with_overrides(request.config)
    if request.policy is None and "retention_ms" not in _given(facts, request):
        return replace(settings, retention_ms=-1)
    return settings


def _given(facts: TopicFacts, request: Request) -> frozenset[str]:
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
            "directory, or ZooKeeper had it)"
        )
    return "its configuration is not stored here (the cluster's metadata does not have the topic)"


def _sign(known: CleanupPolicy) -> str:
    if known.source == "cleaner":
        return "a cleaner has compacted the topic (cleaner-offset-checkpoint)"
    if known.source == "internal":
        return "Kafka keeps this topic for itself"
    if known.source == "broker":
        return f"the broker's stored log.cleanup.policy is {known}"
    return f"its stored cleanup.policy is {known}"


def _kept(settings: LogConfig, rule: str, reason: str) -> RetentionPolicy:
    return RetentionPolicy(replace(settings, cleanup_policy=frozenset()), Exemption(rule, reason))
