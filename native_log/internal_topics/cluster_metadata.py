"""The metadata of a cluster, from records of __cluster_metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from native_log.internal_topics.cluster_image import ClusterImage
from native_log.messages.metadata_records import MetadataRecords
from native_log.messages.reading import MessageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from native_log.internal_topics.records import Record

Row = dict[str, Any]


def metadata_rows(records: Iterable[tuple[bool, Record]], partition: int) -> Iterator[Row]:
    """Yield a row of CLUSTER_METADATA_SCHEMA for each thing in the metadata. All of them are in memory.

    Args:
        records: the records in order, and whether each comes from a snapshot, where it has no offset.
        partition: the number of the partition.
    """
    image = ClusterImage()
    decoder: MetadataRecords[tuple[bool, Record]] = MetadataRecords()
    undecodable = []

    def report(origin: tuple[bool, Record], error: MessageError) -> None:
        in_snapshot, record = origin
        row = record.undecodable(partition, error)
        undecodable.append({**row, "recordOffset": None} if in_snapshot else row)

    for origin in records:
        try:
            applied = decoder.decode(origin[1].value or b"", origin)
        except MessageError as error:
            report(origin, error)
            continue
        for each in applied:
            in_snapshot, record = each.origin
            location = {} if in_snapshot else record.location(partition)
            try:
                image.apply(each.api_key, each.data, location)
            except MessageError as error:
                report(each.origin, error)
    yield from image.rows()
    yield from undecodable
