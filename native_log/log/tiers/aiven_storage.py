"""A storage with the files of segments that Aiven's plugin has chunked, compressed and encrypted."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import zstandard

from native_log.errors import KafkaLogError
from native_log.log.tiers.layouts.aiven import (
    INDEX_FILES,
    INDEXES,
    LOG,
    MANIFEST,
    ManifestError,
    parse_manifest,
)
from native_log.log.tiers.layouts.aiven_encryption import EncryptionError, decrypt, decrypt_data_key
from native_log.storage import LOCAL, ByteCache, ChunkedFile, Folder, WrappedStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from native_log.log.tiers.layouts.aiven import Encryption, Manifest
    from native_log.storage import DataFile, KnownFile, Storage

logger = logging.getLogger(__name__)

_CHUNKS = ByteCache(32 << 20)
"""Restored chunks. A read of a joined log opens the file to check the batches, and again to decode them."""


@dataclass(frozen=True, slots=True)
class AivenStorage(WrappedStorage):
    """The objects of a storage, and the files of segments in them as a broker had them. See Storage.

    `<name>.log` is the file with the batches, `<name>.index`, `.timeindex` and `.txnindex` are its indexes.

    Attributes:
        storage: has the objects.
        keys: the folder with private keys, `<key id>.private.pem`; None: there is none.
    """

    storage: Storage = LOCAL
    keys: str | None = None

    def listed(self, path: str) -> None:
        """See Storage. A file of a segment is not an object by itself."""

    def open(self, path: str, *, follow_link: bool = True, known: KnownFile | None = None) -> DataFile:
        """See Storage: open a file of a segment.

        A chunk that cannot be restored is zeros: a damaged part of the file. A warning says why.

        Raises KafkaLogError if the manifest is invalid, or the key for it is missing or another one.
        """
        del follow_link  # an object is never written to
        stem, _, kind = path.rpartition(".")
        manifest = read_manifest(self.storage, f"{stem}.{MANIFEST}")
        key = None
        if manifest.encryption is not None:
            key = _data_key(manifest.encryption, self.keys, f"{stem}.{MANIFEST}")
        if kind == LOG:
            return self._open_log(path, manifest, key, known)
        return self._open_index(path, f"{stem}.{INDEXES}", INDEX_FILES[kind], manifest, key)

    def _open_log(
        self, path: str, manifest: Manifest, key: bytes | None, known: KnownFile | None
    ) -> DataFile:
        if known is not None:
            known = known._replace(size_bytes=manifest.chunks.positions[-1])
        stored = self.storage.open(path, known=known)
        is_plain = key is None and not manifest.is_compressed
        if is_plain and stored.size_bytes == manifest.chunks.file_bytes:
            return stored
        return _LogFile(stored, manifest, key)

    def _open_index(
        self, path: str, indexes: str, name: str, manifest: Manifest, key: bytes | None
    ) -> DataFile:
        position, size = manifest.indexes[name]
        with self.storage.open(indexes) as file:
            inode, mtime_ms, data = file.inode, file.mtime_ms, file.read(position, size)
        try:
            if data and key is not None and manifest.encryption is not None:
                data = decrypt(data, key, manifest.encryption.aad)
        except EncryptionError as error:  # indexes are only hints
            logger.warning("%s, position %d: an index counts as empty: %s", indexes, position, error)
            data = b""
        return ChunkedFile(path, len(data), inode, mtime_ms, max(1, len(data)), lambda _: lambda: data)


class _LogFile(ChunkedFile):
    """The file with the batches of a segment, which is made of an object with its chunks."""

    __slots__ = ("_key", "_manifest", "_stored")

    def __init__(self, stored: DataFile, manifest: Manifest, key: bytes | None) -> None:
        self._stored, self._manifest, self._key = stored, manifest, key
        chunks = manifest.chunks
        attributes = stored.path, chunks.file_bytes, stored.inode, stored.mtime_ms
        super().__init__(*attributes, chunks.chunk_bytes, self._prepare_chunk)

    def will_read(self, position: int, end: int) -> None:
        """See DataFile."""
        super().will_read(position, end)
        chunks = self._manifest.chunks
        first, last = position // chunks.chunk_bytes, -(-end // chunks.chunk_bytes)
        positions = chunks.positions
        self._stored.will_read(positions[first], positions[min(last, len(positions) - 1)])

    def close(self) -> None:
        """See DataFile."""
        self._stored.close()
        super().close()

    def _prepare_chunk(self, index: int) -> Callable[[], bytes]:
        """Read a chunk as it is stored. Return a function that restores it."""
        chunk = _CHUNKS.get(self._cache_key(index))
        if chunk is not None:
            return lambda: chunk
        start, end = self._manifest.chunks.positions[index : index + 2]
        fetched = self._stored.in_memory(start, end)
        data = self._stored.read(start, end - start) if fetched is None else bytes(fetched)
        return partial(self._restore_chunk, index, data)

    def _restore_chunk(self, index: int, data: bytes) -> bytes:
        """Return a chunk that is stored as `data`; zeros if it is damaged."""
        chunks = self._manifest.chunks
        size = chunks.chunk_size(index)
        try:
            chunk = _restore(data, self._manifest, self._key, size)
            if len(chunk) != size:
                raise ValueError(f"expected {size} bytes, found {len(chunk)}")
        except (ValueError, zstandard.ZstdError) as error:
            logger.warning(
                "%s, position %d: chunk %d of %d counts as damaged: %s",
                *(self.path, chunks.positions[index], index + 1, len(chunks.positions) - 1, error),
            )
            is_plain = self._key is None and not self._manifest.is_compressed
            chunk = data.ljust(size, b"\0") if is_plain else bytes(size)
        _CHUNKS.put(self._cache_key(index), chunk)
        return chunk

    def _cache_key(self, index: int) -> Hashable:
        chunks, is_compressed = self._manifest.chunks, self._manifest.is_compressed
        place = chunks.positions[index], chunks.positions[index + 1], chunks.chunk_size(index)
        return self.path, self.inode, self.mtime_ms, self._key, is_compressed, place


_parse_manifest = lru_cache(maxsize=256)(parse_manifest)


def read_manifest(storage: Storage, path: str) -> Manifest:
    """Read and parse a manifest. Raises KafkaLogError, FileNotFoundError, OSError."""
    with storage.open(path) as file:
        try:
            return _parse_manifest(file.read(0, file.size_bytes))
        except ManifestError as error:
            raise KafkaLogError(str(error), path=path) from None


def _restore(data: bytes, manifest: Manifest, key: bytes | None, size: int) -> bytes:
    """Undo the encryption and the compression of a chunk. Raises ValueError, ZstdError."""
    if key is not None and manifest.encryption is not None:
        data = decrypt(data, key, manifest.encryption.aad)
    if not manifest.is_compressed:
        return data
    content_size = zstandard.frame_content_size(data)
    if content_size > size:  # never more memory than a chunk has
        raise ValueError(f"expected a frame with {size} bytes, found one with {content_size}")
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)


@lru_cache(maxsize=1024)
def _data_key(encryption: Encryption, keys: str | None, manifest: str) -> bytes:
    """Return the key of a segment. Raises KafkaLogError, which names the manifest and the id of the key."""
    key_id = encryption.key_id
    if keys is None:
        raise KafkaLogError(
            f"expected the private key {key_id!r} of this encrypted segment, found none: give the folder "
            f"with {key_id}.private.pem as remote.keys",
            path=manifest,
        )
    if "/" in key_id:
        raise KafkaLogError(f"expected the id of a key, found {key_id!r}", path=manifest)
    try:
        return decrypt_data_key(encryption.data_key, Folder(keys).read(f"{key_id}.private.pem"))
    except FileNotFoundError:
        raise KafkaLogError(
            f"expected the private key {key_id!r} of this encrypted segment, found no {key_id}.private.pem "
            f"in {keys}",
            path=manifest,
        ) from None
    except EncryptionError as error:
        raise KafkaLogError(
            f"expected the private key {key_id!r} of this encrypted segment in {keys}/{key_id}.private.pem, "
            f"found another one: {error}",
            path=manifest,
        ) from None
    except ModuleNotFoundError as error:
        raise KafkaLogError(
            f"expected the package cryptography, because this segment is encrypted with key {key_id!r}: "
            "pip install 'cryptography>=42'",
            path=manifest,
        ) from error
