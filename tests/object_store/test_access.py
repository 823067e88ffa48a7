"""What is requested from a bucket, how failures are reported, and which credentials are used."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from cryptography import x509
from obstore.store import S3Store

from benchmarks.http_proxy import Fault, HttpProxy
from native_log import KafkaLogError, LogDir
from native_log.storage import StorageOptions
from native_log.storage.remote import object_bucket
from tests.builders.certificates import server_context
from tests.builders.copies import batches, rows_of, write_copy
from tests.builders.golden import golden
from tests.contents import offsets

if TYPE_CHECKING:
    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.object_store

URL = "s3://data/golden/kafka-4.1/plain-zstd/data"
GOLDEN_LOG = golden("kafka-4.1/plain-zstd")
KEY = (GOLDEN_LOG.topic, GOLDEN_LOG.partition)
EXPECTED = [row["offset"] for row in GOLDEN_LOG.rows()]


@pytest.fixture
def options(s3: S3Server, proxy: HttpProxy) -> dict[str, Any]:
    return {**s3.options, "aws_endpoint": proxy.endpoint, "timeout": "2s"}


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat requests as often as always, but wait less in between."""
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=9), "base": 2}
    monkeypatch.setitem(object_bucket._RETRIES, "backoff", backoff)


def read(options: dict[str, Any], url: str = URL) -> list[int]:
    return offsets(LogDir(url, storage_options=options).partition(*KEY).read(columns=["offset"]))


def test_a_complete_read_fetches_each_byte_once(options: dict[str, Any], proxy: HttpProxy) -> None:
    log = LogDir(URL, storage_options=options).partition(*KEY)
    in_task = pickle.loads(pickle.dumps(log.range()))
    proxy.reset()
    assert offsets(in_task.read(columns=["offset"])) == EXPECTED
    assert all(".log" in request for request in proxy.traffic.requests)
    assert proxy.traffic.body_bytes == log.size_bytes


def test_lookups_that_come_back_to_the_same_bytes_fetch_nothing(
    options: dict[str, Any], proxy: HttpProxy
) -> None:
    log = LogDir(URL, storage_options=options).partition(*KEY)
    time = log.read(columns=["timestamp"]).read_all()["timestamp"][-1].as_py()
    assert log.offset_for_timestamp(time) is not None
    proxy.reset()
    assert log.offset_for_timestamp(time) is not None
    assert offsets(log.read(EXPECTED[-1], columns=["offset"])) == EXPECTED[-1:]
    assert proxy.traffic.requests == []


@pytest.mark.parametrize("fault", [Fault(503, code="SlowDown"), Fault(500), Fault(cut_after=100)], ids=str)
def test_passing_failures_are_repeated(options: dict[str, Any], proxy: HttpProxy, fault: Fault) -> None:
    failed: set[str] = set()

    def first_time_only(request: str) -> Fault | None:
        is_first = request not in failed
        failed.add(request)
        return fault if is_first else None

    proxy.fault = first_time_only
    assert read(options) == EXPECTED


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(503, code="SlowDown"), r"it is overloaded.*\(SlowDown\)"),
        (Fault(403, code="AccessDenied"), r"access was denied; check the credentials.*\(AccessDenied\)"),
        (Fault(400, code="ExpiredToken"), "the token has expired; give a new one, or a credential_provider"),
        (Fault(403, code="RequestTimeTooSkewed"), r"its clock differs from that of this machine.*"),
        (Fault(403, code="InvalidObjectState"), r"the object is archived; restore it first.*\(Inv.*State\)"),
        (Fault(400, code="KMS.DisabledException"), r"it answers with status 400 \(KMS.DisabledException\)"),
        (Fault(407), "the proxy expects a user and a password; add them to its URL"),
        (Fault(502), "the proxy or gateway in front of it does not reach it; check the endpoint"),
        (Fault(cut_after=10), "connections broke off, also after several attempts"),
        (Fault(delay_seconds=5), "it did not answer in time; check the endpoint"),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["list-type", ".log"])
def test_lasting_failures_are_errors_that_name_the_path(
    options: dict[str, Any], proxy: HttpProxy, fault: Fault, message: str, place: str
) -> None:
    proxy.fault = lambda request: fault if place in request else None
    options["timeout"] = "100ms"
    with pytest.raises(OSError, match=message) as error:
        read(options)
    assert str(error.value.filename).startswith(URL)
    assert "http" not in str(error.value)


def test_an_unreachable_endpoint(s3: S3Server) -> None:
    with pytest.raises(OSError, match="it refuses connections; check the endpoint"):
        read({**s3.options, "aws_endpoint": "http://127.0.0.1:1"})


