"""LogDir: the partitions in one or several log directories."""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from native_log.arguments import HighWatermark, PathLike, Replicas, integer, text
from native_log.checkpoints.names import PartitionKind
from native_log.checkpoints.partition_metadata import read_topic_id
from native_log.config import LogConfig
from native_log.errors import EmptyLogDirError, KafkaLogError, TopicExistsError
from native_log.log.live.log_follower import DEFAULT_POLL_INTERVAL_MS, LogFollower
from native_log.log.reading.columns import record_schema
from native_log.log.reading.options import with_parsed_filter
from native_log.logdir.broker_checks import partition_problems, root_problems
from native_log.logdir.catalog import Catalog, PartitionCandidates, PartitionKey, copies_among
from native_log.logdir.create import (
    assign_log_dirs,
    check_topic,
    check_uuid,
    create_log_dir,
    create_partitions,
    random_uuid,
)
from native_log.logdir.directory_state import DirectoryState
from native_log.logdir.discovery import PartitionDir, find_all_partitions, local_paths, readable_paths
from native_log.logdir.followed_logdir import FollowedLogDir
from native_log.logdir.internal_tables import InternalTables
from native_log.logdir.known_topics import KnownTopics
from native_log.logdir.live_logdir import LiveLogDir
from native_log.logdir.moved_partitions import broker_high_watermarks
from native_log.logdir.options import LogDirOptions
from native_log.logdir.partition_logs import PartitionLogs
from native_log.logdir.remote_starts import RemoteStarts
from native_log.logdir.remote_storage import RemoteStorage
from native_log.logdir.scan import plan_scan
from native_log.logdir.selection import PartitionSelection, filter_partitions, internal_topics
from native_log.logdir.wildcards import expand_wildcards
from native_log.prefetch import look_up_together, map_together
from native_log.records import DEFAULT_MAX_BATCH_BYTES, RECORD_SCHEMA
from native_log.storage import Storages
from native_log.workers import waiting_readers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    import pyarrow as pa

    from native_log.arguments import IsolationLevel
    from native_log.checkpoints.meta_properties import MetaProperties
    from native_log.log import PartitionCheckpoints, PartitionLog
    from native_log.log.problems import Problem
    from native_log.log.reading.log_scan import LogScan
    from native_log.log.reading.options import ReadArguments
    from native_log.log.tiers.detection import RemoteLayout
    from native_log.log.unbounded_range import UnboundedRange
    from native_log.logdir.position import Position
    from native_log.policies import Gaps, TopicFacts
    from native_log.storage import Storage, StorageOptions, StorageOptionsLike

logger = logging.getLogger(__name__)

Key = TypeVar("Key", bound=PartitionKey)


