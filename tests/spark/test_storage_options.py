"""Options of object stores by Hadoop's names."""

from __future__ import annotations

import pytest

from kafkalog_spark.errors import OptionError, session_settings_note
from kafkalog_spark.options.storage import is_of_another_bucket, is_secret, parse_storage_options
from native_log.storage import StorageOptions


def values(options: dict[str, str], url: str) -> dict[str, str]:
    return StorageOptions(parse_storage_options(options)).values(url)


def test_s3() -> None:
    options = {
        "fs.s3a.access.key": "A",
        "fs.s3a.secret.key": "S",
        "fs.s3a.session.token": "T",
        "fs.s3a.endpoint": "minio:9000",
        "FS.S3A.Endpoint.Region": "eu-west-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.requester.pays.enabled": "true",
        "fs.s3a.encryption.algorithm": "SSE-C",
        "fs.s3a.encryption.key": "K",
        "fs.s3a.fast.upload": "true",
        "path": "s3a://b/x",
    }
    assert parse_storage_options(options) == {
        "aws_access_key_id": "A",
        "aws_secret_access_key": "S",
        "aws_session_token": "T",
        "aws_endpoint": "http://minio:9000",
        "aws_region": "eu-west-1",
        "aws_virtual_hosted_style_request": "false",
        "allow_http": "true",
        "aws_request_payer": "true",
        "aws_server_side_encryption": "sse-c",
        "aws_sse_customer_key_base64": "K",
    }


def test_proxies() -> None:
    options = {
        "fs.s3a.proxy.host": "proxy",
        "fs.s3a.proxy.port": "3128",
        "fs.s3a.bucket.a.b.proxy.host": "other",
        "fs.s3a.bucket.a.b.proxy.ssl.enabled": "true",
        "fs.s3a.bucket.a.b.proxy.username": "me@home",
        "fs.s3a.bucket.a.b.proxy.password": "se/cret",
    }
    assert values(options, "s3a://b/x") == {"proxy_url": "http://proxy:3128"}
    assert values(options, "s3a://a.b/x") == {"proxy_url": "https://me%40home:se%2Fcret@other:3128"}
    assert parse_storage_options({"fs.s3a.proxy.host": "p"}) == {"proxy_url": "http://p:443"}
    assert parse_storage_options({"fs.s3a.proxy.port": "80"}) == {}
    google = {"fs.gs.proxy.address": "proxy:3128", "fs.gs.proxy.username": "me", "fs.gs.proxy.password": "x"}
    assert parse_storage_options(google) == {"proxy_url": "http://me:x@proxy:3128"}
    assert parse_storage_options({"aws_proxy_host": "p"}) == {"aws_proxy_host": "p"}  # an unknown option
    assert parse_storage_options({"proxy_url": "http://p:1", "timeout": "5s"}) == {
        "proxy_url": "http://p:1",
        "timeout": "5s",
    }


def test_an_endpoint_that_is_not_encrypted_by_itself() -> None:
    assert parse_storage_options({"fs.s3a.endpoint": "http://minio"}) == {
        "aws_endpoint": "http://minio",
        "allow_http": "true",
    }
    assert parse_storage_options({"fs.s3a.endpoint": "minio"}) == {"aws_endpoint": "https://minio"}


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        ("s3.eu-central-1.amazonaws.com", "eu-central-1"),
        ("https://s3-eu-west-1.amazonaws.com/", "eu-west-1"),
        ("s3-fips.dualstack.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("bucket.vpce-0a1b-2c.s3.us-east-1.vpce.amazonaws.com", "us-east-1"),
        ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("s3.amazonaws.com", None),
        ("s3.eu-west-1.example.com", None),
    ],
)
def test_the_region_that_an_endpoint_names(endpoint: str, region: str | None) -> None:
    assert parse_storage_options({"fs.s3a.endpoint": endpoint}).get("aws_region") == region
    of_bucket = parse_storage_options({"fs.s3a.bucket.a.b.endpoint": endpoint})
    assert of_bucket.get("a.b/aws_region") == region
    given = {f"fs.s3a.{scope}endpoint": endpoint for scope in ("", "bucket.b.")}
    assert values({**given, "fs.s3a.endpoint.region": "given"}, "s3a://b/x")["aws_region"] == "given"


