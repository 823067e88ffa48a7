"""Run a real Kafka broker (KRaft, broker and controller in one process) on the loopback address."""

import contextlib
import functools
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from benchmarks.jvm import KAFKA, LOGGING, JavaError, jars, java_tool

CLUSTER_ID = "kafkalogAAAAAAAAAAAAAA"
START_SECONDS = 120
PORTS = range(10_000, 32_000)
"""Linux and macOS use higher ports for outgoing connections, which could take one before a broker does."""
SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
}


class Broker:
    """A broker with the log directory `log_dir`, which is formatted if it is new.

    `with Broker(...)` starts it and stops it cleanly. `kafka` is the Maven file that names its version.
    """

    def __init__(
        self,
        log_dir: Path,
        settings: Mapping[str, str] | None = None,
        heap: str = "512m",
        options: Sequence[str] = (),
        kafka: Path = KAFKA,
    ) -> None:
        self.log_dir = log_dir
        self.more_log_dirs: list[Path] = []
        self.bootstrap = ""
        self._settings = dict(settings or {})
        self._options = [f"-Xmx{heap}", *options]
        self._kafka = kafka
        self._process: subprocess.Popen[bytes] | None = None
        # Next to the log directory: a broker does not start if the directory holds a file it does not know.
        self._output = log_dir.with_name(f"{log_dir.name}.broker.log")
        self._properties = log_dir.with_name(f"{log_dir.name}.properties")

    def start(self) -> None:
        self.launch()
        self.wait_until_started()

    def launch(self) -> None:
        """Start the process. It ends with the thread that calls this."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        port, controller = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        settings = SINGLE_NODE | {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": ",".join(map(str, [self.log_dir, *self.more_log_dirs])),
        }
        settings |= self._settings
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if not (self.log_dir / "meta.properties").exists():
            self._format()
        with self._output.open("wb") as output:
            command = self._java("kafka.Kafka", str(self._properties), options=self._options)
            self._process = subprocess.Popen(
                [*_end_with_parent(), *command], stdout=output, stderr=subprocess.STDOUT
            )

    def stop(self) -> None:
        """Stop cleanly: the broker flushes logs and writes producer snapshots and `.kafka_cleanshutdown`."""
        self._terminate(signal.SIGTERM)

    def kill(self) -> None:
        """Stop as in a crash: nothing is flushed or written."""
        self._terminate(signal.SIGKILL)

    def log_lines(self) -> list[str]:
        """Return the lines of the broker's log (warnings and errors) since its last start."""
        return self._output.read_text(errors="replace").splitlines()

    def _format(self) -> None:
        if self.more_log_dirs:
            self.run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties))
        else:
            for name, data in format_files(self._kafka).items():
                file = self.log_dir / name
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(data)

    def _terminate(self, signal_number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal_number)
            self._process.wait(timeout=60)
            self._process = None

    def wait_until_started(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            log = self._output.read_text(errors="replace")
            if "Kafka Server started" in log:
                return
            if self._process.poll() is not None:
                raise JavaError(f"the broker exited while starting:\n{log[-3000:]}")
            time.sleep(0.05)
        self.kill()
        raise JavaError(f"the broker did not start within {START_SECONDS} s:\n{log[-3000:]}")

    def run_tool(self, main: str, *arguments: str) -> tuple[str, str]:
        """Run one of Kafka's tools and return what it writes to standard output and to standard error."""
        command = self._java(main, *arguments, options=["-XX:TieredStopAtLevel=1", *self._options])
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            raise JavaError(f"{main}: {process.stdout[-1000:]}{process.stderr[-2000:]}")
        return process.stdout, process.stderr

    def _java(self, main: str, *arguments: str, options: list[str]) -> list[str]:
        return [java_tool("java"), LOGGING, *options, "-cp", f"{jars(self._kafka)}/*", main, *arguments]

    def __enter__(self) -> "Broker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@functools.cache
def format_files(kafka: Path) -> dict[str, bytes]:
    """Return the files that StorageTool writes to a new log directory, by their paths in it.

    Running it takes a second or two.
    """
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder, "logs"), kafka=kafka)
        properties = Path(folder, "properties")
        settings = SINGLE_NODE | {
            "controller.quorum.voters": "1@127.0.0.1:1",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1",
            "log.dirs": str(broker.log_dir),
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        broker.run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
        files = (path for path in broker.log_dir.rglob("*") if path.is_file())
        return {str(file.relative_to(broker.log_dir)): file.read_bytes() for file in files}


def _end_with_parent() -> list[str]:
    """Return a command prefix that stops the broker when this process is killed (Linux only)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM"] if setpriv else []


def free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens."""
    ports: list[int] = []
    candidates = random.SystemRandom().sample(PORTS, 100 * count)
    while len(ports) < count:
        port = candidates.pop()
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports
