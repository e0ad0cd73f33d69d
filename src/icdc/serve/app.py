"""The application: what each address does. Solving is behind `Jobs`."""

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from .. import __version__
from ..errors import IcdcError
from ..models.catalogue import available, card_of
from ..options import HTTP, options_of
from ..problems import SHIPPED
from ..problems.base import Problem, structure_of
from ..solvers import SOLVERS
from .jobs import Jobs, SharedJobStore
from .limits import Refusal, Settings, refusal_of
from .metrics import Metrics
from .queue import Events, JobRecord
from .requests import KINDS
from .schema import ACCEPTED, JOB, PROBLEM, SOLVED, request_document
from .security import Gate, Intake, response_of
from .store import JobStore

CLIENT_CLOSED_REQUEST = 499
"""The status of a request whose client went away."""
HEARTBEAT = 10.0
"""Seconds of silence after which a comment is sent, so that connections stay open and dead ones are noticed."""
UNREAD = 30.0
"""Seconds that a client may leave events unread before its connection is given up."""
_PACKAGES = {"exact": "ortools", "pyvrp": "pyvrp", "lkh": "elkai"}


def make_app(
    settings: Settings | None = None, store: JobStore | None = None, shared: SharedJobStore | None = None
) -> FastAPI:
    """Return the application; its workers run from its start-up to its shut-down.

    store : where jobs survive; by default in the folder of the settings, if they name one.
    shared : a store of several servers, in place of one of its own.
    """
    settings = settings or Settings()
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        jobs = app.state.jobs = Jobs(settings, metrics, store, shared)
        await jobs.open()
        try:
            yield
        finally:
            await jobs.close()

    app = FastAPI(
        title="icdc",
        version=__version__,
        summary="Feasible, checked solutions of matrix-shaped problems.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its page would be fetched from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=dict.fromkeys((400, 413, 415, 422, 429), PROBLEM),
    )
    _add_errors(app)
    _add_solving(app, settings)
    _add_about(app, settings, metrics)
    app.mount("/", StaticFiles(directory=Path(__file__).parent / "static", html=True), name="page")
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    return app


def _add_errors(app: FastAPI) -> None:
    """Every failure is a sentence as problem+json."""

    @app.exception_handler(Refusal)
    async def refuse(_: Request, error: Refusal) -> Response:
        return response_of(error)

    @app.exception_handler(IcdcError)
    async def explain(_: Request, error: IcdcError) -> Response:
        return response_of(refusal_of(error))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        status = error.status_code
        methods = _methods_of(app, request.url.path)
        if status in (404, 405) and methods:  # the files of the page are looked for at every other address
            allowed = {"Allow": ", ".join(methods)}
            return response_of(Refusal(405, f"this address takes {' and '.join(methods)}", headers=allowed))
        return response_of(Refusal(status, "there is nothing at this address" if status == 404 else str(error.detail)))

    @app.exception_handler(ClientDisconnect)
    async def disconnected(_: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    @app.exception_handler(Exception)
    async def internal(_: Request, error: Exception) -> Response:
        return response_of(Refusal(500, f"internal error: {type(error).__name__}"))


def _methods_of(app: FastAPI, path: str) -> list[str]:
    """Return the methods that an address of the service takes; none for other addresses."""
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.path_regex.match(path)]
    return sorted({method for route in routes for method in route.methods or ()})


def _add_solving(app: FastAPI, settings: Settings) -> None:
    body, intake = request_document(settings.limits), Intake(settings.limits)

    @app.post("/v1/solve", responses={200: SOLVED, 202: ACCEPTED}, openapi_extra=body, summary="Solve and answer")
    async def solve(request: Request) -> Response:
        """Solve one instance and answer with its solution; what takes longer is answered with the address of a job.

        A client that goes away ends the search.
        """
        jobs: Jobs = request.app.state.jobs
        async with intake.receive(request) as source:
            job = await jobs.submit(source, kept=False)
        if not await _ended_in_time(job, request, jobs):
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return _answered(job) if job.ended else _accepted(job)

    @app.post("/v1/jobs", status_code=202, responses={202: ACCEPTED}, openapi_extra=body, summary="Begin a job")
    async def begin(request: Request) -> Response:
        """Accept an instance and answer at once with the address of its job; it goes on without its client."""
        jobs: Jobs = request.app.state.jobs
        async with intake.receive(request) as source:
            return _accepted(await jobs.submit(source, kept=True))

    @app.get("/v1/jobs/{id}", responses={200: JOB, 404: PROBLEM}, summary="How a job stands")
    async def look(id: str, request: Request) -> Response:
        """Return the state of a job, the best cost and bound so far, and its answer once it has one."""
        jobs: Jobs = request.app.state.jobs
        return JSONResponse(await jobs.get(id))

    @app.get("/v1/jobs/{id}/events", responses={200: {"content": {"text/event-stream": {}}}, 404: PROBLEM})
    async def follow(id: str, request: Request) -> Any:
        """Follow a job by server-sent events: state, begun, improved (seconds, cost, bound, solution), note, step, end.

        A client that connects again sends the number of the last event it has seen as Last-Event-ID.
        """
        jobs: Jobs = request.app.state.jobs
        seen = request.headers.get("last-event-id", "0")
        return EventStream(await jobs.follow(id), int(seen) if seen.isdecimal() and len(seen) < 10 else 0)

    @app.delete("/v1/jobs/{id}", responses={200: JOB, 404: PROBLEM}, summary="Cancel a job")
    async def cancel(id: str, request: Request) -> Response:
        """Stop computing a job; its best solution so far becomes its answer."""
        jobs: Jobs = request.app.state.jobs
        await jobs.cancel_wherever(id)
        return JSONResponse(await jobs.get(id))

    @app.post("/v1/read", openapi_extra=body, summary="Read an instance without solving it")
    async def read(request: Request) -> Response:
        """Return what some content is read as: the problem, names, numbers; or the problems it may be."""
        jobs: Jobs = request.app.state.jobs
        async with intake.receive(request) as source:
            return JSONResponse(await jobs.readers.read(source, describe=True))


