"""Records of internal topics that Kafka's own classes write: all types and versions, with random fields."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.jvm import KAFKA, NEWER_KAFKA, Jvm, compile_java
from native_log.messages import cluster_metadata, groups, share_groups, transaction_log
from tests.class_sharing import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from native_log.messages.schema import Message

pytestmark = pytest.mark.broker

EACH = "8"


@pytest.fixture(scope="module", params=[KAFKA, NEWER_KAFKA], ids=["4.1", "4.4"])
def kafka(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def java(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    program = Path(__file__).with_name("RandomRecords.java")
    class_path = compile_java([program], tmp_path_factory.mktemp("classes"), kafka)
    with Jvm(class_path, "RandomRecords", EACH, options=["-Xmx256m", *OPTIONS]) as jvm:
        yield jvm


def values_of(records: dict[int, Any]) -> dict[int, Message]:
    return {kind: record.value for kind, record in records.items()}


@pytest.mark.parametrize(
    ("topic", "messages", "decode"),
    [
        ("group", values_of(groups.RECORDS), groups.decode_group_record),
        ("transaction", values_of(transaction_log.RECORDS), transaction_log.decode_transaction_record),
        ("share", values_of(share_groups.RECORDS), share_groups.decode_share_record),
        ("metadata", cluster_metadata.RECORDS, cluster_metadata.decode_metadata_record),
    ],
)
def test_all_types_and_versions_of_kafka_are_decoded(
    kafka: Path,
    java: Jvm,
    topic: str,
    messages: dict[int, Message],
    decode: Callable[..., tuple[Any, Any]],
) -> None:
    versions: dict[int, set[int]] = {}
    for kind, version, key, value, *expected in json.loads(java.ask(topic)):
        versions.setdefault(kind, set()).add(version)
        key_bytes = None if key is None else base64.b64decode(key)
        assert list(decode(0, key_bytes, base64.b64decode(value))) == expected
    known = {
        kind: set(range(message.versions.first, (message.versions.last or 0) + 1))
        for kind, message in messages.items()
    }
    assert all(numbers <= known[kind] for kind, numbers in versions.items())
    if kafka == NEWER_KAFKA:
        assert versions == known
