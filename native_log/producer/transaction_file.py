"""The file of a log directory with the state of all transactional producers.

A broker keeps this state in the topic __transaction_state. An embedded producer cannot: a broker that loads
the directory would take such a partition for a stray of an unknown topic. So the state is in a plain file,
which brokers ignore.

Its first line is a header. Each other line has an id and its state, and replaces earlier lines of the id. A
change appends a line, so its cost does not depend on the number of ids. When obsolete lines prevail, the file
is rewritten.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from native_log.errors import KafkaLogError
from native_log.producer.transaction_state import TransactionEntry, format_entry, is_expired, parse_entry
from native_log.storage import read_file
from native_log.storage.writing import AppendFile, replace_file

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

TRANSACTION_STATE = ".kafkalog-transactions"
"""The name of the file."""

_VERSION = 1
_MIN_APPENDED = 1000
"""The file is not rewritten before this many lines were appended."""
_INVALID = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class TransactionFile:
    """The states of all transactional ids of a log directory. The caller holds the lock of the directory.

    A crash leaves the old state of an id or the new one. An incomplete last line is removed.

    Args:
        log_dir: the log directory.

    Raises KafkaLogError if the file is damaged; OSError.
    """

    def __init__(self, log_dir: Path) -> None:
        self._path = log_dir / TRANSACTION_STATE
        self._states: dict[bytes, bytes] = {}
        """By id as JSON: its state as JSON, which is parsed when it is needed."""
        self._size_bytes = 0
        """The size of the valid lines; 0: the file does not exist, or must be rewritten."""
        self._rewritten_ids = self._appended = 0
        self._file: AppendFile | None = None
        try:
            self._read(read_file(str(self._path), follow_link=False))
        except FileNotFoundError:
            pass
        except _INVALID as error:
            raise self._damaged(error) from None

    def get(self, transactional_id: str, now_ms: int) -> TransactionEntry | None:
        """Return the entry of an id; None: there is none, or it has expired. Raises KafkaLogError."""
        data = self._states.get(_key(transactional_id))
        entry = None if data is None else self._parse(data)
        return None if entry is None or is_expired(entry, now_ms) else entry

    def put(self, transactional_id: str, entry: TransactionEntry) -> None:
        """Write the entry of an id, and flush it to disk. `updated_ms` is the current time.

        Raises OSError: the state is the one before. LogDirInUseError: another process has changed the file.
        """
        key, data = _key(transactional_id), format_entry(entry)
        if self._size_bytes and self._appended < _MIN_APPENDED + self._rewritten_ids:
            file = self._open()
            file.append(_line(key, data))
            try:
                file.flush()
            except OSError:
                file.truncate(self._size_bytes)
                raise
            self._size_bytes = file.size_bytes
            self._appended += 1
            self._states[key] = data
        else:
            self._rewrite({**self._states, key: data}, entry.updated_ms)

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self) -> AppendFile:
        if self._file is None:
            self._file = AppendFile(str(self._path), self._size_bytes)
        return self._file

    def _rewrite(self, states: dict[bytes, bytes], now_ms: int) -> None:
        kept = {key: data for key, data in states.items() if not is_expired(self._parse(data), now_ms)}
        header = json.dumps({"version": _VERSION, "ids": len(kept)}).encode()
        content = b"".join([header, b"\n", *(_line(key, data) for key, data in kept.items())])
        replace_file(self._path, content)
        self.close()
        self._states, self._size_bytes = kept, len(content)
        self._rewritten_ids, self._appended = len(kept), 0

    def _read(self, data: bytes) -> None:
        first, _, rest = data.partition(b"\n")
        try:
            header = json.loads(first)
        except ValueError:
            header = json.loads(data)  # version 0 is a single object in several lines
        if header["version"] == 0:
            ids = header["transactional_ids"]
            self._states = {_key(name): json.dumps(fields).encode() for name, fields in ids.items()}
            for state in self._states.values():
                parse_entry(state)
            return
        if header["version"] != _VERSION:
            raise ValueError(f"version {header['version']}")
        *lines, torn = rest.split(b"\n")
        if lines and not _is_valid(lines[-1]):  # a power failure may keep the end of a line only
            torn = lines.pop() + b"\n" + torn
        if torn:
            logger.warning("%s: an interrupted change is undone, which left %d bytes", self._path, len(torn))
        self._states = dict(map(_split, lines))
        self._size_bytes = len(data) - len(torn)
        self._rewritten_ids = int(header["ids"])
        self._appended = len(lines) - self._rewritten_ids

    def _parse(self, data: bytes) -> TransactionEntry:
        try:
            return parse_entry(data)
        except _INVALID as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> KafkaLogError:
        return KafkaLogError(
            f"expected the state of transactional producers as JSON, found {error!r}; restore the file, or "
            "remove it and abort the transactions that are still open",
            path=self._path,
        )


def _key(transactional_id: str) -> bytes:
    return json.dumps(transactional_id).encode()


def _line(key: bytes, data: bytes) -> bytes:
    return b"%b\t%b\n" % (key, data)


def _split(line: bytes) -> tuple[bytes, bytes]:
    key, data = line.split(b"\t", 1)  # JSON escapes the tabs in an id
    return key, data


def _is_valid(line: bytes) -> bool:
    try:
        key, data = _split(line)
        json.loads(key)
        parse_entry(data)
    except _INVALID:
        return False
    return True
