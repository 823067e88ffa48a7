"""An HTTP proxy in front of a server: it counts requests, delays and slows answers, and makes them fail."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_BLOCK = 64 << 10


class Fault(NamedTuple):
    """What happens to a request instead of the server's answer.

    Attributes:
        status: answer with this status; 0: with that of the server.
        cut_after: break the connection off after so many bytes of the body; None: never.
        delay_seconds: wait first.
        code: the code in the body of a status.
    """

    status: int = 0
    cut_after: int | None = None
    delay_seconds: float = 0
    code: str = ""


@dataclass
class Traffic:
    """The requests so far, as "GET /bucket/key 0-99", and the bytes of all answers' bodies."""

    requests: list[str] = field(default_factory=list)
    body_bytes: int = 0


class HttpProxy:
    """The proxy, from its creation until `close`.

    Attributes:
        endpoint: its URL.
        traffic: what it has seen since `reset`.
        fault: called with each request, as in Traffic; None: nothing fails.
    """

    def __init__(
        self,
        port: int,
        *,
        latency_seconds: float = 0,
        bytes_per_second: float | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Start a proxy for the server on a port of this host.

        Args:
            port: of the server.
            latency_seconds: what each request waits.
            bytes_per_second: how fast each connection is; None: as fast as it can be.
            tls: serve HTTPS with this context; None: serve HTTP.
        """
        self._server_port = port
        self._latency = latency_seconds
        self._speed = bytes_per_second
        self._tls = tls
        self.fault: Callable[[str], Fault | None] | None = None
        self.traffic = Traffic()
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def reset(self) -> None:
        """Forget the traffic so far."""
        self.traffic = Traffic()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def __enter__(self) -> HttpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, started: threading.Event) -> None:
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        self._stopped = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 20, ssl=self._tls)
        scheme = "https" if self._tls else "http"
        self.endpoint = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await self._stopped.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        server_reader, server_writer = await asyncio.open_connection(
            "127.0.0.1", self._server_port, limit=1 << 20
        )
        try:
            while await self._answer(reader, writer, server_reader, server_writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            server_writer.close()

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one request, and return whether the connection stays open."""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        request = " ".join(lines[0].split()[:2])
        request += "".join(
            f" {line.partition('=')[2]}" for line in lines if line.lower().startswith("range:")
        )
        body = await reader.readexactly(_content_length(head))
        self.traffic.requests.append(request)
        fault = self.fault(request) if self.fault else None
        await asyncio.sleep(self._latency + (fault.delay_seconds if fault else 0))
        if fault and fault.status:
            text = f"<Error><Code>{fault.code}</Code></Error>".encode()
            head = f"HTTP/1.1 {fault.status} Fault\r\nContent-Length: {len(text)}\r\n\r\n".encode()
            writer.write(head + (b"" if request.startswith("HEAD") else text))
            await writer.drain()
            return True
        server_writer.write(head + body)
        await server_writer.drain()
        head = await server_reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        left = 0 if request.startswith("HEAD") else _content_length(head)
        passed = 0
        while left:
            block = await server_reader.read(min(_BLOCK, left))
            if not block:
                return False
            if fault and fault.cut_after is not None and passed + len(block) > fault.cut_after:
                writer.write(block[: fault.cut_after - passed])
                await writer.drain()
                return False
            self.traffic.body_bytes += len(block)
            writer.write(block)
            await writer.drain()
            left -= len(block)
            passed += len(block)
            if self._speed:
                await asyncio.sleep(len(block) / self._speed)
        return True


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
