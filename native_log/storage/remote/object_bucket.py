"""A bucket of S3, Google Cloud Storage or Azure Blob Storage, through obstore."""

from __future__ import annotations

import errno
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from native_log.errors import KafkaLogError, LogTruncatedError
from native_log.storage.remote.buckets import RemoteFile, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from typing_extensions import Buffer

_CLIENT_OPTIONS = {"allow_http", "allow_invalid_certificates", "timeout", "connect_timeout", "proxy_url"}
_CLIENT_DEFAULTS = {"timeout": "60s", "connect_timeout": "10s"}
_RETRIES: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_ATTEMPTS = 3
"""How often bytes are requested whose transfer breaks off. The client does not repeat that by itself."""


class ObjectBucket:
    """A bucket of S3, Google Cloud Storage or Azure Blob Storage, through obstore."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """Open a bucket. Nothing is requested yet.

        Args:
            url: of the bucket, without a key.
            options: by the names of obstore.

        Raises KafkaLogError if obstore is missing or does not know an option.
        """
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise KafkaLogError(
                "expected the package obstore, found none; install kafkalog-spark[remote]", path=url
            ) from None
        self._url = url
        self._obstore = obstore
        client: Any = {**_CLIENT_DEFAULTS, **{k: v for k, v in options.items() if k in _CLIENT_OPTIONS}}
        config: Any = {name: value for name, value in options.items() if name not in _CLIENT_OPTIONS}
        try:
            self._store = from_url(
                re.sub("^s3a:", "s3:", url),
                config=config,
                client_options=client,
                retry_config=_RETRIES,
            )
        except Exception as error:
            raise KafkaLogError(f"the storage options are not valid: {_reason(error)}", path=url) from None

    def list(self, folder: str) -> tuple[Mapping[str, RemoteFile], Iterator[str]]:
        """See Bucket."""
        prefix = f"{folder}/" if folder else None
        try:
            found = self._obstore.list_with_delimiter(self._store, prefix)
        except Exception as error:
            raise _translated(error, f"{self._url}/{folder}") from None
        files = {
            name: _remote_file(each)
            for each in found["objects"]
            if (name := each["path"].rpartition("/")[2]) and each["path"] != folder
        }
        return files, (path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

    def find(self, key: str) -> RemoteFile | None:
        """See Bucket."""
        try:
            return _remote_file(self._obstore.head(self._store, key))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise _translated(error, f"{self._url}/{key}") from None

    def read(self, key: str, file: RemoteFile, position: int, end: int) -> Buffer:
        """See Bucket."""
        path = f"{self._url}/{key}"
        for attempt in range(_ATTEMPTS):
            try:
                options: Any = {"range": (position, end)}
                if file.version.startswith(_ETAG):
                    options["if_match"] = file.version.removeprefix(_ETAG)
                found = self._obstore.get(self._store, key, options=options)
                # Some servers ignore the condition.
                if _remote_file(found.meta) != file:
                    raise replaced(path)
                return found.bytes()
            except LogTruncatedError:
                raise
            except Exception as error:
                translated = _translated(error, path)
                if attempt == _ATTEMPTS - 1 or not _is_broken_transfer(error):
                    raise translated from None
        raise AssertionError


_ETAG = "etag:"


def _remote_file(meta: Any) -> RemoteFile:
    changed: datetime = meta["last_modified"]
    mtime_ns = int(changed.timestamp()) * 1_000_000_000  # listings and headers differ in fractions
    # A gateway over plain files has empty ETags.
    etag = (meta.get("e_tag") or "").strip()
    version = f"{_ETAG}{etag}" if etag.strip('"') else f"{meta['size']}-{mtime_ns}"
    return RemoteFile(meta["size"], version, mtime_ns)


def _is_broken_transfer(error: Exception) -> bool:
    return "error decoding response body" in str(error) or "connection closed" in str(error)


def _translated(error: Exception, path: str) -> Exception:
    """Return the error of a storage as one of the operating system, without URLs and headers of requests."""
    name = type(error).__name__
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such object", path)
    if name == "PreconditionError":
        return replaced(path)
    if name in ("PermissionDeniedError", "UnauthenticatedError"):
        return PermissionError(
            errno.EACCES, "access was denied; check the credentials and their permissions", path
        )
    return OSError(errno.EIO, f"the storage cannot be read: {_reason(error)}", path)


_REASONS = (
    (r"No CredentialsError|CredentialsNotLoaded|169\.254\.169\.254|metadata", "no credentials were found"),
    (r"SlowDown|503|429", "it is overloaded, also after several attempts; read later or in fewer tasks"),
    (r"ExpiredToken|TokenRefreshRequired", "the token has expired; give a new one, or a credential_provider"),
    (r"InvalidAccessKeyId|SignatureDoesNotMatch|403|401", "access was denied; check the credentials"),
    (r"NoSuchBucket", "there is no such bucket"),
    (
        r"dns error|failed to lookup|Name or service",
        "its host name is unknown; check the endpoint and region",
    ),
    (r"Connection refused|tcp connect|error trying to connect", "it refuses connections; check the endpoint"),
    (
        r"timed out|timeout|operation was slow",
        "it did not answer in time; check the endpoint and the network",
    ),
    (r"InvalidRange|416", "the object is shorter than it was listed"),
    (r"URL scheme is not allowed|allow_http", "it is not encrypted; set allow_http=true to allow that"),
    (r"error decoding response body|connection closed", "connections broke off, also after several attempts"),
    (r"UnknownConfigurationKey|not a valid|Unknown", "an option has an unknown name"),
)
"""What the messages of clients mean. They are not shown themselves: they contain URLs with signatures."""


def _reason(error: Exception) -> str:
    text = f"{type(error).__name__} {error} {error!r}"
    for pattern, reason in _REASONS:
        if re.search(pattern, text):
            return reason
    return f"its client reports {type(error).__name__}"
