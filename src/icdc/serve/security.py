"""What every request passes and every response carries: host, origin and token are checked, headers are strict."""

import hmac
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .limits import Settings
from .metrics import Metrics
from .refusals import Refusal

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
_OPEN = ("/healthz",)
"""Addresses that need no token, with the page itself, which holds no data."""


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
                self.metrics.requests.add(route=getattr(route, "path", "other"), code=str(message["status"]))
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
            await refusal.response()(scope, receive, send_with_headers)
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
        if token is None or not guarded or path in _OPEN or scope["method"] == "OPTIONS":
            return None
        shown = headers.get("authorization", "").encode()
        if not hmac.compare_digest(shown, f"Bearer {token}".encode()):
            return Refusal(
                401, "this server needs a token: Authorization: Bearer …", headers={"WWW-Authenticate": "Bearer"}
            )
        return None


def name_of(host: str) -> str:
    """Return the name in a Host header, without its port; nothing where it is not one."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()


async def _preflight(scope: Scope, receive: Receive, send: Send) -> None:
    """Tell a browser what a page of another host, already allowed, may send."""
    allowed = [
        (b"access-control-allow-methods", _METHODS.encode()),
        (b"access-control-allow-headers", b"authorization, content-type, last-event-id"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})