class LogDir(InternalTables):
    """The partitions in one or several log directories. Each partition occurs once.

    The directories are listed once, when the object is created. Create a new object to see later changes.
    Logs are opened by `partition()` only.

    - A `-future` directory (a partition that moves to another log directory) is read only by its own path.
    - If a partition has several directories, `replicas` says what is read.
    - Files that are not Kafka's are ignored. Directories that are not Kafka's are skipped with a warning.

    Args:
        path, more_paths: log directories or single partition directories, as strings or paths, or one list of
            them. `file:/p` means /p, and `~` means the home directory. For a single partition directory, the
            checkpoints in its parent directory apply. URLs (`s3://bucket/cluster1`) can be read, but not
            changed. Wildcards stand for the directories that match now: see expand_wildcards.
        include_deleted: also read `-delete` and `-stray` directories, under the topic in their name (which is
            truncated if it is long). They have no checkpointed offsets.
        high_watermark: where logs end. "auto": at the checkpointed high watermark while a broker holds the
            lock of the directory (up to 5 seconds older than the broker's own), else at the log end offset,
            as after a restart of the broker. "checkpoint": always at the checkpointed high watermark, if any.
            "ignore": always at the log end offset.
        max_batch_bytes: a batch that claims more bytes, or decompresses to more, counts as damaged.
        allow_empty: raise no error if there is no partition to read, so that topics can be created.
        replicas: what is read if several directories contain the same partition. "longest": the one with the
            greatest log end offset, with a warning. "merge": all of them, as one log: see `partition`.
        storage_options: credentials and other settings for paths that are URLs, by the names that Polars and
            delta-rs use: {"aws_region": "eu-west-1"}. Without credentials, those of the environment are used.
        storage: has the paths; by default the local file system, or the object store of the URL.
        remote: the folder of remote storage (KIP-405). Logs that have segments there are read as one log, and
            cannot be changed. `path` may then be None: the partitions in remote storage are read.
        remote_layout: how objects are named there. "local": as by Apache's LocalTieredStorage; "pinterest":
            as by Pinterest's uploader; "aiven": as by Aiven's plugin; "auto": as they seem to be.
        remote_prefix: the `key.prefix` of Aiven's plugin. It need not end with a slash.
        remote_keys: the folder with the private keys of segments that Aiven's plugin has encrypted, as
            `<key id>.private.pem`.
        remote_metadata: log directories with the topic __remote_log_metadata, which tells what segments can
            be read; by default the paths.

    Raises:
        FileNotFoundError, PermissionError: a path does not exist, or must not be read; no directory matches
            its wildcards.
        NotALogDirError: a path is neither a log directory nor a partition directory.
        EmptyLogDirError: none of the log directories contains a partition to read.
        ValueError: an unknown high_watermark or replicas.
        TypeError: a path is not a str or os.PathLike.
    """

    def __init__(
        self,
        path: PathLike | Iterable[PathLike] | None = None,
        *more_paths: PathLike,
        include_deleted: bool = False,
        high_watermark: HighWatermark = "auto",
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        allow_empty: bool = False,
        replicas: Replicas = "longest",
        storage_options: StorageOptionsLike = None,
        storage: Storage | None = None,
        remote: PathLike | None = None,
        remote_layout: RemoteLayout = "auto",
        remote_prefix: str = "",
        remote_keys: PathLike | None = None,
        remote_metadata: PathLike | Iterable[PathLike] | None = None,
    ) -> None:
        remote_storage = RemoteStorage.parse(
            remote, remote_layout, remote_prefix, remote_keys, remote_metadata
        )
        storages = Storages(storage_options, storage)
        self._options = LogDirOptions(
            include_deleted=include_deleted,
            high_watermark=high_watermark,
            max_batch_bytes=max_batch_bytes,
            replicas=replicas,
            storages=storages,
            remote=remote_storage,
        )
        self._is_remote_alone = path is None
        self.paths = expand_wildcards(_paths(path, more_paths, remote_storage), storages)
        self._are_paths_local = storages.are_local(self.paths)
        given = () if self._is_remote_alone else self.paths
        discoveries = find_all_partitions(given, storages)
        log_dirs = list(dict.fromkeys(discovery.log_dir for discovery in discoveries))
        remote_starts = RemoteStarts(map(storages.folder, log_dirs), discoveries)
        remote_logs = None
        if remote_storage is not None:
            remote_logs = remote_storage.find_logs(list(map(storages.folder, log_dirs)), storages.options)
            if self._is_remote_alone:
                discoveries = remote_logs.discover()
                log_dirs = list(dict.fromkeys(discovery.log_dir for discovery in discoveries))
        self._remote = remote_logs
        # Before any log is opened: see DirectoryState.read.
        states = list(
            map_together(
                lambda path: DirectoryState.read(path, remote_starts, storages.folder(path).storage),
                log_dirs,
                are_local=storages.are_local(log_dirs),
            )
        )
        known = broker_high_watermarks(states, discoveries)
        self._directories = {
            state.path: replace(state, broker_high_watermarks=known.get(state.path, {})) for state in states
        }
        found = PartitionCandidates.of(discoveries, self._directories, include_deleted=include_deleted)
        if not found.candidates and not allow_empty:
            raise EmptyLogDirError(found.empty_message, path=", ".join(map(str, self.paths)))
        self._warn_of_several_clusters()
        self._known_topics = KnownTopics(self._directories)
        self._logs = PartitionLogs(
            self._options,
            self._directories,
            self._known_topics,
            remote_logs,
            is_remote_alone=self._is_remote_alone,
        )
        self._copies: dict[PartitionKey, list[PartitionDir]] = {}
        if self._options.is_merging:
            candidates = found.candidates
            self._copies = {key: copies_among(candidates[key]) for key in sorted(candidates)}
            partitions = {key: copies[0] for key, copies in self._copies.items()}
        else:
            partitions = found.choose(self._logs.try_to_open, are_local=storages.are_local(log_dirs))
        self._catalog = Catalog(self.paths, found, partitions)

    @classmethod
    def create(
        cls,
        path: PathLike | Iterable[PathLike],
        *more_paths: PathLike,
        cluster_id: str | None = None,
        node_id: int | None = None,
    ) -> LogDir:
        """Create one or several log directories of one broker, as kafka-storage format does.

        Args:
            path, more_paths: the log directories, as for LogDir.
            cluster_id: 22 characters of base64url; by default a new id. A broker loads a directory only if
                the directory has the broker's own cluster and node id.
            node_id: the broker's node id; by default 1.

        Raises:
            FileExistsError: a path exists and is not an empty directory.
            ValueError: the cluster id or node id is invalid.
        """
        paths = local_paths(path, more_paths)
        cluster = random_uuid() if cluster_id is None else text("cluster_id", cluster_id)
        node = 1 if node_id is None else integer("node_id", node_id)
        for location in paths:
            create_log_dir(location, cluster, node)
        return cls(paths, allow_empty=True)

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        topic_id: str | None = None,
        config: Mapping[str, object] | None = None,
    ) -> list[PartitionDir]:
        """Create an empty topic. Each partition is placed in the log directory with the fewest partitions.

        Args:
            topic: the name of the topic.
            partitions: the number of partitions.
            topic_id: 22 characters of base64url; by default a new id. A KRaft broker serves a topic only if
                the cluster metadata contains it with the same id.
            config: settings of the topic, by Kafka's names; see LogConfig. They apply to records that are
                written through this object. They cannot be stored in a log directory, so a warning says that
                later writers must give them again: see `partition`.

        Returns:
            The new partition directories.

        Raises:
            TopicExistsError, InvalidTopicError, InvalidConfigError, ValueError.
            LogDirInUseError: a broker or another process uses a log directory.
            OSError: writing failed; nothing is left of the topic.
        """
        self._check_local("changed")
        partitions = integer("partitions", partitions)
        check_topic(text("topic", topic), partitions)
        uuid = random_uuid() if topic_id is None else check_uuid(topic_id)
        settings = LogConfig.parse(config or {})
        existing = self.topics().get(topic)
        if existing is not None:
            raise TopicExistsError(
                f"expected no topic {topic}, found one with {len(existing)} partitions",
                path=", ".join(map(str, self.paths)),
            )
        paths = create_partitions(assign_log_dirs(list(self._directories), partitions), topic, uuid, settings)
        created = [PartitionDir(topic, i, path, PartitionKind.NORMAL) for i, path in enumerate(paths)]
        read = {**self._catalog.partitions, **{directory.key: directory for directory in created}}
        self._catalog = replace(self._catalog, partitions=dict(sorted(read.items())))
        if config:
            self._logs.configure(topic, config)
            logger.warning(
                "%s: the configuration of the new topic %s is not stored, and applies only to writes by this "
                "LogDir; pass it to LogDir.partition later, and set it in the broker's cluster",
                ", ".join(map(str, self.paths)),
                topic,
            )
        return created

    def close(self) -> None:
        """Close all logs that were opened by this object and appended to (see PartitionLog.close)."""
        self._logs.close()

    def __enter__(self) -> LogDir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LogDir({', '.join(repr(str(path)) for path in self.paths)})"

    @property
    def storage_options(self) -> StorageOptions:
        """The settings for paths that are URLs."""
        return self._options.storages.options

    @property
    def directories(self) -> tuple[DirectoryState, ...]:
        """The states of the log directories, in the order given."""
        return tuple(self._directories.values())

    @property
    def meta_properties(self) -> MetaProperties:
        """meta.properties of the first log directory that has the file.

        Raises FileNotFoundError if none has it, as in a copy of partitions alone.
        """
        for state in self.directories:
            if state.meta_properties is not None:
                return state.meta_properties
        raise FileNotFoundError(
            errno.ENOENT,
            "expected a readable meta.properties, found none: these are not complete log directories",
            ", ".join(str(state.path) for state in self.directories),
        )

    def topics(self) -> dict[str, list[int]]:
        """Return the partitions of each topic, internal topics included, sorted."""
        return self._catalog.topics()

    def partitions(self) -> list[PartitionDir]:
        """Return the partition directories that are read, sorted by topic and partition."""
        return list(self._catalog.partitions.values())

    @property
    def is_local(self) -> bool:
        """Whether all files are on local disks. Segments in remote storage count as being elsewhere."""
        return self._are_paths_local and self._remote is None

    def waiting_readers(self, directories: Iterable[PartitionDir]) -> int | None:
        """Return how many threads should read whole logs at a time, because they wait for a bucket.

        Args:
            directories: the partitions to read, which are listed if they are at URLs.

        Returns:
            None if all files are on local disks.
        """
        return None if self.is_local else waiting_readers(self._logs.sizes(directories))

    @property
    def ignored(self) -> tuple[PartitionDir, ...]:
        """The `-delete`, `-stray` and `-future` directories that are not read."""
        return self._catalog.found.ignored

    def partition(
        self, topic: str, partition: int, *, config: Mapping[str, object] | None = None
    ) -> PartitionLog:
        """Open the log of one partition.

        With replicas="merge", several copies of the partition are read as one log, which cannot be appended
        to or followed. The copy with the highest leader epoch, and among several the longest one, leads.
        Other copies count up to the offset where their leader epochs differ (KIP-101, KIP-279). They supply
        batches that are damaged in the leading copy, and earlier records that it no longer has. Damage is
        found when the records are read.

        Args:
            topic, partition: the partition.
            config: settings for appending, by Kafka's names: {"segment.bytes": 1048576}. See LogConfig. They
                override the settings with which this object created the topic. Those override the settings in
                the cluster metadata (see `topic_configs`), which is read at the first append. Settings by a
                broker's name (log.segment.bytes) are defaults for what is neither given nor stored.

        Raises:
            UnknownTopicOrPartitionError; InvalidConfigError; TypeError.
            FileNotFoundError: the partition was removed or moved since this object was created.
            KafkaLogError: with replicas="merge", copies have different topic ids.
        """
        text("topic", topic)
        partition = integer("partition", partition)
        return self._logs.open_log(self.copies(topic, partition), config)

    def open_logs(self, keys: Iterable[Key]) -> dict[Key, PartitionLog]:
        """Open the logs of several partitions, by (topic, partition). Raises as `partition`."""
        wanted = list(keys)
        logs = self._logs.open_logs([self.copies(*key) for key in wanted])
        return dict(zip(wanted, logs, strict=True))

    def openers(self, keys: Iterable[Key]) -> Iterator[Callable[[], PartitionLog]]:
        """Yield a function for each of several partitions that opens its log. It raises as `partition`.

        While the caller works on a log, a thread lists the directories of the next ones.
        """
        return self._logs.openers([self.copies(*key) for key in keys])

    def unbounded_ranges(self, keys: Iterable[Key]) -> dict[Key, UnboundedRange] | None:
        """Return the records of whole logs at URLs. Their folders are listed, and no segment is read.

        Args:
            keys: the partitions. The result keeps their order, and leaves out those without bytes.

        Returns:
            None if one of the logs is not at a URL, has several copies or remote segments, or is limited by
            its checkpoints. Such logs must be opened to find their ranges.

        Raises: as `partition`.
        """
        wanted = list(keys)
        ranges = self._logs.unbounded_ranges(self._chosen(key) for key in wanted)
        return None if ranges is None else {key: ranges[key] for key in wanted if key in ranges}

    def _chosen(self, key: PartitionKey) -> PartitionDir:
        """Return the directory that is read for a partition. Raises UnknownTopicOrPartitionError."""
        try:
            return self._catalog.partitions[key]
        except KeyError:
            raise self._catalog.unknown(*key) from None

    def scan(
        self,
        topics: str | Iterable[str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        exclude_topics: str | Iterable[str] = (),
        partitions: int | Iterable[int | range] | None = None,
        start: Position = None,
        end: Position = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        threads: int | None = None,
        key_partitions: int | Mapping[str, int] | None = None,
        **options: Unpack[ReadArguments],
    ) -> LogScan:
        """Return the records of many partitions as a source that can be read more than once.

        Partitions are read one after the other, each in the order of offsets, by several threads. Offsets are
        resolved now, not when the source is read.

        Args:
            topics: the topics to read; None: all except internal ones, unless a path is one of their
                partition directories.
            columns: names in RECORD_SCHEMA, in any order, and `_corrupt_record`; by default the whole schema.
                Only these columns are decoded.
            exclude_topics: topics to leave out, even if `topics` contains them.
            partitions: the numbers of the partitions to read, of each topic; None: all.
            start: where to begin. An int is an offset, a datetime a time: begin at the first record with at
                least this timestamp. Or one of them by (topic, partition); other partitions begin at their
                first record.
            end: where to stop, exclusive, in the same forms.
            isolation_level: "read_uncommitted" or "read_committed".
            threads: how many threads decode records; by default one for each core.
            key_partitions: how many partitions the topics have whose records have the partition that Kafka's
                default partitioner chooses for their key; one number, or one by topic. With a filter of keys,
                only the partitions that it chooses for them are read.
            options: see LogRange.read. `filter` selects records, `mode` says what to do about damaged bytes.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic, or no partition with such a number.
            CorruptRecordError: damaged bytes may have contained the record at a time.
            ValueError, TypeError: an argument is invalid.
        """
        selection = PartitionSelection.of(
            topics,
            exclude_topics,
            only_by_name=internal_topics(self.partitions(), self.paths),
            numbers=partitions,
        )
        selected = filter_partitions(
            self.partitions(), selection, ignored=self.ignored, paths=self.paths, required=True
        )
        keys = [directory.key for directory in selected]
        return plan_scan(
            keys,
            self.open_logs,
            columns,
            start,
            end,
            isolation_level,
            threads,
            key_partitions,
            options,
            are_local=self.is_local,
        )

    def read(
        self,
        topic: str,
        columns: Sequence[str] | None = None,
        **arguments: Any,
    ) -> pa.RecordBatchReader:
        """Read the records of one topic as record batches: `scan(topic, columns, ...).to_reader()`.

        Args:
            topic: the topic.
            columns, arguments: see `scan`.

        Raises: as `scan`; and while batches are read, as LogRange.read.
        """
        return self.scan(text("topic", topic), columns, **arguments).to_reader()

    def copies(self, topic: str, partition: int) -> list[PartitionDir]:
        """Return the directories that contain a partition; with replicas="longest", the one that is read.

        Raises UnknownTopicOrPartitionError.
        """
        chosen = self._chosen((topic, partition))
        return self._copies.get(chosen.key) or [chosen]

    def all_copies(self, partitions: Iterable[PartitionDir]) -> list[PartitionDir]:
        """Return all directories that contain the given partitions, also those that are not read.

        These are the copies of a partition and, with `include_deleted`, its `-delete` and `-stray`
        directories. Open them with `open_copy`.
        """
        return [
            directory
            for partition in partitions
            for directory in self._catalog.found.all_of(partition.key) or [partition]
        ]

    def lag_end_offset(self, log: PartitionLog) -> int:
        """Return the offset up to which (exclusive) the lag of groups in a log is counted.

        This is the high watermark, as in kafka-consumer-groups: the checkpointed one, at most the offset at
        which the log ends. If no high watermark is checkpointed, or with high_watermark="ignore", it is the
        end of the log.
        """
        end, saved = log.high_watermark, log.checkpointed_high_watermark
        if saved is None or self._options.high_watermark == "ignore":
            return end
        return max(log.local_log_start_offset, min(saved, end))

    def explain_gaps(self, topic: str, partition: int) -> Gaps:
        """Return whether compaction explains offsets that no batch of a partition's copies has."""
        return self._logs.explain_gaps(self.copies(topic, partition))

    def open_copy(self, directory: PartitionDir) -> PartitionLog:
        """Open the log in one of `copies` or `all_copies`, with its remote segments.

        Raises KafkaLogError, OSError.
        """
        return self._logs.open_log([directory])

    def reopen_copy(self, directory: PartitionDir) -> PartitionLog:
        """Open the log as `open_copy`, after looking whether a broker or a writer has begun to change it.

        Raises KafkaLogError, OSError.
        """
        self._logs.look_for_writers(directory)
        return self.open_copy(directory)

    def remote_problems(self, directory: PartitionDir) -> Iterator[Problem]:
        """Yield where objects in remote storage and its metadata contradict each other."""
        if self._remote is not None and self._remote.has(directory):
            yield from self._remote.problems(directory, read_topic_id(directory.folder))

    def checkpoints(self, directory: PartitionDir) -> PartitionCheckpoints:
        """Return the checkpoints of one of `partitions()`. No file is opened."""
        return self._logs.checkpoints(directory)

    def follow(
        self,
        topics: str | Iterable[str] | Callable[[str, int], bool] | None = None,
        start_offsets: Mapping[tuple[str, int], int] | None = None,
        columns: Sequence[str] | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
        *,
        timeout_ms: int | None = None,
        poll_interval_ms: int = DEFAULT_POLL_INTERVAL_MS,
        **options: Unpack[ReadArguments],
    ) -> LogFollower:
        """Read records of several partitions as they arrive: see PartitionLog.follow.

        A batch has records of one partition, in the order of offsets. Partitions and topics that appear later
        are read from their first record on.

        Args:
            topics: the topics to follow; None: all except internal ones, unless a path is one of their
                partition directories. Or a function that is called with topic and partition, and returns
                whether to follow it.
            start_offsets: where to begin, by (topic, partition). Other partitions that exist now begin at
                their current ends.
            columns, isolation_level, timeout_ms, poll_interval_ms, options: see PartitionLog.follow.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic or partition now; or, during the iteration, a
                partition was removed (with `fail_on_data_loss`).
            OffsetOutOfRangeError, LogTruncatedError, CorruptRecordError, ValueError, TypeError: see
                PartitionLog.follow.
            KafkaLogError: copies have different topic ids.
        """
        live = self._live()
        if callable(topics):
            select = topics
        else:
            only_by_name = internal_topics(live.partitions(), live.paths)
            selection = PartitionSelection.of(topics, only_by_name=only_by_name)
            selection.check_topics(live.topics(), self.ignored, self.paths)
            select = selection.includes
        starts = {
            (text("start_offsets", topic), integer("start_offsets", number)): integer("start_offsets", offset)
            for (topic, number), offset in (start_offsets or {}).items()
        }
        names = list(RECORD_SCHEMA.names if columns is None else columns)
        record_schema(names)
        arguments = with_parsed_filter(options)
        logs = FollowedLogDir(live, select, starts, isolation_level, arguments)
        return LogFollower(logs, names, timeout_ms=timeout_ms, poll_interval_ms=poll_interval_ms)

    def _check_local(self, change: str) -> None:
        """Raise KafkaLogError if the paths are not on a local disk, and so cannot be changed."""
        if not self._are_paths_local:
            raise KafkaLogError(
                f"expected a directory, found one that is not on a local disk: it can be read, but not "
                f"{change}; copy the directory to a disk",
                path=", ".join(map(str, self.paths)),
            )

    def _live(self) -> LiveLogDir:
        if self._is_remote_alone:
            raise KafkaLogError(
                "expected log directories to follow, found remote storage alone: new records are in log "
                "directories first",
                path=", ".join(map(str, self.paths)),
            )
        return LiveLogDir(self.paths, self._options)

    def topic_facts(self, directory: PartitionDir) -> TopicFacts:
        """Return what is known about the topic configuration of one of `partitions()`."""
        return self._known_topics.facts(directory)

    @property
    def topic_configs(self) -> dict[str, dict[str, str]]:
        """The topic configurations in the cluster metadata, by topic and setting, without defaults.

        Topics that are not in the metadata are missing. If there is no metadata (`__cluster_metadata-0`), the
        result is empty. This is so in directories of ZooKeeper clusters, and if the broker's
        `metadata.log.dir` is another directory; then open both: `LogDir(path, metadata_path)`.

        Raises KafkaLogError if the metadata cannot be read.
        """
        configs = {}
        known = look_up_together(self.topic_facts, self.partitions(), are_local=self._are_paths_local)
        for directory, facts in known.items():
            if facts.unreadable is not None:
                raise KafkaLogError(facts.unreadable, path=directory.path)
            if facts.stored is not None:
                configs[directory.topic] = dict(facts.stored)
        return configs

    def root_problems(self) -> Iterator[Problem]:
        """Yield what a broker would reject in the roots of the log directories."""
        yield from root_problems(self._directories, self._catalog.found)

    def file_problems(self, directory: PartitionDir) -> Iterator[Problem]:
        """Yield what a broker would reject among the checkpoint and metadata files of a partition."""
        is_live = self._directories[directory.path.parent].lock_holder is not None
        yield from partition_problems(directory, self._known_topics.topic_id(directory), is_live=is_live)

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of topics: those in the cluster metadata, and those in the partition directories.

        A topic without an id, as before Kafka 2.8, is missing.
        """
        directories: dict[str, list[PartitionDir]] = {}
        for directory in self.partitions():
            directories.setdefault(directory.topic, []).append(directory)

        def find(topic: str) -> str | None:
            ids = (read_topic_id(directory.folder) for directory in directories[topic])
            return next((topic_id for topic_id in ids if topic_id is not None), None)

        found = look_up_together(find, directories, are_local=self._are_paths_local)
        ids = {topic: topic_id for topic, topic_id in found.items() if topic_id is not None}
        return {**self._known_topics.topic_ids(), **ids}

    def _warn_of_several_clusters(self) -> None:
        properties = [state.meta_properties for state in self.directories if state.meta_properties]
        clusters = {known.cluster_id for known in properties if known.cluster_id}
        if len(clusters) > 1:
            logger.warning(
                "the log directories belong to several clusters (%s): partitions with the same name are "
                "treated as copies",
                ", ".join(sorted(clusters)),
            )


def _paths(
    path: PathLike | Iterable[PathLike] | None, more_paths: Iterable[PathLike], remote: RemoteStorage | None
) -> tuple[Path, ...]:
    """Return the paths that are read. Raises as readable_paths."""
    if path is not None:
        return readable_paths(path, more_paths)
    if remote is None:
        raise TypeError(
            "path: expected a str or os.PathLike, or an iterable of them, found None; it may be None with "
            "`remote` only"
        )
    return (remote.path,)
