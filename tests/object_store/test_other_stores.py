"""Azure Blob Storage, Google Cloud Storage and HDFS give the same rows as a disk."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from native_log import LogDir
from tests.builders.golden import GOLDEN
from tests.contents import everything_in

from . import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .servers import Store

pytestmark = pytest.mark.object_store

FIXTURES = ("whole-broker", "txn", "corrupt-bitflip-body")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the golden directories."""
    folder = tmp_path_factory.mktemp("golden")
    for name in FIXTURES:
        shutil.copytree(GOLDEN / "kafka-4.1" / name / "data", folder / name)
    return folder


@pytest.fixture(scope="module", params=["azure", "gcs", "hdfs", "kerberos"])
def store(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    reason = servers.unavailable_reason(request.param)
    scratch = tmp_path_factory.mktemp(request.param)
    with contextlib.ExitStack() as stack:
        if reason is None:
            try:
                store = stack.enter_context(getattr(servers, request.param)(folder, scratch))
            except servers.BuildError as error:
                reason = str(error)
        if reason is not None:
            stop = pytest.fail if os.environ.get("KAFKALOG_REQUIRE_STORES") == "1" else pytest.skip
            stop(f"{request.param} cannot run here: {reason}")
        yield store


def check_same(url: str, path: Path, options: dict[str, Any]) -> None:
    remote = LogDir(url, high_watermark="checkpoint", storage_options=options)
    local = LogDir(path, high_watermark="checkpoint")
    for found, expected in zip(everything_in(remote), everything_in(local), strict=True):
        assert found == expected


@pytest.mark.parametrize("name", FIXTURES)
def test_directories(store: Store, folder: Path, name: str) -> None:
    for url in store.urls:
        check_same(f"{url}/{name}", folder / name, store.options)


def test_a_folder_that_does_not_exist(store: Store) -> None:
    with pytest.raises(FileNotFoundError, match="no such directory"):
        LogDir(f"{store.urls[0]}/nothing", storage_options=store.options)


@pytest.mark.parametrize("store", ["kerberos"], indirect=True)
def test_delegation_tokens(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keytab = Path(os.environ["KRB5_CLIENT_KTNAME"])
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "/none")
    monkeypatch.setenv("KRB5CCNAME", "MEMORY:none")
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(keytab.with_name("tokens")))
    url = store.urls[0].replace("localhost", "127.0.0.1")  # a token names the address
    check_same(f"{url}/txn", folder / "txn", {})


@pytest.mark.parametrize("store", ["kerberos"], indirect=True)
def test_without_a_ticket(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_connection = {"dfs.client.failover.max.attempts": "2"}  # options that no other test has
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(tmp_path / "none.keytab"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    message = r"Kerberos: .*(none\)|inaccessible); run kinit, or name a keytab"
    with pytest.raises(PermissionError, match=message):
        LogDir(f"{store.urls[0]}/txn", storage_options=new_connection)


@pytest.mark.parametrize("store", ["kerberos"], indirect=True)
def test_without_the_settings_of_kerberos(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_connection = {"dfs.client.failover.max.attempts": "1"}
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(OSError, match=r"RPC listener disconnected; .*: check HADOOP_CONF_DIR"):
        LogDir(f"{store.urls[0]}/txn", storage_options=new_connection)
