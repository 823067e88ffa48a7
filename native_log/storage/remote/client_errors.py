"""What errors of obstore mean, in words that contain no URL, signature or option."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from native_log.errors import KafkaLogError
from native_log.storage.remote.buckets import replaced

_BROKEN_TRANSFER = "error decoding response body|response body error|connection closed"
_DENYING = ("PermissionDeniedError", "UnauthenticatedError")


def configuration_error(error: Exception, url: str) -> KafkaLogError:
    """Return the error that a bucket cannot be opened with the options given."""
    reason = str(error).strip().partition("\n")[0]
    if reason.startswith("Generic HTTP client error"):
        return KafkaLogError(
            "expected a valid URL of a proxy, found another; check proxy_url and the environment",
            path=url,
        )
    unknown = re.search(r"Configuration key: '(\w+)' is not valid", reason)
    if unknown is not None:
        return KafkaLogError(
            f"expected an option by the name that Polars and delta-rs use, found {unknown[1]}",
            path=url,
        )
    reason = re.sub(r"^Generic ([A-Z]\w+ )?error: ", "", re.sub(r'"[^"]*"', "a value", reason))
    return KafkaLogError(f"expected valid storage options, found others: {reason}", path=url)


def is_broken_transfer(error: Exception) -> bool:
    """Return whether a connection broke off while bytes arrived, which the client itself does not repeat."""
    return re.search(_BROKEN_TRANSFER, str(error)) is not None


def is_in_another_region(error: Exception) -> bool:
    """Return whether S3 says that the bucket is in a region other than the one the request went to."""
    return _Failure.of(error).reason == _ELSEWHERE


def translated(error: Exception, path: str) -> Exception:
    """Return the error of a storage as one of the operating system, without URLs and headers of requests."""
    failure = _Failure.of(error)
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such object", path)
    if failure.status == 412:
        return replaced(path)
    reason = failure.reason
    if reason == _DENIED:
        return PermissionError(errno.EACCES, f"{reason}{failure.code_in_brackets}", path)
    return OSError(errno.EIO, f"the storage cannot be read: {reason}{failure.code_in_brackets}", path)


_DENIED = "access was denied; check the credentials and their permissions"
_ELSEWHERE = "the bucket is in another region; set aws_region"
_EXPIRED = "the token has expired; give a new one, or a credential_provider"
_ARCHIVED = "the object is archived; restore it first, or copy it to a storage class that can be read at once"
_BY_CODE = {
    "ExpiredToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestTimeTooSkewed": "its clock differs from that of this machine; set the clock",
    "InvalidObjectState": _ARCHIVED,
    "BlobArchived": _ARCHIVED,
    "BlobBeingRehydrated": "the object is being restored from an archive; read it later",
    "NoSuchBucket": "there is no such bucket",
    "ContainerNotFound": "there is no such container",
    "PermanentRedirect": _ELSEWHERE,
    "AuthorizationHeaderMalformed": _ELSEWHERE,
}
_OVERLOADED = "it is overloaded, also after several attempts; read later, or in fewer tasks"
_PROXY_LOGIN = "the proxy expects a user and a password; add them to its URL"
_UNREACHABLE = "the proxy or gateway in front of it does not reach it; check the endpoint"
_BY_STATUS = {
    301: _ELSEWHERE,
    401: _DENIED,
    403: _DENIED,
    404: "there is no such bucket or user",
    407: _PROXY_LOGIN,
    416: "the object is shorter than it was listed",
    429: _OVERLOADED,
    500: "it reports an error of its own, also after several attempts",
    502: _UNREACHABLE,
    503: _OVERLOADED,
    504: _UNREACHABLE,
}
_BY_TEXT = (
    (r"redirect without LOCATION", _ELSEWHERE),
    (
        r"dns error|failed to lookup|Name or service",
        "its host is unknown; check the endpoint and region",
    ),
    (r"ProxyAuthRequired", _PROXY_LOGIN),
    (
        r"TunnelUnsuccessful",
        "the proxy does not connect to it; check the endpoint, and what the proxy allows",
    ),
    (r"unsupported scheme", "proxies of this kind are not supported; give one with http:// or https://"),
    (r"Connection refused|tcp connect error", "it refuses connections; check the endpoint and the proxy"),
    (
        r"TimedOut|timed out|operation was slow",
        "it did not answer in time; check the endpoint",
    ),
    (r"BadScheme|scheme is not allowed", "it is not encrypted; set allow_http=true to allow that"),
    (r"InvalidContentType", "it does not speak TLS; give an endpoint with http://, and set allow_http=true"),
    (
        r"UnknownIssuer|CaUsedAsEndEntity",
        "an unknown CA signed its certificate; set SSL_CERT_FILE to a file with that CA's certificate",
    ),
    (r"NotValidForName", "its certificate is for another host; check the endpoint"),
    (r"InvalidCertificate\(\s*Expired", "its certificate has expired"),
    (r"(?i)certificate", "its certificate is not valid"),
    (rf"{_BROKEN_TRANSFER}|IncompleteMessage", "connections broke off, also after several attempts"),
)
"""What the texts of clients mean."""


@dataclass(frozen=True)
class _Failure:
    """What the error of a client says. Its text cannot be shown: it contains URLs, perhaps with signatures.

    Attributes:
        kind: the name of the error's class.
        status: the status of the response; None: there was none.
        code: the code that the storage gives, such as SlowDown; None: it gives none.
        text: the whole text.
    """

    kind: str
    status: int | None
    code: str | None
    text: str

    @classmethod
    def of(cls, error: Exception) -> _Failure:
        text = str(error)
        status = re.search(r"status code: (\d{3})", text)
        code = re.search(r"<Code>([\w.]+)</Code>", text)
        if isinstance(error, PermissionError) or type(error).__name__ in _DENYING:
            return cls(type(error).__name__, 403, code[1] if code else None, text)
        if type(error).__name__ == "PreconditionError":
            return cls(type(error).__name__, 412, None, text)
        return cls(type(error).__name__, int(status[1]) if status else None, code[1] if code else None, text)

    @property
    def reason(self) -> str:
        """What is wrong, and what to do."""
        if "credential_provider" in self.text:
            return "the credential_provider failed; see its own log"
        if "169.254.169.254" in self.text or "metadata.google.internal" in self.text:
            return "no credentials were found in options and environment, and the host has none"
        if self.code in _BY_CODE:
            return _BY_CODE[self.code]
        if self.status is not None:
            return _BY_STATUS.get(self.status, f"it answers with status {self.status}")
        found = (reason for pattern, reason in _BY_TEXT if re.search(pattern, self.text))
        return next(found, f"its client reports {self.kind}")

    @property
    def code_in_brackets(self) -> str:
        return f" ({self.code})" if self.code else ""