def test_plain_http_is_an_error_unless_it_is_allowed(s3: S3Server) -> None:
    with pytest.raises(OSError, match="it is not encrypted; set allow_http=true"):
        read({**s3.options, "allow_http": False})


LOCALHOST = x509.IPAddress(ip_address("127.0.0.1"))


class TestTls:
    """HTTPS in front of the server, with a certificate of a private CA."""

    def options(self, s3: S3Server, proxy: HttpProxy, **others: Any) -> dict[str, Any]:
        return {**s3.options, "aws_endpoint": proxy.endpoint, "allow_http": False, **others}

    def test_a_private_ca(self, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with HttpProxy(s3.port, tls=server_context(tmp_path, LOCALHOST)) as proxy:
            with pytest.raises(OSError, match="an unknown CA signed its certificate; set SSL_CERT_FILE"):
                read(self.options(s3, proxy))
            assert read(self.options(s3, proxy, allow_invalid_certificates=True)) == EXPECTED
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            assert read(self.options(s3, proxy, connect_timeout="9s")) == EXPECTED  # in another client

    @pytest.mark.parametrize(
        ("host", "valid_days", "message"),
        [
            (x509.DNSName("other.example.com"), 30, "its certificate is for another host"),
            (LOCALHOST, -1, "its certificate has expired"),
        ],
        ids=["other-host", "expired"],
    )
    def test_certificates_that_are_not_valid(
        self,
        s3: S3Server,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        host: x509.GeneralName,
        valid_days: int,
        message: str,
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        context = server_context(tmp_path, host, valid_days=valid_days)
        with HttpProxy(s3.port, tls=context) as proxy, pytest.raises(OSError, match=message):
            read(self.options(s3, proxy))

    def test_https_to_a_server_of_http(self, s3: S3Server) -> None:
        endpoint = s3.endpoint.replace("http:", "https:")
        with pytest.raises(OSError, match="it does not speak TLS; give an endpoint with http://"):
            read({**s3.options, "aws_endpoint": endpoint})


class TestProxies:
    """A proxy on the way to the store."""

    def test_requests_go_through_the_proxy(self, s3: S3Server, proxy: HttpProxy) -> None:
        elsewhere = {"aws_endpoint": "http://store.invalid", "proxy_url": proxy.endpoint}
        assert read({**s3.options, **elsewhere}) == EXPECTED

    def test_hosts_that_are_excluded(self, s3: S3Server) -> None:
        excluded = {"proxy_url": "http://127.0.0.1:1", "proxy_excludes": "127.0.0.1"}
        assert read({**s3.options, **excluded}) == EXPECTED

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("http://user:secret@127.0.0.1:1", "it refuses connections; check the endpoint and the proxy"),
            (
                "socks5://user:secret@127.0.0.1:1",
                "proxies of this kind are not supported",
            ),
            ("http://user:secret@:1", "expected a valid URL of a proxy, found another; check proxy_url"),
        ],
    )
    def test_a_proxy_that_cannot_be_used(self, s3: S3Server, url: str, message: str) -> None:
        with pytest.raises((OSError, KafkaLogError), match=message) as error:
            read({**s3.options, "proxy_url": url})
        assert "secret" not in str(error.value)

    @pytest.mark.parametrize(
        ("status", "message"),
        [
            (403, "the proxy does not connect to it; check the endpoint, and what the proxy allows"),
            (407, "the proxy expects a user and a password; add them to its URL"),
        ],
    )
    def test_a_proxy_that_opens_no_tunnel(
        self, s3: S3Server, proxy: HttpProxy, status: int, message: str
    ) -> None:
        proxy.fault = lambda _: Fault(status)
        with pytest.raises(OSError, match=message):
            read({**s3.options, "aws_endpoint": "https://store.invalid", "proxy_url": proxy.endpoint})
        assert set(proxy.traffic.requests) == {"CONNECT store.invalid:443"}


def test_unknown_options_and_wrong_values_do_not_show_secrets(s3: S3Server) -> None:
    with pytest.raises(KafkaLogError, match="found aws_secret_acces_key") as error:
        read({**s3.options, "aws_secret_acces_key": "very-secret"})
    assert "very-secret" not in str(error.value)
    options = StorageOptions({**s3.options, "aws_session_token": "very-secret"})
    secrets = (s3.options["aws_secret_access_key"], "very-secret", s3.options["aws_access_key_id"])
    assert not any(secret in repr(options) for secret in secrets)
    assert not any(secret.encode() in pickle.dumps(options) for secret in secrets)
    assert all(secret.encode() in pickle.dumps(options.carried()) for secret in secrets)


def test_an_option_of_one_bucket(s3: S3Server) -> None:
    options = {**s3.options, "aws_secret_access_key": "other", "nobody/aws_region": "mars"}
    with pytest.raises(OSError, match="access was denied"):
        read(options)
    assert read({**options, "data/aws_secret_access_key": s3.options["aws_secret_access_key"]}) == EXPECTED


