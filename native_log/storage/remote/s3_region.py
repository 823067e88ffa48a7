"""The region of a bucket of S3."""

from __future__ import annotations

import os
import ssl
import urllib.error
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

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


def region_of_bucket(bucket: str, config: Mapping[str, str], client: Mapping[str, str]) -> str | None:
    """Return the region of a bucket, which S3 tells without credentials; None if it does not tell it.

    Args:
        bucket: its name.
        config: the store's configuration. It may name an endpoint, as may the environment.
        client: the options of its HTTP client, which may name a proxy.
    """
    endpoint = _given(_ENDPOINT, config) or _AMAZON
    # The client has just sent a request to this endpoint, so its scheme is http or https.
    request = urllib.request.Request(f"{endpoint.rstrip('/')}/{bucket}", method="HEAD")  # noqa: S310
    opener = urllib.request.build_opener(*_handlers(urlsplit(endpoint).hostname or "", client))
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            region: str | None = response.headers.get(_HEADER)
    except urllib.error.HTTPError as error:  # nearly always: redirected, or denied
        region = error.headers.get(_HEADER)
    except (OSError, ValueError):
        region = None
    return region


def _handlers(host: str, client: Mapping[str, str]) -> list[urllib.request.BaseHandler]:
    """Return what makes urllib follow the options of the client. Both follow the variables of proxies."""
    handlers: list[urllib.request.BaseHandler] = []
    if "proxy_url" in client:
        excludes = {"no": client.get("proxy_excludes", "")}
        is_excluded = urllib.request.proxy_bypass_environment(host, excludes)  # type: ignore[attr-defined]
        proxies = {} if is_excluded else dict.fromkeys(("http", "https"), client["proxy_url"])
        handlers.append(urllib.request.ProxyHandler(proxies))
    if client.get("allow_invalid_certificates", "").lower() == "true":
        context = ssl._create_unverified_context()  # noqa: S323
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return handlers


def _given(names: tuple[str, ...], config: Mapping[str, str]) -> str | None:
    in_config = (config.get(name) for name in names)
    in_environment = (os.environ.get(f"AWS_{name.upper()}") for name in names)
    return next(filter(None, (*in_config, *in_environment)), None)
