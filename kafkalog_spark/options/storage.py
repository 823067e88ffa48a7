"""Options of object stores: Hadoop's names, as Spark users know them, and those of Polars and delta-rs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from kafkalog_spark.errors import OptionError
from native_log.storage import CLIENT_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

CREDENTIAL_PROVIDER = "credentialProvider"
_PREFIXES = ("fs.", "aws_", "azure_", "google_", "google.cloud.")

_S3A = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint": "aws_endpoint",
    "endpoint.region": "aws_region",
    "encryption.key": "aws_sse_customer_key_base64",  # has no effect without encryption.algorithm
    "server-side-encryption.key": "aws_sse_customer_key_base64",
    # The parts of one URL: see _with_proxies.
    "proxy.host": "proxy_host",
    "proxy.port": "proxy_port",
    "proxy.username": "proxy_username",
    "proxy.password": "proxy_password",
}
_S3A_SWITCHES = {
    # False is Hadoop's default. Its client then falls back to paths where they are needed.
    ("path.style.access", "true"): ("aws_virtual_hosted_style_request", "false"),
    ("connection.ssl.enabled", "false"): ("allow_http", "true"),
    ("proxy.ssl.enabled", "true"): ("proxy_scheme", "https"),
    ("requester.pays.enabled", "true"): ("aws_request_payer", "true"),
    ("encryption.algorithm", "sse-c"): ("aws_server_side_encryption", "sse-c"),
    ("server-side-encryption-algorithm", "sse-c"): ("aws_server_side_encryption", "sse-c"),
}
"""Options with the only value of each that matters, and the setting that it becomes."""
_S3A_PROVIDER = "aws.credentials.provider"
_S3A_PROVIDERS = {
    "SimpleAWSCredentialsProvider": False,
    "TemporaryAWSCredentialsProvider": False,
    "AnonymousAWSCredentialsProvider": True,
    "EnvironmentVariableCredentialsProvider": False,
    "DefaultAWSCredentialsProviderChain": False,
    "DefaultCredentialsProvider": False,
    "InstanceProfileCredentialsProvider": False,
    "IAMInstanceCredentialsProvider": False,
    "ContainerCredentialsProvider": False,
    "EC2ContainerCredentialsProviderWrapper": False,
    "WebIdentityTokenCredentialsProvider": False,
    "WebIdentityTokenFileCredentialsProvider": False,
}
"""The classes that mean what is done anyway, and whether they sign no request."""
_AMAZON_ENDPOINT = re.compile(
    r"https?://([^/]+\.)?s3([.-](dualstack|fips))*[.-](?P<region>[a-z]{2}(-[a-z]+)+-\d+)"
    r"(\.vpce)?\.amazonaws\.com(\.cn)?/?"
)
_AZURE = {
    "account.key": "azure_storage_account_key",
    "account.auth.type": "",
    "account.oauth2.client.id": "azure_storage_client_id",
    "account.oauth2.client.secret": "azure_storage_client_secret",
    "account.oauth2.client.endpoint": "azure_storage_tenant_id",
    "sas.fixed.token": "azure_storage_sas_key",
    "sas": "azure_storage_sas_key",
}
_GOOGLE_PROXY = {
    "fs.gs.proxy.address": "proxy_host",  # with its port
    "fs.gs.proxy.username": "proxy_username",
    "fs.gs.proxy.password": "proxy_password",
}
_GOOGLE_KEY_FILES = (
    "google.cloud.auth.service.account.json.keyfile",
    "fs.gs.auth.service.account.json.keyfile",
)
_S3A_NAMES = "|".join(
    re.escape(name) for name in (*_S3A, *dict.fromkeys(name for name, _ in _S3A_SWITCHES), _S3A_PROVIDER)
)
_PROXY_PARTS = ("scheme", "host", "port", "username", "password")
_PROXY_PART = re.compile(rf"(.*/)?proxy_({'|'.join(_PROXY_PARTS)})")
_OF_BUCKET = re.compile(rf"fs\.s3a\.bucket\.(.+)\.({_S3A_NAMES})")
"""An option of one bucket, whose name may contain dots."""
_SECRET = re.compile(
    r"fs\.s3a\.(bucket\..+\.)?(access|secret|encryption|server-side-encryption)\.key"
    r"|fs\.s3a\.(bucket\..+\.)?(session\.token|proxy\.password)"
    r"|fs\.gs\.proxy\.password"
    r"|fs\.azure\..*(account\.key|client\.secret|sas)\b.*"
    r"|(aws_|azure_|google_).*(key|secret|token|sas|password)(_id|_base64)?"
    r"|(aws_|azure_|google_)?proxy_url"
)


def is_storage_option(name: str) -> bool:
    """Return whether this may be an option of object stores."""
    lower = name.lower()
    return lower.startswith(_PREFIXES) or lower in CLIENT_OPTIONS or lower == CREDENTIAL_PROVIDER.lower()


def is_secret(name: str) -> bool:
    """Return whether the option of object stores must not be stored or shown."""
    return _SECRET.fullmatch(name.lower()) is not None


def is_of_another_bucket(name: str, bucket: str) -> bool:
    """Return whether an option by Hadoop's name applies to buckets other than this one only."""
    if not name.startswith("fs.s3a.bucket."):
        return False
    match = _OF_BUCKET.fullmatch(name)
    return match[1] != bucket if match else not name.startswith(f"fs.s3a.bucket.{bucket}.")


