"""What every request passes: host, origin and token are checked, bodies are limited, responses have strict headers."""

import asyncio
import contextlib
import hmac
import re
from collections.abc import AsyncIterator

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .limits import Limits, Refusal, Settings
from .metrics import Metrics
from .requests import KINDS, Source

BODY_SECONDS = 30.0
"""Within which a request must have arrived whole."""
BODIES = 16
"""Requests of the largest size that may be on their way in, or be read, at the same moment."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_METHODS = "GET, POST, DELETE"
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)


class Gate:
    """The outermost part of the application.

    Other web pages cannot reach a server on a reader's own machine: neither under a name of their own (the host is
    checked) nor from a form or script (the origin is). Pages that are named in `origins` can.
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                self.metrics.requests.labels(str(message["status"]), getattr(route, "path", "other")).inc()
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent[name] = value
                if scope["path"].startswith("/v1/"):
                    sent["Cache-Control"] = "no-store"
                if origin is not None and origin in self.settings.origins:
                    sent["Access-Control-Allow-Origin"] = origin
                    sent["Access-Control-Expose-Headers"] = "Location, Retry-After"
                    sent["Cross-Origin-Resource-Policy"] = "cross-origin"
                    sent.add_vary_header("Origin")
            await send(message)

        refusal = self._refusal(scope, headers, origin)
        if refusal is not None:
            await response_of(refusal)(scope, receive, send_with_headers)
        elif scope["method"] == "OPTIONS" and origin is not None:
            await _preflight(scope, receive, send_with_headers)
        else:
            await self.app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers, origin: str | None) -> Refusal | None:
        if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may have believed the other one
            sentence = "a request must not have both Content-Length and Transfer-Encoding"
            return Refusal(400, sentence, headers={"Connection": "close"})
        host, path = headers.get("host", ""), scope["path"]
        guarded = path.startswith("/v1/") or path == "/metrics"
        if self.settings.hosts and name_of(host) not in self.settings.hosts:
            return Refusal(403, "this server does not go by that name (see icdc serve --host)")
        if origin not in self.settings.origins:
            # browsers say so, too, where they send no origin: an image or a script that points here
            elsewhere = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
            if (origin is not None and origin.partition("://")[2] != host) or (guarded and elsewhere):
                return Refusal(403, "web pages of other hosts may not use this server (icdc serve --origin names them)")
        token = self.settings.token
        if token is None or not guarded or scope["method"] == "OPTIONS":  # the page itself holds no data
            return None
        shown = headers.get("authorization", "").encode()
        if not hmac.compare_digest(shown, f"Bearer {token}".encode()):
            sentence = "this server needs a token: Authorization: Bearer …"
            return Refusal(401, sentence, headers={"WWW-Authenticate": "Bearer"})
        return None


def name_of(host: str) -> str:
    """Return the name in a Host header, without its port; nothing where it is not one."""
    match = _HOST.fullmatch(host)
    return "" if match is None else (match[1] or match[2]).lower()


class Intake:
    """Receives bodies within the limits of a server: none too large, none too slow, and not too many at once."""

    def __init__(self, limits: Limits) -> None:
        self.most, self.room = limits.body, BODIES * limits.body
        self.held = 0  # bytes

    @contextlib.asynccontextmanager
    async def receive(self, request: Request) -> AsyncIterator[Source]:
        """Receive a request, whose bytes count until the block ends; raise a Refusal where it breaks a limit."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in KINDS:
            raise Refusal(415, f"the content type {kind[:60]!r} is not read; send one of {', '.join(KINDS)}")
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self.most:
            raise self._too_large()
        content = bytearray()
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    await self._fill(content, request)
            except TimeoutError:
                sentence = f"the request did not arrive within {BODY_SECONDS:g} s"
                raise Refusal(408, sentence, headers={"Connection": "close"}) from None
            yield Source(bytes(content), kind, dict(request.query_params))
        finally:
            self.held -= len(content)

    async def _fill(self, content: bytearray, request: Request) -> None:
        async for chunk in request.stream():
            content += chunk
            self.held += len(chunk)
            if len(content) > self.most:
                raise self._too_large()
            if self.held > self.room:
                sentence = "too many requests are being sent at once; try again in a moment"
                raise Refusal(429, sentence, headers={"Retry-After": "1", "Connection": "close"})

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the request is larger than {self.most} bytes (icdc serve --body)")


def response_of(refusal: Refusal) -> JSONResponse:
    """Return a refusal as it is sent."""
    return JSONResponse(refusal.as_dict(), refusal.status, refusal.headers, "application/problem+json")


async def _preflight(scope: Scope, receive: Receive, send: Send) -> None:
    """Tell a browser what a page of another host, already allowed, may send."""
    allowed = [
        (b"access-control-allow-methods", _METHODS.encode()),
        (b"access-control-allow-headers", b"authorization, content-type, last-event-id"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})
