"""A KRaft cluster of three nodes on the loopback address. Each node is a broker and a controller."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from benchmarks.broker import Broker, format_files, free_ports
from benchmarks.jvm import KAFKA
from tests.class_sharing import broker_options

from .cluster import SHORT_INTERVALS

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

NODES = (1, 2, 3)


class ReplicatedCluster:
    """Three nodes by node id; `with ReplicatedCluster(...)` starts them, and kills those that still run."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2 * len(NODES))
        controllers = dict(zip(NODES, ports[: len(NODES)], strict=True))
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        self.nodes: dict[int, Broker] = {}
        self.bootstrap: dict[int, str] = {}
        for node, port in zip(NODES, ports[len(NODES) :], strict=True):
            self.bootstrap[node] = f"127.0.0.1:{port}"
            settings = SHORT_INTERVALS | {
                "node.id": str(node),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controllers[node]}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.quorum.election.timeout.ms": "300",
                "controller.quorum.fetch.timeout.ms": "600",
            }
            log_dir = folder / f"node-{node}"
            self.nodes[node] = Broker(log_dir, settings, heap="256m", options=broker_options(KAFKA))
            _format(log_dir, node)

    def __enter__(self) -> ReplicatedCluster:
        try:
            for node in self.nodes.values():
                node.launch()
            for node in self.nodes.values():  # a node starts only together with a majority
                node.wait_until_started()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the nodes that still run."""
        for node in self.nodes.values():
            node.kill()


def _format(log_dir: Path, node: int) -> None:
    log_dir.mkdir(parents=True)
    for name, data in format_files(KAFKA).items():
        (log_dir / name).write_bytes(data)
    properties = dict(
        line.split("=", 1)
        for line in (log_dir / "meta.properties").read_text().splitlines()
        if not line.startswith("#")
    )
    properties["node.id"] = str(node)
    properties["directory.id"] = base64.urlsafe_b64encode(bytes([node] * 16)).decode().rstrip("=")
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    (log_dir / "meta.properties").write_text(text)
