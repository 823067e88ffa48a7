"""The JSON of assign and of the offsets options, as Spark's kafka source parses it."""

import pytest

from kafkalog_spark.errors import OptionError
from kafkalog_spark.options.offset_json import parse_assign, parse_int, parse_partition_longs

HIGHEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"t":[0,1],"u":[2]}', {("t", 0), ("t", 1), ("u", 2)}),
        ("{}", set()),
        ("null", set()),
        ('{"t":[]}', set()),
        ('{"t":null}', set()),
        ('{"t":[0],"t":[1]}', {("t", 1)}),
        ('{"t":[0]} and more', {("t", 0)}),
        ('{"t":[0]}}', {("t", 0)}),
        (' \n{"t":[0]}', {("t", 0)}),
        ('{"t":[0.5,1.9,-1.5]}', {("t", 0), ("t", 1), ("t", -1)}),
        ('{"t":[null]}', {("t", 0)}),
        ('{"t":[2147483648]}', {("t", -(2**31))}),
        ('{"t":[4294967297]}', {("t", 1)}),
        ('{"ü.é":[0]}', {("ü.é", 0)}),
    ],
)
def test_assign(text: str, expected: set[tuple[str, int]]) -> None:
    assert parse_assign("assign", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "t",
        "{t:[0]}",
        '{"t":["0"]}',
        '{"t":[true]}',
        '{"t":[0]',
        '{"t":{"0":1}}',
        '{"t":0}',
        "[0]",
        '"t"',
        '{"t":[01]}',
        '{"t":[NaN]}',
        '{"t":[0,]}',
        "5",
        "true",
        '{"t":[[0]]}',
        "{'t':[0]}",
        "[" * 100000,
    ],
)
def test_invalid_assign(text: str) -> None:
    with pytest.raises(OptionError, match=r'assign: expected e\.g\. {"topicA"') as raised:
        parse_assign("assign", text)
    assert str(raised.value).endswith(f"found {text}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"t":{"0":23,"1":-1},"u":{"0":-2}}', {("t", 0): 23, ("t", 1): -1, ("u", 0): -2}),
        ("null", {}),
        ('{"t":null}', {}),
        ('{"t":{"00":7}}', {("t", 0): 7}),
        ('{"t":{"+1":7}}', {("t", 1): 7}),
        ('{"t":{"0":7,"0":8}}', {("t", 0): 8}),
        ('{"t":{"0":7,"00":8}}', {("t", 0): 8}),
        ('{"t":{"0":null}}', {("t", 0): 0}),
        ('{"t":{"0":5.5}}', {("t", 0): 5}),
        ('{"t":{"0":1e3}}', {("t", 0): 1000}),
        ('{"t":{"0":1e400}}', {("t", 0): HIGHEST}),
        ('{"t":{"0":9223372036854775808}}', {("t", 0): -HIGHEST - 1}),
        ('{"t":{"0":18446744073709551617}}', {("t", 0): 1}),
    ],
)
def test_offsets(text: str, expected: dict[tuple[str, int], int]) -> None:
    assert parse_partition_longs("startingOffsets", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-2",
        "earliest ",
        '{"t":5}',
        '{"t":{"x":1}}',
        '{"t":{" 0":1}}',
        '{"t":{"0":"a"}}',
        '{"t":{"0":"5"}}',
        '{"t":[0,0]}',
        '{"t":{"0":[1]}}',
        '{"t":{"0":true}}',
        '{"t":{"2147483648":1}}',
        '{"t":{"0.0":1}}',
        "[]",
    ],
)
def test_invalid_offsets(text: str) -> None:
    with pytest.raises(OptionError, match=r'startingOffsets: expected e\.g\. {"topicA":{"0":23,"1":-1}'):
        parse_partition_longs("startingOffsets", text)


@pytest.mark.parametrize(
    ("text", "bits", "expected"),
    [
        ("5", 32, 5),
        ("+5", 32, 5),
        ("-5", 64, -5),
        ("007", 32, 7),
        ("2147483647", 32, 2**31 - 1),
        ("-2147483648", 32, -(2**31)),
        ("2147483648", 64, 2**31),
        (str(HIGHEST), 64, HIGHEST),
    ],
)
def test_int(text: str, bits: int, expected: int) -> None:
    assert parse_int(text, bits) == expected


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("", 32),
        (" 5", 32),
        ("5 ", 32),
        ("5.0", 32),
        ("1e3", 32),
        ("0x10", 32),
        ("1_000", 32),
        ("--5", 32),
        ("+", 32),
        ("2147483648", 32),
        ("-2147483649", 32),
        ("9223372036854775808", 64),
        ("9" * 5000, 64),
    ],
)
def test_invalid_int(text: str, bits: int) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_int(text, bits)
