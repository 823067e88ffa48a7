"""A stream reads every committed record once, while segments move to remote storage and are deleted there."""

from __future__ import annotations

import shutil
import tempfile
from base64 import urlsafe_b64encode
from itertools import count, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from native_log import LogDir
from native_log.checkpoints.offset_checkpoints import LOG_START_OFFSET_CHECKPOINT, write_offset_checkpoint
from native_log.segment.files import file_name
from tests.builders.batches import ABORT, COMMIT, T0, marker
from tests.effort import examples

from .query_life import CONFIG, QueryLife
from .read_limits import needs_read_limits

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = ("t", 0)
PRODUCER = 1


class TieredStreamLife(QueryLife):
    """Random changes of a log with remote storage, before and within the micro-batches of a query."""

    @initialize(limits=st.sampled_from([{}, {"maxOffsetsPerTrigger": "3"}, {"maxBytesPerTrigger": "500"}]))
    def begin(self, limits: dict[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path, self.tier = self.folder / "logs", self.folder / "tier"
        with LogDir.create(self.path) as log_dir:
            log_dir.create_topic("t", 1)
            topic_id = log_dir.partition(*KEY).topic_id
        self.directory = self.path / "t-0"
        self.objects = self.tier / "kafka-tiered-storage" / f"t-0-{topic_id}"
        self.objects.mkdir(parents=True)
        options = {
            "path": str(self.path),
            "remote": str(self.tier),
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
            "kafka.isolation.level": "read_committed",
            "offsetStateLocation": str(self.folder / "state"),
            **limits,
        }
        self.values: dict[int, bytes] = {}
        self.open: list[int] = []
        self.aborted: set[bytes] = set()
        self.start = 0
        self.uploaded: list[tuple[int, int]] = []
        self.sequence = 0
        self.unused = (b"%d" % number for number in count())
        for _ in range(10):
            self.append(3, is_transactional=False)
        self.upload()
        self.delete_local()
        self.start_query(options)

    def teardown(self) -> None:
        if not hasattr(self, "query"):
            return
        self.end_transaction(is_committed=True)
        self.write_start()
        self.read_rest()
        shutil.rmtree(self.folder)
        expected = {value for offset, value in self.values.items() if offset >= self.start} - self.aborted
        assert not self.repeated()
        assert expected <= self.seen.keys()
        assert not self.aborted & self.seen.keys()

    def local_segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self.directory.glob("*.log"))

    # What happens to the log.

    @rule(number=st.integers(1, 6), is_transactional=st.booleans())
    def append(self, number: int, is_transactional: bool) -> None:
        values = list(islice(self.unused, number))
        records = pa.record_batch({"value": values})
        with LogDir(self.path) as log_dir:
            log = log_dir.partition(*KEY, config=CONFIG)
            if is_transactional:
                first = log.append(
                    records,
                    producer_id=PRODUCER,
                    producer_epoch=0,
                    base_sequence=self.sequence,
                    is_transactional=True,
                )
            else:
                first = log.append(records)
        offsets = range(first, first + number)
        self.values |= dict(zip(offsets, values, strict=True))
        if is_transactional:
            self.sequence += number
            self.open += offsets

    @rule(is_committed=st.booleans())
    def end_transaction(self, is_committed: bool) -> None:
        if self.open:
            batch = marker(0, PRODUCER, COMMIT if is_committed else ABORT, timestamp=T0)
            with LogDir(self.path) as log_dir:
                log = log_dir.partition(*KEY, config=CONFIG)
                log.append_batches(bytearray(batch), origin="coordinator")
            if not is_committed:
                self.aborted |= {self.values[offset] for offset in self.open}
            self.open = []

    @rule()
    def upload(self) -> None:
        """Copy the next segment, as a broker does up to the last stable offset."""
        copied = max((end for _, end in self.uploaded), default=0)
        with LogDir(self.path) as log_dir:
            stable = log_dir.partition(*KEY).last_stable_offset
        for start, end in pairwise(self.local_segments()):
            if start >= copied and end <= stable:
                segment_id = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
                files = {
                    **{kind: file_name(start, kind) for kind in ("log", "index", "timeindex", "txnindex")},
                    "snapshot": file_name(end, "snapshot"),
                    "leader_epoch_checkpoint": "leader-epoch-checkpoint",
                }
                for kind, name in files.items():
                    if (self.directory / name).exists():
                        target = self.objects / f"{start:020}-{segment_id}.{kind}"
                        shutil.copy(self.directory / name, target)
                self.uploaded.append((start, end))
                return

    @rule()
    def delete_local(self) -> None:
        """Delete the first local segment if there is a copy of it."""
        first = self.local_segments()[0]
        if first in [start for start, _ in self.uploaded]:
            self.write_start()
            self.delete_files(first)

    @rule(is_written=st.booleans())
    def delete_remote(self, is_written: bool) -> None:
        """Delete the first copy, but not the only one. A broker writes the log start offset once a minute."""
        if len(self.uploaded) > 1:
            start, self.start = self.uploaded.pop(0)
            for file in self.objects.glob(f"{start:020}-*"):
                file.unlink()
            self.delete_files(start)
            if is_written:
                self.write_start()

    def delete_files(self, start: int) -> None:
        for kind in ("log", "index", "timeindex", "txnindex"):
            (self.directory / file_name(start, kind)).unlink(missing_ok=True)

    def write_start(self) -> None:
        write_offset_checkpoint(self.path / LOG_START_OFFSET_CHECKPOINT, {KEY: self.start})

    # What happens to the query.

    @rule()
    def trigger(self) -> None:
        self.run_trigger()

    @rule(is_planned=st.booleans(), changes=st.lists(st.sampled_from([upload, delete_local]), max_size=4))
    def trigger_meanwhile(self, is_planned: bool, changes: list[Callable[[TieredStreamLife], None]]) -> None:
        """Segments move before a micro-batch is planned, or before it is read."""

        def change() -> None:
            for each in changes:
                each(self)

        if is_planned:
            self.query.before_tasks = change
        else:
            self.query.log_offsets()
            change()
        self.run_trigger()
        self.query.before_tasks = lambda: None

    @rule()
    def restart(self) -> None:
        self.query.log_offsets()
        self.start_again()


TestTieredStreamLife = needs_read_limits(TieredStreamLife.TestCase)
TestTieredStreamLife.settings = settings(max_examples=examples(15), stateful_step_count=25, deadline=None)
