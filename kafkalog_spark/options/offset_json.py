"""The JSON of `assign` and of the offsets options, read as leniently as Spark's kafka source reads it.

That is Jackson and json4s: text behind the value is ignored, null is 0 or nothing, fractions are cut off,
numbers beyond 32 or 64 bits wrap around, of a key given twice the last one counts, partition "00" is 0.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from kafkalog_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ASSIGN_EXAMPLE = '{"topicA":[0,1],"topicB":[0,1]}'
OFFSETS_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMESTAMPS_EXAMPLE = '{"topicA":{"0":1700000000000,"1":1700000000000},"topicB":{"0":1700000000000}}'

T = TypeVar("T")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class _UnexpectedError(ValueError):
    pass


def parse_assign(option: str, text: str) -> frozenset[TopicPartition]:
    """`{"topic": [partition, ...]}`. Raises OptionError, which shows the form expected."""

    def partitions(tree: object) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(topic, _wrapped(number, 32))
            for topic, numbers in _items(tree)
            for number in _elements(numbers)
        )

    return _parsed(option, text, ASSIGN_EXAMPLE, partitions)


def parse_partition_longs(
    option: str, text: str, example: str = OFFSETS_EXAMPLE
) -> dict[TopicPartition, int]:
    """`{"topic": {"partition": number}}`: offsets or epoch ms. Raises OptionError, which shows the form."""

    def longs(tree: object) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic, parse_int(partition, 32)): _wrapped(number, 64)
            for topic, by_partition in _items(tree)
            for partition, number in _items(by_partition)
        }

    return _parsed(option, text, example, longs)


def parse_int(text: str, bits: int) -> int:
    """A whole number as Java's parseInt and parseLong take it. Raises ValueError."""
    if not re.fullmatch(r"[+-]?\d+", text):
        raise _UnexpectedError(text)
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise _UnexpectedError(text)
    return number


def _parsed(option: str, text: str, example: str, extract: Callable[[object], T]) -> T:
    try:
        tree, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode(text.lstrip(" \t\r\n"))
        return extract(tree)
    except (ValueError, RecursionError):
        raise OptionError(f"{option}: expected e.g. {example}, got {text}") from None


def _refuse(constant: str) -> NoReturn:
    raise _UnexpectedError(constant)


def _items(tree: object) -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict):
        yield from tree.items()
    elif tree is not None:
        raise _UnexpectedError(tree)


def _elements(tree: object) -> Iterator[object]:
    if isinstance(tree, list):
        yield from tree
    elif tree is not None:
        raise _UnexpectedError(tree)


def _wrapped(value: object, bits: int) -> int:
    """What the JVM makes of a JSON number: integers wrap around, fractions are cut off and saturate."""
    if value is None:
        return 0
    lowest, highest = -(1 << bits - 1), (1 << bits - 1) - 1
    if isinstance(value, float):
        return int(min(max(value, lowest), highest)) if not math.isnan(value) else 0
    if isinstance(value, int) and not isinstance(value, bool):
        return (value - lowest) % (1 << bits) + lowest
    raise _UnexpectedError(value)