@pytest.mark.parametrize("bucket", ["backup", "logs.backup.example.com", "a.endpoint"])
def test_one_bucket(bucket: str) -> None:
    options = {
        "fs.s3a.access.key": "A",
        "fs.s3a.endpoint.region": "r",
        f"fs.s3a.bucket.{bucket}.access.key": "B",
        f"fs.s3a.bucket.{bucket}.endpoint": "minio",
        f"fs.s3a.bucket.{bucket}.connection.ssl.enabled": "false",
        f"fs.s3a.bucket.{bucket}.fast.upload": "true",
    }
    assert values(options, "s3a://other/x") == {"aws_access_key_id": "A", "aws_region": "r"}
    assert values(options, f"s3a://{bucket}/x") == {
        "aws_access_key_id": "B",
        "aws_region": "r",
        "aws_endpoint": "http://minio",
        "allow_http": "true",
    }


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", {}),
        ("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", {"aws_skip_signature": "true"}),
        ("software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider, a.b.C", None),
        ("com.example.OurProvider", None),
    ],
)
def test_classes_that_provide_credentials(names: str, expected: dict[str, str] | None) -> None:
    options = {"fs.s3a.aws.credentials.provider": names}
    if expected is not None:
        assert parse_storage_options(options) == expected
        return
    with pytest.raises(OptionError, match=r"is a class of Java.*credentialProvider"):
        parse_storage_options(options)


def test_azure() -> None:
    host = "dfs.core.windows.net"
    options = {
        f"fs.azure.account.key.one.{host}": "K1",
        f"fs.azure.sas.fixed.token.box.two.{host}": "S2",
        f"fs.azure.account.oauth2.client.id.three.{host}": "I3",
        f"fs.azure.account.oauth2.client.secret.three.{host}": "C3",
        f"fs.azure.account.oauth2.client.endpoint.three.{host}": "https://login.microsoftonline.com/t3/oauth2/token",
        f"fs.azure.account.auth.type.three.{host}": "OAuth",
    }
    assert values(options, f"abfss://c@one.{host}/x") == {"azure_storage_account_key": "K1"}
    assert values(options, f"abfss://box@two.{host}/x") == {"azure_storage_sas_key": "S2"}
    assert values(options, f"abfss://c@two.{host}/x") == {}
    assert values(options, f"abfss://c@three.{host}/x") == {
        "azure_storage_client_id": "I3",
        "azure_storage_client_secret": "C3",
        "azure_storage_tenant_id": "t3",
    }
    assert parse_storage_options({"fs.azure.account.key": "K"}) == {"azure_storage_account_key": "K"}
    with pytest.raises(OptionError, match="credentialProvider"):
        parse_storage_options({"fs.azure.account.auth.type": "Custom"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fs.s3a.access.key", False),
        ("fs.s3a.bucket.logs.access.key", False),
        ("fs.s3a.bucket.logs.fast.upload", False),
        ("fs.s3a.bucket.logs.example.com.access.key", True),
        ("fs.s3a.bucket.other.access.key", True),
        ("fs.s3a.bucket.other.fast.upload", True),
    ],
)
def test_options_of_another_bucket(name: str, expected: bool) -> None:
    assert is_of_another_bucket(name, "logs") is expected


def test_google_and_names_of_polars() -> None:
    assert parse_storage_options(
        {
            "google.cloud.auth.service.account.json.keyfile": "/key.json",
            "aws_region": "r",
            "credentialProvider": "m:f",
        }
    ) == {"google_service_account": "/key.json", "aws_region": "r", "credential_provider": "m:f"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fs.s3a.secret.key", True),
        ("fs.s3a.bucket.b.session.token", True),
        ("fs.s3a.bucket.logs.example.com.secret.key", True),
        ("fs.s3a.encryption.key", True),
        ("fs.s3a.encryption.algorithm", False),
        ("fs.s3a.endpoint", False),
        ("fs.azure.account.key.one.dfs.core.windows.net", True),
        ("fs.azure.account.oauth2.client.secret", True),
        ("fs.azure.sas.fixed.token.box.two.dfs.core.windows.net", True),
        ("fs.azure.account.oauth2.client.id", False),
        ("aws_access_key_id", True),
        ("aws_sse_customer_key_base64", True),
        ("aws_region", False),
        ("fs.s3a.proxy.password", True),
        ("fs.s3a.bucket.logs.proxy.password", True),
        ("fs.s3a.proxy.host", False),
        ("fs.gs.proxy.password", True),
        ("fs.gs.proxy.address", False),
        ("proxy_url", True),
        ("azure_storage_sas_key", True),
        ("google_service_account_key", True),
        ("google_service_account", False),
        ("subscribe", False),
    ],
)
def test_secrets_are_known_by_name(name: str, expected: bool) -> None:
    assert is_secret(name) is expected


@pytest.mark.parametrize(
    ("path", "options", "error", "is_noted"),
    [
        ("s3a://b/x", {}, PermissionError, True),
        ("s3a://b/x", {}, FileNotFoundError, False),
        ("s3a://b/x", {"aws_region": "r"}, PermissionError, False),
        ("/logs", {}, PermissionError, False),
    ],
)
def test_settings_of_the_session_that_were_not_passed_on(
    path: str, options: dict[str, str], error: type[OSError], is_noted: bool
) -> None:
    with (
        pytest.raises(OSError, match="denied") as raised,
        session_settings_note([path], StorageOptions(options)),
    ):
        raise error("access was denied")
    notes = "\n".join(getattr(raised.value, "__notes__", []))
    assert (".options(**kafkalog_spark.storage_options(spark, path))" in notes) == is_noted
