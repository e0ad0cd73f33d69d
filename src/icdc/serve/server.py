"""One server on one machine: uvicorn around the application, stopped gracefully."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import IcdcError, UsageError
from .app import make_app
from .limits import Settings
from .store import Store
from .workers import devices

BACKLOG = 2048
HEAD_SECONDS = 30.0
"""Within which a client that is connected must have sent a request."""


class _Protocol(H11Protocol):
    """Gives up connections on which no request begins, or begins and never gets on to its body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waiting_since: object = None
        self._look = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._look.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        idle = self.conn.their_state is h11.IDLE
        if idle and self._waiting_since is self.cycle:  # also at the last look: no request came since
            self.transport.close()
            return
        self._waiting_since = self.cycle if idle else self
        self._look = self.loop.call_later(HEAD_SECONDS, self._give_up)


class _Server(uvicorn.Server):
    """Lets jobs end as soon as a signal comes, not only when every connection is closed."""

    stop_jobs: Callable[[], None]
    signalled = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.signalled = True
        self.stop_jobs()
        # not the inherited way, which would send the signal again after a stop that went well
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until a signal stops it; refuse a wrong device, folder or address before anything is started."""
    devices(settings.device, settings.workers)
    store = None if settings.data is None else Store(settings.data)
    listening = _listen(host, port)
    app = make_app(settings, store=store)
    config = uvicorn.Config(
        app,
        http=_Protocol,  # others set no limit to what comes before a body
        ws="none",
        log_level="warning",
        server_header=False,
        date_header=True,
        access_log=False,
        backlog=BACKLOG,
        limit_concurrency=4096,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.limits.grace) + 10,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = _Server(config)
    server.stop_jobs = lambda: app.state.jobs.stop_soon() if hasattr(app.state, "jobs") else None
    shown = f"[{host}]" if ":" in host else host
    print(f"icdc serves on http://{shown}:{port} (Ctrl-C stops)", file=sys.stderr, flush=True)
    server.run(sockets=listening)
    if not server.started and not server.signalled:
        raise IcdcError("the server could not be started")


def _listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen to every address of a host; raise a UsageError that says why there are none."""
    listening: list[socket.socket] = []
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            try:
                listener = socket.socket(family, kind, protocol)  # without the protocol asyncio leaves out TCP_NODELAY
            except OSError:
                continue  # a machine without that family of addresses
            listening.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
    except OSError as error:
        for listener in listening:
            listener.close()
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--host {host} --port {port}: cannot listen there ({reason})") from None
    return listening


def model_names(files: list[Path]) -> dict[str, Path]:
    """Return the files of models by the names requests use: those of the files, without their endings."""
    names: dict[str, Path] = {}
    for file in files:
        if not file.is_file():
            raise UsageError(f"--model {file}: no such file")
        if file.stem in names:
            raise UsageError(f"--model {file}: there is another model called '{file.stem}'")
        names[file.stem] = file.resolve()
    return names
