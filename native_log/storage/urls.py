"""Paths that are URLs: `s3://bucket/cluster1/orders-0`."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "hdfs")
"""The schemes of URLs that can be read."""

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://?(?=[^/])")
_COLLAPSED = re.compile(r"^([a-z0-9+.-]+):/(?=[^/])")
_USER = re.compile(r"(?<=:/)(/?)(?![^/:@]*:\d+(?:/|$))[^/@]*:[^@]*@")
"""`key:secret@` before the bucket. A host with a port is none, and neither is `container@account`."""
_SIGNATURE = re.compile(r"[?&](?:sig|[a-z-]*signature)=.*", re.IGNORECASE)
"""The end of a presigned URL, or of one with a shared access signature."""


class UrlPath(PurePosixPath):
    """A path below a URL, with the operations of a path that touch no file.

    `str` gives the URL. The first two parts are the scheme, with a colon, and the bucket, container or host.
    """

    def __str__(self) -> str:
        return _COLLAPSED.sub(r"\1://", super().__str__())

    def __fspath__(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"UrlPath({str(self)!r})"


def scheme_of(path: str) -> str | None:
    """Return the scheme of a URL, in lower case; None for a local path."""
    match = _URL.match(path)
    return match[1].lower() if match else None


def without_credentials(url: str) -> str:
    """Return a URL without the credentials that are part of it."""
    return _SIGNATURE.sub("", _USER.sub(r"\1", url))


def url_path(url: str) -> UrlPath:
    """Return the URL as a path. A slash at its end does not matter."""
    scheme = scheme_of(url)
    assert scheme is not None
    return UrlPath(f"{scheme}:/", url.partition(":")[2].strip("/"))


def path_of(path: str) -> Path:
    """Return a path, which may be a URL, as an object. Only a local one has methods that touch files."""
    # All code that handles a UrlPath treats it as a name. To say so in types would make each signature a
    # union.
    return url_path(path) if scheme_of(path) else Path(path)  # type: ignore[return-value]


def has_urls(paths: Iterable[Path]) -> bool:
    """Return whether one of the paths is a URL."""
    return any(isinstance(path, UrlPath) for path in paths)