def parse_storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return storage options by the names that Polars and delta-rs use. Unknown ones of Hadoop are ignored.

    A name that applies to one bucket or account only begins with it: `bucket/aws_region`.

    Args:
        options: all options of a read, by any names.

    Raises OptionError for credentials that this process cannot get. It names no value of a secret.
    """
    parsed: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower == CREDENTIAL_PROVIDER.lower():
            parsed["credential_provider"] = value
        elif lower.startswith(("aws_", "azure_", "google_")) or lower in CLIENT_OPTIONS:
            parsed[lower] = value
        elif match := _OF_BUCKET.fullmatch(lower):
            parsed |= _with_scope(match[1], _s3a(match[2], value))
        elif lower.startswith("fs.s3a."):
            parsed |= _s3a(lower.removeprefix("fs.s3a."), value)
        elif lower.startswith("fs.azure."):
            parsed |= _azure(lower.removeprefix("fs.azure."), value)
        elif lower in _GOOGLE_KEY_FILES:
            parsed["google_service_account"] = value
        elif lower in _GOOGLE_PROXY:
            parsed[_GOOGLE_PROXY[lower]] = value
    return _with_proxies(_with_regions(_with_schemes(parsed, options)))


def _with_scope(scope: str, options: Mapping[str, str]) -> dict[str, str]:
    return {f"{scope}/{name}": value for name, value in options.items()}


def _s3a(name: str, value: str) -> dict[str, str]:
    """Return the meaning of an option without `fs.s3a.`."""
    if name in _S3A:
        return {_S3A[name]: value}
    if name == _S3A_PROVIDER:
        classes = [each.strip().rpartition(".")[2] for each in value.split(",")]
        unknown = [each for each in classes if each not in _S3A_PROVIDERS]
        if unknown:
            raise OptionError(
                f"fs.s3a.aws.credentials.provider: {unknown[0]} is a class of Java, which Python cannot use; "
                f"name a function module:function in {CREDENTIAL_PROVIDER}, or leave the option out to use "
                "the credentials of the environment"
            )
        return {"aws_skip_signature": "true"} if _S3A_PROVIDERS[classes[0]] else {}
    found = _S3A_SWITCHES.get((name, value.lower()))
    return {found[0]: found[1]} if found else {}


def _azure(name: str, value: str) -> dict[str, str]:
    """Return the meaning of an option without `fs.azure.`, which may end with a container and an account.

    Raises OptionError for credentials of a class of Java.
    """
    name = re.sub(r"\.(dfs|blob)\.core\.windows\.net$", "", name)
    kind = next((kind for kind in _AZURE if name == kind or name.startswith(f"{kind}.")), None)
    if kind is None:
        return {}
    if kind == "account.auth.type":
        if value.lower() == "custom":
            raise OptionError(
                "fs.azure.account.auth.type: Custom names a class of Java, which Python cannot use; name a "
                f"function module:function in {CREDENTIAL_PROVIDER}"
            )
        return {}
    if kind == "account.oauth2.client.endpoint":
        tenant = re.match(r"https://[^/]+/([^/]+)/", value)
        value = tenant[1] if tenant else value
    found = {_AZURE[kind]: value}
    scope = name.removeprefix(kind).removeprefix(".").replace(".", "@")
    return _with_scope(scope, found) if scope else found


def _with_regions(parsed: dict[str, str]) -> dict[str, str]:
    """Take the region from an Amazon endpoint if none is given, as Hadoop's client does."""
    if "aws_region" in parsed:
        return parsed
    regions = {
        name.replace("aws_endpoint", "aws_region"): match["region"]
        for name, value in parsed.items()
        if name.rpartition("/")[2] == "aws_endpoint" and (match := _AMAZON_ENDPOINT.fullmatch(value))
    }
    return {**regions, **parsed}


def _with_schemes(parsed: dict[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Add the schemes of endpoints, which Hadoop's may lack."""
    lower = {name.lower(): value for name, value in options.items()}
    for name, value in parsed.items():
        if name.rpartition("/")[2] == "aws_endpoint" and "://" not in value:
            bucket = name.rpartition("/")[0]
            given = lower.get(f"fs.s3a.bucket.{bucket}.connection.ssl.enabled") if bucket else None
            is_encrypted = given or lower.get("fs.s3a.connection.ssl.enabled", "true")
            parsed[name] = f"{'http' if is_encrypted.lower() == 'false' else 'https'}://{value}"
        elif name.rpartition("/")[2] == "aws_endpoint" and value.startswith("http://"):
            # Hadoop asks for no further consent to an endpoint that is not encrypted.
            parsed = {**parsed, "allow_http": "true"}
    return parsed


def _with_proxies(parsed: dict[str, str]) -> dict[str, str]:
    """Make one URL of the options of each proxy. Those of a bucket override those of all buckets."""
    parts = {name: value for name, value in parsed.items() if _PROXY_PART.fullmatch(name)}
    options = {name: value for name, value in parsed.items() if name not in parts}
    for scope in {name.rpartition("proxy_")[0] for name in parts}:
        scheme, host, port, username, password = (
            parts.get(f"{scope}proxy_{name}", parts.get(f"proxy_{name}", "")) for name in _PROXY_PARTS
        )
        if host:
            login = f"{quote(username, safe='')}:{quote(password, safe='')}@" if username else ""
            if ":" not in host:
                host += ":" + (
                    port or ("80" if "allow_http" in options else "443")
                )  # as Hadoop's client of S3
            options[f"{scope}proxy_url"] = f"{scheme or 'http'}://{login}{host}"
    return options
