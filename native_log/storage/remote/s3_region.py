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


def is_region_given(config: Mapping[str, str]) -> bool:
    """Return whether a store's configuration or the environment says in which region its bucket is."""
    return _given(_REGION, config) is not None


def region_of_bucket(bucket: str, config: Mapping[str, str]) -> str | None:
    """Return the region of a bucket, which S3 tells without credentials; None if it does not tell it.

    Args:
        bucket: its name.
        config: the store's configuration. It may name an endpoint, as may the environment.
    """
    endpoint = _given(_ENDPOINT, config) or _AMAZON
    # The client has just sent a request to this endpoint, so its scheme is http or https.
    request = urllib.request.Request(f"{endpoint.rstrip('/')}/{bucket}", method="HEAD")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
            region: str | None = response.headers.get(_HEADER)
    except urllib.error.HTTPError as error:  # nearly always: redirected, or denied
        region = error.headers.get(_HEADER)
    except (OSError, ValueError):
        region = None
    return region


def _given(names: tuple[str, ...], config: Mapping[str, str]) -> str | None:
    in_config = (config.get(name) for name in names)
    in_environment = (os.environ.get(f"AWS_{name.upper()}") for name in names)
    return next(filter(None, (*in_config, *in_environment)), None)
