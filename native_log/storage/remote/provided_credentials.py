"""Credentials that a function of the user returns, again whenever they expire."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from native_log.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Callable

EXPIRES_AT = "expires_at"

_CREDENTIALS = {
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "token",
    "token": "token",
    "bearer_token": "token",
    "account_key": "access_key",
    "access_key": "access_key",
    "sas_token": "sas_token",
    "sas_key": "sas_token",
}
"""Options that are credentials, without the prefix of the cloud, and their names in obstore's callbacks."""


class ProvidedCredentials:
    """A function `module:function`, which takes a URL and returns storage options for it.

    Those that are credentials count until `expires_at` (a datetime, or epoch seconds) if that is among them.
    Then the function is called again. The others are read once.
    """

    def __init__(self, name: str, url: str) -> None:
        """Find the function. Raises KafkaLogError if this process cannot import it."""
        self._name = name
        self._url = url
        module, _, function = name.partition(":")
        try:
            self._function: Callable[[str], object] = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError):
            raise KafkaLogError(
                f"credential_provider: expected module:function that this process can import, found {name!r}",
                path=url,
            ) from None

    def __call__(self) -> dict[str, Any]:
        """Return credentials as obstore takes them. Raises as `options`."""
        provided = self._call()
        expires_at = provided.pop(EXPIRES_AT, None)
        if isinstance(expires_at, int | float):
            expires_at = datetime.fromtimestamp(expires_at, UTC)
        elif isinstance(expires_at, datetime) and expires_at.tzinfo is None:
            expires_at = expires_at.replace(tzinfo=UTC)
        names = {name: _CREDENTIALS[_plain(name)] for name in provided if _plain(name) in _CREDENTIALS}
        return {**{names[name]: provided[name] for name in names}, EXPIRES_AT: expires_at}

    def options(self) -> dict[str, str]:
        """Return the options that are not credentials, such as a region.

        Raises KafkaLogError if the function fails. The message does not repeat its error, which may contain
        secrets.
        """
        return {
            name: str(value)
            for name, value in self._call().items()
            if _plain(name) not in _CREDENTIALS and name != EXPIRES_AT
        }

    def _call(self) -> dict[str, Any]:
        try:
            provided = self._function(self._url)
        except Exception as error:
            raise KafkaLogError(
                f"credential_provider {self._name} failed with {type(error).__name__}; see its own log",
                path=self._url,
            ) from error
        if not isinstance(provided, Mapping):
            raise KafkaLogError(
                f"credential_provider {self._name}: expected a mapping of storage options, found a "
                f"{type(provided).__name__}",
                path=self._url,
            )
        return dict(provided)


def _plain(name: str) -> str:
    return name.lower().removeprefix("aws_").removeprefix("azure_storage_").removeprefix("google_")