PROVIDER = """
calls = []
secret = {secret!r}

def provide(url):
    calls.append(url)
    return dict(
        aws_access_key_id={access!r}, aws_secret_access_key=secret, aws_region="us-east-1",
        expires_at=0 if len(calls) < 4 else None,
    )

def fail(url):
    raise ValueError(secret)
"""


def test_a_credential_provider_is_called_again_when_its_credentials_expire(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access, secret = s3.options["aws_access_key_id"], s3.options["aws_secret_access_key"]
    (tmp_path / "my_secrets.py").write_text(PROVIDER.format(access=access, secret=secret))
    monkeypatch.syspath_prepend(tmp_path)
    options = {name: s3.options[name] for name in ("aws_endpoint", "allow_http")}
    assert read({**options, "credential_provider": "my_secrets:provide"}) == EXPECTED
    assert len(sys.modules["my_secrets"].calls) == 4
    for name, message in (("fail", "failed with ValueError"), ("missing", "expected module:function")):
        with pytest.raises(KafkaLogError, match=message) as error:
            read({**options, "credential_provider": f"my_secrets:{name}"})
        assert secret not in str(error.value)


def test_credentials_of_the_environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("aws_access_key_id", "aws_secret_access_key", "aws_endpoint", "aws_region"):
        monkeypatch.setenv(name.upper(), s3.options[name])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert read({}) == EXPECTED


def test_credentials_of_a_profile(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access, secret = s3.options["aws_access_key_id"], s3.options["aws_secret_access_key"]
    profile = f"aws_access_key_id = {access}\naws_secret_access_key = {secret}\nregion = us-east-1\n"
    (tmp_path / "credentials").write_text(f"[other]\naws_access_key_id = no\n[backup]\n{profile}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "backup")
    options = {name: s3.options[name] for name in ("aws_endpoint", "allow_http")}
    assert read(options) == EXPECTED
    monkeypatch.setenv("AWS_PROFILE", "missing")
    message = r"expected credentials in the profile missing .* found none .*\(ProfileNotFound\)"
    with pytest.raises(KafkaLogError, match=message):
        read({**options, "region": "us-east-1"})
    assert read({**s3.options}) == EXPECTED


def upload(s3: S3Server, folder: Path, target: str) -> None:
    bucket, _, prefix = target.partition("/")
    (s3.root / bucket).mkdir(exist_ok=True)
    options: Any = {n.removeprefix("aws_"): value for n, value in s3.options.items() if n != "allow_http"}
    store = S3Store(bucket, config=options, client_options={"allow_http": True})
    for file in folder.iterdir():
        obstore.put(store, f"{prefix}/{file.name}", file.read_bytes())


def test_an_object_that_is_replaced_is_not_mixed_with_its_older_version(
    s3: S3Server, options: dict[str, Any], tmp_path: Path
) -> None:
    """Afterwards the log has only its second half, in a file of the same name, as after a compaction."""
    whole = batches(0, 40)
    write_copy(tmp_path / "old", whole)
    write_copy(tmp_path / "new", whole[20:])
    upload(s3, tmp_path / "old" / "t-0", "changing/t-0")
    planned = LogDir("s3://changing/", storage_options=options).partition("t", 0).range()
    located = pickle.loads(pickle.dumps(planned))  # as in a task, which has read nothing of the log yet
    new = tmp_path / "new" / "t-0"
    for file in list(new.glob("*.*")):
        file.rename(new / f"{0:020}{file.suffix}")
    upload(s3, new, "changing/t-0")
    found = offsets(located.read(columns=["offset"], fail_on_data_loss=False))
    assert found == [offset for offset, _ in rows_of(whole[20:])]


FORK = """
import multiprocessing, sys
sys.path.insert(0, {root!r})
from tests.object_store.test_access import read

def work(results):
    try:
        results.put(len(read({options!r})))
    except OSError as error:
        results.put(str(error))

if {is_used_before}:
    read({options!r})
context = multiprocessing.get_context("fork")
results = context.SimpleQueue()
child = context.Process(target=work, args=(results,))
child.start()
print(results.get())
child.join()
"""


@pytest.mark.parametrize("is_used_before", [False, True])
def test_after_a_fork_reading_works_or_fails_at_once(s3: S3Server, is_used_before: bool) -> None:
    code = FORK.format(root=str(Path.cwd()), options=s3.options, is_used_before=is_used_before)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    refusal = "a process that was forked cannot use the connections of its parent"
    assert (refusal if is_used_before else str(len(EXPECTED))) in result.stdout, result.stderr
