"""Server-sent events of a job: everything that has happened, then everything that happens, until its end."""

import asyncio
import json
from typing import Any

from starlette.types import Receive, Scope, Send

from .records import JobRecord, Watched

HEARTBEAT = 10.0
"""Seconds of silence after which a comment is sent, so that connections stay open and dead ones are noticed."""
UNREAD = 30.0
"""Seconds that a reader may leave what it was sent unread before it is given up."""


class EventStream:
    """A response that follows a job.

    Nothing is kept for a reader: each takes what it has not seen from the job itself, at its own pace.

    Parameters
    ----------
    after : the number of the last event that the reader has seen.
    """

    def __init__(self, job: JobRecord | Watched, after: int = 0) -> None:
        self.job, self.after = job, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnected(receive))
        following = asyncio.ensure_future(self._follow(send))
        try:
            await asyncio.wait({gone, following}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, following):
                task.cancel()
            await asyncio.gather(gone, following, return_exceptions=True)

    async def _follow(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        job = self.job
        while True:
            fresh = [event for event in job.events if event[0] > self.after]
            if fresh:
                self.after = fresh[-1][0]
                text = "".join(event_text(*event) for event in fresh)
            elif job.over:
                break
            else:
                try:
                    await asyncio.wait_for(job.change(), HEARTBEAT)
                    continue
                except TimeoutError:
                    text = ": still here\n\n"
            body = {"type": "http.response.body", "body": text.encode(), "more_body": True}
            await asyncio.wait_for(send(body), UNREAD)
        await send({"type": "http.response.body", "body": b""})


def event_text(number: int, name: str, data: dict[str, Any]) -> str:
    """Return one event as it is sent."""
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
