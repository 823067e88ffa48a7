"""Ctrl-C ends commands that wait for a store."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from benchmarks.http_proxy import Fault

if TYPE_CHECKING:
    from benchmarks.http_proxy import HttpProxy
    from benchmarks.s3_server import S3Server

pytestmark = pytest.mark.object_store


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("command", [["ls"], ["ls", "--count"], ["transactions"]])
def test_a_command_does_not_wait_for_answers(s3: S3Server, proxy: HttpProxy, command: list[str]) -> None:
    proxy.fault = lambda request: Fault(delay_seconds=600) if ".log" in request else None
    options = {**s3.options, "aws_endpoint": proxy.endpoint, "timeout": "600s"}
    arguments = [f"--storage-option={name}={value}" for name, value in options.items()]
    path = "s3://data/golden/kafka-4.1/plain-none/data"
    with subprocess.Popen([sys.executable, "-m", "native_log", *command, path, *arguments]) as process:
        try:
            while not any(".log" in request for request in proxy.traffic.requests):
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