def _add_about(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    @app.get("/v1/models", summary="The models that a request can name")
    async def models() -> Response:
        """Return the card of every model by name."""
        cards = {name: card_of(name) for name in available()}
        return JSONResponse(cards | {name: card_of(path) for name, path in settings.models.items()})

    @app.get("/v1/problems", summary="The problems and the solvers")
    async def problems() -> Response:
        """Return what a request may say.

        The problems with their words and the conditions on their solutions; the solvers, which problems each is for,
        and whether it is installed; all options of a request, and its limits.
        """
        options = [one.name for one in options_of(HTTP)]
        about = {"problems": _problems(), "solvers": _solvers(), "words": options, "content": list(KINDS)}
        return JSONResponse(about | {"limits": vars(settings.limits)})

    @app.get("/healthz", summary="Whether the server can work")
    async def health(request: Request) -> Response:
        """Answer 200 while a worker has started, busy or not, and 503 otherwise."""
        jobs: Jobs = request.app.state.jobs
        ready = jobs.workers.ready
        fine = ready > 0 and not jobs.stopping
        about = {"status": "ok" if fine else "not ready", "workers": ready, "version": __version__}
        return JSONResponse(about, 200 if fine else 503)

    @app.get("/readyz", summary="Whether a request would be begun at once")
    async def ready(request: Request) -> Response:
        """Answer 200 while a worker is free, and 503 while all of them are held or the server stops."""
        jobs: Jobs = request.app.state.jobs
        free = 0 if jobs.stopping else jobs.workers.free
        about = {"status": "ready" if free else "busy", "free": free, "waiting": len(jobs.queue)}
        return JSONResponse(about, 200 if free else 503)

    @app.get("/metrics", summary="Numbers for Prometheus", response_class=PlainTextResponse)
    async def numbers() -> Response:
        """Return counters, gauges and histograms as text."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")


async def _ended_in_time(job: JobRecord, request: Request, jobs: Jobs) -> bool:
    """Wait for a job's end, or for as long as a request may wait; return False if its client went away."""
    ended = asyncio.ensure_future(job.wait())
    disconnected = asyncio.ensure_future(_disconnected(request.receive))
    try:
        await asyncio.wait({ended, disconnected}, timeout=jobs.limits.wait, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and disconnected.done():
            jobs.cancel(job)
            return False
        if not ended.done():  # from now on it can be looked up
            await jobs.keep(job)
        return True
    finally:
        ended.cancel()
        disconnected.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _accepted(job: JobRecord) -> Response:
    return JSONResponse(job.outcome(), 202, {"Location": f"/v1/jobs/{job.id}"})


def _answered(job: JobRecord) -> Response:
    """Return the answer of a job that has ended, or why it has none."""
    if job.answer is not None:
        return JSONResponse(job.answer | {"notes": job.notes})
    error = job.error or Refusal(409, "the job was cancelled").as_dict()
    return JSONResponse(error, int(error["status"]), media_type="application/problem+json")


class EventStream(Response):
    """Server-sent events of a job: everything that has happened, then everything that happens, until its end.

    Nothing is kept for a client: each takes what it has not seen from the job itself, at its own pace.

    Parameters
    ----------
    after : the number of the last event that the client has seen.
    """

    def __init__(self, job: Events, after: int = 0) -> None:
        super().__init__()
        self.job, self.after = job, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tasks = [asyncio.ensure_future(_disconnected(receive)), asyncio.ensure_future(self._follow(send))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        job = self.job
        while True:
            fresh = [event for event in job.events if event[0] > self.after]
            if fresh:
                self.after = fresh[-1][0]
                text = "".join(_event_text(*event) for event in fresh)
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


def _event_text(number: int, name: str, data: dict[str, Any]) -> str:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


def _problems() -> dict[str, Any]:
    return {
        name: {
            "entries": cls.entries,
            "arrays": cls.arrays,
            "size_names": cls.size_names,
            "objective": cls.objective,
            "row_words": cls.row_words,
            "column_words": cls.column_words,
            "tour": cls.solution_is_tour,
            "sequence": cls.restated,
            "conditions": conditions_of(cls),
        }
        for name, cls in SHIPPED.items()
    }


def conditions_of(cls: type[Problem]) -> list[str]:
    """Return the conditions that a request may put on the solutions of a problem."""
    conditions = () if cls.structure is None else structure_of(cls.structure).conditions
    return [name for name in conditions if not (cls.restated and name == "open")]


def _solvers() -> dict[str, Any]:
    return {
        name: {
            "summary": entry.summary,
            "problems": entry.problems,
            "installed": entry.extra is None or importlib.util.find_spec(_PACKAGES[entry.extra]) is not None,
        }
        for name, entry in SOLVERS.items()
    }
