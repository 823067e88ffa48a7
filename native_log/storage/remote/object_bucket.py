"""A bucket of S3, Google Cloud Storage or Azure Blob Storage, through obstore."""

from __future__ import annotations

import os
import re
import threading
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from native_log.errors import KafkaLogError
from native_log.storage.remote.buckets import RemoteFile, replaced
from native_log.storage.remote.client_errors import (
    configuration_error,
    is_broken_transfer,
    is_in_another_region,
    translated,
)
from native_log.storage.remote.credentials import CLIENT_OPTIONS
from native_log.storage.remote.list_ahead import divide
from native_log.storage.remote.s3_region import is_region_given, region_of_bucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from typing_extensions import Buffer

    from native_log.storage.remote.buckets import FolderContent
    from native_log.storage.remote.provided_credentials import ProvidedCredentials

Answer = TypeVar("Answer")

_CLIENT_DEFAULTS = {"timeout": "60s", "connect_timeout": "10s"}
_RETRIES: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_ATTEMPTS = 3
"""How often an answer is requested whose transfer breaks off."""

_BEFORE_ALL_NAMES = "!"
"""This character sorts before all names of files. The client drops the slash at the end of `folder/`, so a
list from there would include `folder-1/`."""


class ObjectBucket:
    """A bucket of S3, Google Cloud Storage or Azure Blob Storage, through obstore."""

    def __init__(
        self, url: str, options: Mapping[str, str], credentials: ProvidedCredentials | None = None
    ) -> None:
        """Open a bucket. Nothing is requested yet.

        Args:
            url: of the bucket, without a key.
            options: by the names of Polars, delta-rs and obstore.
            credentials: the credential provider; None: those of the options, of the profile in AWS_PROFILE,
                or of the environment.

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
        if credentials is not None:
            options = {**options, **credentials.options()}
        config, client = _divide(options)
        provider: Any = credentials or _profile_credentials(url, options)
        self._config, self._client = config, client
        self._reopening = threading.Lock()
        self._new_store = partial(
            from_url,
            re.sub("^s3a:", "s3:", url),
            client_options=client,
            retry_config=_RETRIES,
            credential_provider=provider,
        )
        try:
            self._store: Any = self._new_store(config=config)
        except Exception as error:
            raise configuration_error(error, url) from None
        # Azure always lists from the first key, and the client drops the keys before the requested one.
        # Directory buckets (S3 Express) list keys in no particular order.
        is_express = url.endswith("--x-s3") or any("s3_express" in name for name in config)
        can_skip = isinstance(self._store, obstore.store.S3Store | obstore.store.GCSStore)
        self._lists_from_keys = can_skip and not is_express

    def list(self, folder: str) -> FolderContent:
        """See Bucket."""
        prefix = f"{folder}/" if folder else None
        found = self._request(folder, lambda: self._obstore.list_with_delimiter(self._store, prefix))
        files = {
            name: _remote_file(each)
            for each in found["objects"]
            if (name := each["path"].rpartition("/")[2]) and each["path"] != folder
        }
        return files, (path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])

    def list_together(self, folder: str, names: Sequence[str]) -> Mapping[str, FolderContent]:
        """See Bucket."""
        if not self._lists_from_keys:
            return {}
        prefix = f"{folder}/" if folder else ""
        first = f"{prefix}{names[0]}/{_BEFORE_ALL_NAMES}"

        def keys() -> Iterator[tuple[str, RemoteFile]]:
            for page in self._obstore.list(self._store, prefix or None, offset=first):
                for each in page:
                    yield each["path"].removeprefix(prefix), _remote_file(each)

        return self._request(folder, lambda: divide(names, keys()))

    def find(self, key: str) -> RemoteFile | None:
        """See Bucket."""
        try:
            return _remote_file(self._request(key, lambda: self._obstore.head(self._store, key)))
        except FileNotFoundError:
            return None

    def read(self, key: str, file: RemoteFile, position: int, end: int) -> Buffer:
        """See Bucket."""
        options: Any = {"range": (position, end)}
        if file.version.startswith(_ETAG):
            options["if_match"] = f'"{file.version.removeprefix(_ETAG)}"'

        def get() -> Buffer:
            found = self._obstore.get(self._store, key, options=options)
            answered = _remote_file(found.meta)
            if (answered.size_bytes, answered.version) != (file.size_bytes, file.version):
                # Some servers ignore the condition.
                raise replaced(f"{self._url}/{key}")
            answer: Buffer = found.bytes()
            return answer

        return self._request(key, get)

    def _request(self, key: str, send: Callable[[], Answer]) -> Answer:
        """Return the answer to a request.

        It is sent again if the connection breaks off meanwhile, or if S3 says that the bucket is elsewhere.

        The client itself repeats requests that no complete header answers, and those with a passing error.
        """
        for attempt in range(_ATTEMPTS):
            store = self._store
            try:
                return send()
            except KafkaLogError:
                raise
            except Exception as error:
                can_retry = is_broken_transfer(error) or (
                    is_in_another_region(error) and self._reopen_in_its_region(store)
                )
                if attempt == _ATTEMPTS - 1 or not can_retry:
                    raise translated(error, f"{self._url}/{key}" if key else self._url) from None
        raise AssertionError

    def _reopen_in_its_region(self, store: Any) -> bool:
        """Open the bucket in the region that S3 names, as Hadoop's client does. Return whether it was opened.

        A region that the user gave is kept, and only buckets of S3 have one.

        Args:
            store: the store that sent its request to the wrong region.
        """
        with self._reopening:
            if self._store is not store:
                return True  # another thread has reopened the bucket
            if not self._url.startswith("s3") or is_region_given(store.config):
                return False
            region = region_of_bucket(self._url.partition("://")[2], store.config, self._client)
            if region is None:
                return False
            self._store = self._new_store(config={**self._config, "aws_region": region})
            return True


def _divide(options: Mapping[str, str]) -> tuple[Any, Any]:
    """Return the options of the store, and those of its HTTP client."""
    client, config = dict(_CLIENT_DEFAULTS), {}
    if os.environ.get("AWS_ALLOW_HTTP"):  # as in Polars and delta-rs; obstore does not look at it
        client["allow_http"] = os.environ["AWS_ALLOW_HTTP"].lower()
    for name, value in options.items():
        plain = name.removeprefix("aws_").removeprefix("azure_").removeprefix("google_")
        if plain in CLIENT_OPTIONS:
            client[plain] = value
        else:
            config[name] = value
    return config, client


def _profile_credentials(url: str, options: Mapping[str, str]) -> Any:
    """Return the credentials of the profile in AWS_PROFILE, through boto3; None: they are found elsewhere."""
    is_given = any(name.endswith(("access_key_id", "skip_signature")) for name in options)
    if not url.startswith("s3") or is_given or not os.environ.get("AWS_PROFILE"):
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise KafkaLogError(
            "expected the package boto3, which reads the profile in AWS_PROFILE, found none; install boto3",
            path=url,
        ) from None
    try:
        return Boto3CredentialProvider()
    except Exception as error:  # its message may contain lines of the file with the credentials
        raise KafkaLogError(
            f"expected credentials in the profile {os.environ['AWS_PROFILE']} (AWS_PROFILE), found none that "
            f"boto3 can read ({type(error).__name__})",
            path=url,
        ) from None


_ETAG = "etag:"


def _remote_file(meta: Any) -> RemoteFile:
    changed: datetime = meta["last_modified"]
    mtime_ns = int(changed.timestamp()) * 1_000_000_000  # listings and headers differ in fractions
    # A gateway over plain files has empty ETags. Azure's listings leave out the quotation marks.
    etag = (meta.get("e_tag") or "").strip(' "')
    version = f"{_ETAG}{etag}" if etag else f"{meta['size']}-{mtime_ns}"
    return RemoteFile(meta["size"], version, mtime_ns)
