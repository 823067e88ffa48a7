"""Arguments of public functions: their allowed values and checks of their types."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Literal, SupportsIndex

PathLike = str | os.PathLike[str]

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
HighWatermark = Literal["auto", "ignore", "checkpoint"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
Mode = Literal["failFast", "dropMalformed", "permissive"]
Origin = Literal["client", "coordinator", "replication"]
Replicas = Literal["longest", "merge"]


def integer(name: str, value: SupportsIndex) -> int:
    """Return `value` as an int. NumPy integers are accepted. Raises TypeError."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an int, found {value!r}")
    return operator.index(value)


def optional_integer(name: str, value: SupportsIndex | None) -> int | None:
    """Return `value` as an int, or None if it is None. Raises TypeError."""
    return None if value is None else integer(name, value)


def optional_count(name: str, value: SupportsIndex | None) -> int | None:
    """Return `value` as an int of 1 or more, or None if it is None. Raises TypeError, ValueError."""
    count = optional_integer(name, value)
    if count is not None and count < 1:
        raise ValueError(f"{name}: expected 1 or more, found {count}")
    return count


def check_partition_keys(name: str, keys: Iterable[object]) -> None:
    """Check the keys of a mapping from partitions. Raises ValueError for one that is not (topic, number)."""
    for key in keys:
        if not (isinstance(key, tuple) and len(key) == 2):
            raise ValueError(f'expected {name} as {{("orders", 0): 5}}, by (topic, partition), found {key!r}')


def text(name: str, value: str) -> str:
    """Return `value`. Raises TypeError if it is not a str."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, found {value!r}")
    return value


def topic_names(topics: str | Iterable[str], name: str = "topics") -> set[str]:
    """Return the names as a set. A single name may be a plain str. Raises TypeError."""
    if isinstance(topics, bytes) or not isinstance(topics, Iterable):
        raise TypeError(f"{name}: expected a str or an iterable of str, found {topics!r}")
    return {topics} if isinstance(topics, str) else {text(name, topic) for topic in topics}


def number_ranges(name: str, numbers: int | Iterable[int | range]) -> tuple[range, ...]:
    """Return numbers as ranges. A single number need not be in a list. Raises TypeError."""
    listed = numbers if isinstance(numbers, Iterable) and not isinstance(numbers, range) else [numbers]
    return tuple(_number_range(name, each) for each in listed)


def _number_range(name: str, number: int | range) -> range:
    if isinstance(number, range):
        return number
    first = integer(name, number)
    return range(first, first + 1)


def path_list(paths: PathLike | Iterable[PathLike]) -> list[PathLike]:
    """Return the paths as a list. A single path need not be in a list. Raises TypeError."""
    if isinstance(paths, str | os.PathLike):
        return [paths]
    if isinstance(paths, bytes) or not isinstance(paths, Iterable):
        raise TypeError(f"path: expected a str or os.PathLike, or an iterable of them, found {paths!r}")
    listed = list(paths)
    for path in listed:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path: expected a str or os.PathLike, found {path!r}")
    return listed
