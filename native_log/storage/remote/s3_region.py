"""The region of a bucket of S3."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_AMAZON = "https://s3.amazonaws.com"
_REGION = ("region", "default_region")
_ENDPOINT = ("endpoint", "endpoint_url")
_HEADER = "x-amz-bucket-region"
_TIMEOUT_SECONDS = 10


def is_region_given(options: Mapping[str, str]) -> bool:
    """Return whether options or the environment say in which region a bucket is."""
    return _given(_REGION, options) is not None


def region_of_bucket(bucket: str, options: Mapping[str, str]) -> str | None:
    """Return the region of a bucket, which S3 tells without credentials; None if it does not tell it.

    Args:
        bucket: its name.
        options: may name an endpoint. So may the environment.
    """
    endpoint = _given(_ENDPOINT, options) or _AMAZON
    # The bucket was requested from this endpoint before, so its scheme is one of HTTP.
    request = urllib.request.Request(f"{endpoint.rstrip('/')}/{bucket}", method="HEAD")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
            region: str | None = response.headers.get(_HEADER)
    except urllib.error.HTTPError as error:  # nearly always: redirected, or denied
        region = error.headers.get(_HEADER)
    except (OSError, ValueError):
        region = None
    return region


def _given(names: tuple[str, ...], options: Mapping[str, str]) -> str | None:
    found = (options.get(name) or options.get(f"aws_{name}") for name in names)
    in_environment = (os.environ.get(f"AWS_{name.upper()}") for name in names)
    return next(filter(None, (*found, *in_environment)), None)
