"""The settings with which object stores are opened, and how secrets stay out of plans and messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache

from native_log.errors import KafkaLogError
from native_log.storage.remote.provided_credentials import ProvidedCredentials
from native_log.storage.urls import url_path

CREDENTIAL_PROVIDER = "credential_provider"
"""The option that names a function, `module:function`: see ProvidedCredentials."""

CLIENT_OPTIONS = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "proxy_excludes",
    "proxy_url",
    "timeout",
)
"""Options of the HTTP client, the same for all object stores. `proxy_url` may contain a password."""

_PUBLIC = re.compile(
    r"(aws_|azure_|google_)?(endpoint|endpoint_url|region|default_region|virtual_hosted_style_request"
    r"|skip_signature|storage_account_name|account_name|use_emulator|use_fabric_endpoint|unsigned_payload"
    rf"|request_payer|s3_express|{'|'.join(each for each in CLIENT_OPTIONS if each != 'proxy_url')})"
    rf"|{CREDENTIAL_PROVIDER}"
)
"""Options whose values are not secret."""

_known_secrets: dict[str, dict[str, str]] = {}
"""The secret options of this process, by the token that stands for them."""


class StorageOptions:
    """Options of object stores, by the names that Polars and delta-rs use (`aws_access_key_id`, ...).

    An option applies to all URLs, or to one bucket if its name begins with it: `bucket/aws_region`. For
    Azure, it can begin with the account, or with `container@account`.

    Neither `repr` nor a pickled copy contains secrets. A copy that was unpickled in another process finds
    them there only after `CarriedSecrets` brought them.
    """

    __slots__ = ("_public", "_token")

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        """Take the options. Raises TypeError if a name or a value is of another type."""
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"storage_options: expected a mapping, found {type(options).__name__}")
        values = {name.lower(): _text(name, value) for name, value in (options or {}).items()}
        self._public = {
            name: value for name, value in values.items() if _PUBLIC.fullmatch(name.rpartition("/")[2])
        }
        secret = {name: value for name, value in values.items() if name not in self._public}
        self._token = _token_of(secret)
        if secret:
            _known_secrets[self._token] = secret

    @classmethod
    def of(cls, options: StorageOptionsLike) -> StorageOptions:
        """Return the options as they are, or those of a mapping. Raises TypeError as the constructor."""
        return options if isinstance(options, StorageOptions) else cls(options)

    @classmethod
    def _restore(cls, public: dict[str, str], token: str) -> StorageOptions:
        options = cls(public)
        options._token = token
        return options

    def __reduce__(self) -> tuple[object, ...]:
        return StorageOptions._restore, (self._public, self._token)

    def __repr__(self) -> str:
        return f"StorageOptions({self._public!r}{', and secrets' if self._token else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StorageOptions):
            return NotImplemented
        return (self._public, self._token) == (other._public, other._token)

    def __hash__(self) -> int:
        return hash((frozenset(self._public.items()), self._token))

    def carried(self) -> CarriedSecrets:
        """Return a value whose pickled form contains the secrets, to bring them to another process once."""
        return CarriedSecrets(self._token, _known_secrets.get(self._token, {}))

    def values(self, url: str) -> dict[str, str]:
        """Return all options, secrets included, without the credential provider.

        Raises KafkaLogError if the secrets are not in this process; it names `url`.
        """
        if self._token and self._token not in _known_secrets:
            raise KafkaLogError(
                "expected the credentials of this storage in this process, found none: a pickled log never "
                "contains them. Set them in the environment, or name a credential_provider",
                path=url,
            )
        everything = {**self._public, **_known_secrets.get(self._token, {})}
        values = {name: value for name, value in everything.items() if "/" not in name}
        for scope in _scopes(url):
            values |= {
                name.removeprefix(scope): value
                for name, value in everything.items()
                if name.startswith(scope)
            }
        values.pop(CREDENTIAL_PROVIDER, None)
        return values

    def provider(self, url: str) -> ProvidedCredentials | None:
        """Return the credential provider for a URL; None if none is named. Raises KafkaLogError."""
        name = self._public.get(CREDENTIAL_PROVIDER)
        return None if name is None else ProvidedCredentials(name, url)


StorageOptionsLike = StorageOptions | Mapping[str, object] | None
"""What functions take as storage options."""


class CarriedSecrets:
    """Secret options on their way to another process. They are known there as soon as this is unpickled."""

    def __init__(self, token: str, values: dict[str, str]) -> None:
        self._token = token
        self._values = values

    def __repr__(self) -> str:
        return "CarriedSecrets(...)"

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if self._token:
            _known_secrets[self._token] = self._values


def _scopes(url: str) -> list[str]:
    """Return with what the names of options begin that apply to the bucket of a URL only."""
    bucket, _, account = url_path(url).parts[1].partition("@")
    account = account.partition(".")[0]
    scopes = [f"{account}/", f"{bucket}@{account}/"] if account else []
    return [*scopes, f"{bucket}/"]


def _text(name: str, value: object) -> str:
    if not isinstance(name, str) or not isinstance(value, str | bool | int):
        kind = type(value if isinstance(name, str) else name).__name__
        raise TypeError(f"storage_options: {name}: expected a str, found a value of type {kind}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _token_of(secret: Mapping[str, str]) -> str:
    """Return a token that stands for secrets, the same in every process.

    A query of Spark is planned in several processes, and their plans must agree. The token is slow to
    compute, so that nobody finds a weak password by trying.
    """
    return _digest(repr(sorted(secret.items()))) if secret else ""


@lru_cache(maxsize=64)
def _digest(text: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", text.encode(), b"kafkalog", 50_000).hex()
