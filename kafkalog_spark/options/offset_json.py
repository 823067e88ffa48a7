"""The JSON of `assign` and of the offsets options, parsed as leniently as Spark's kafka source does.

Spark uses Jackson and json4s. Text after the value is ignored. null is 0, or an empty value. Fractions are
truncated. Integers beyond 32 or 64 bits wrap around. The last of two equal keys is used. Partition "00" is 0.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from kafkalog_spark.errors import OptionError
from native_log.java_numbers import parse_int

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


class _UnexpectedValueError(ValueError):
    pass


def parse_assign(option: str, text: str) -> frozenset[TopicPartition]:
    """Parse `{"topic": [partition, ...]}`. Raises OptionError, which shows the expected form."""

    def to_partitions(tree: object) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition(topic, _to_java_integer(number, 32))
            for topic, numbers in _items(tree)
            for number in _elements(numbers)
        )

    return _parse(option, text, ASSIGN_EXAMPLE, to_partitions)


def parse_partition_longs(
    option: str, text: str, example: str = OFFSETS_EXAMPLE
) -> dict[TopicPartition, int]:
    """Parse `{"topic": {"partition": number}}`. The numbers are offsets or epoch ms.

    Raises OptionError, which shows the expected form.
    """

    def to_longs(tree: object) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic, parse_int(partition, 32)): _to_java_integer(number, 64)
            for topic, by_partition in _items(tree)
            for partition, number in _items(by_partition)
        }

    return _parse(option, text, example, to_longs)


def _parse(option: str, text: str, example: str, convert: Callable[[object], T]) -> T:
    try:
        tree, _ = json.JSONDecoder(parse_constant=_reject_constant).raw_decode(text.lstrip(" \t\r\n"))
        return convert(tree)
    except (ValueError, RecursionError):
        raise OptionError(f"{option}: expected e.g. {example}, found {text}") from None


def _reject_constant(constant: str) -> NoReturn:
    raise _UnexpectedValueError(constant)


def _items(tree: object) -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict):
        yield from tree.items()
    elif tree is not None:
        raise _UnexpectedValueError(tree)


def _elements(tree: object) -> Iterator[object]:
    if isinstance(tree, list):
        yield from tree
    elif tree is not None:
        raise _UnexpectedValueError(tree)


def _to_java_integer(value: object, bits: int) -> int:
    """Convert a JSON number as the JVM does: integers wrap around, fractions are truncated and saturate."""
    if value is None:
        return 0
    lowest, highest = -(1 << bits - 1), (1 << bits - 1) - 1
    if isinstance(value, float):
        return int(min(max(value, lowest), highest)) if not math.isnan(value) else 0
    if isinstance(value, int) and not isinstance(value, bool):
        return (value - lowest) % (1 << bits) + lowest
    raise _UnexpectedValueError(value)
