"""Bodies of requests as they come in: none too large, none too slow, and not too many at once."""

import asyncio

from starlette.requests import Request

from .limits import Limits
from .orders import KINDS, Source
from .refusals import Refusal

BODY_SECONDS = 30.0
"""Within which a request must have arrived whole."""
BODIES = 16
"""Of the largest size, that may be on their way in at the same moment."""


class Intake:
    """Reads bodies within the limits of a server."""

    def __init__(self, limits: Limits) -> None:
        self.most, self.room = limits.body, BODIES * limits.body
        self.arriving = 0  # bytes

    async def source(self, request: Request) -> Source:
        """Return what a request sent; raise a Refusal where it is too large, too slow or one too many."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in KINDS:
            raise Refusal(415, f"the content type {kind[:60]!r} is not read; send one of {', '.join(KINDS)}")
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self.most:
            raise self._too_large()
        content = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    content += chunk
                    self.arriving += len(chunk)
                    if len(content) > self.most:
                        raise self._too_large()
                    if self.arriving > self.room:
                        sentence = "too many requests are being sent at once; try again in a moment"
                        raise Refusal(429, sentence, headers={"Retry-After": "1", "Connection": "close"})
        except TimeoutError:
            message = f"the request did not arrive within {BODY_SECONDS:g} s"
            raise Refusal(408, message, headers={"Connection": "close"}) from None
        finally:
            self.arriving -= len(content)
        return Source(bytes(content), kind, dict(request.query_params))

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the request is larger than {self.most} bytes (icdc serve --body)")
