"""The application: what each address does. Everything it knows of solving is behind `Jobs`."""

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from .. import __version__
from ..errors import IcdcError
from ..models.catalogue import available, card_of
from ..problems import SHIPPED
from ..problems.base import Problem, structure_of
from ..solving.registry import SOLVERS
from .board import Board
from .documents import ACCEPTED, JOB, PROBLEM, REQUEST_BODY, REQUEST_QUERY, SOLVED
from .events import EventStream
from .intake import Intake
from .jobs import Jobs
from .limits import Settings
from .metrics import Metrics
from .orders import KINDS, WORDS
from .reading import read
from .records import CANCELLED, DONE, JobRecord, Watched, ended_job
from .refusals import Refusal, refusal_of
from .security import Gate
from .store import Store

GONE = 499
"""The status, seen by nobody, of a request whose client went away."""

_PACKAGES = {"exact": "ortools", "pyvrp": "pyvrp", "lkh": "elkai"}


def make_app(settings: Settings | None = None, board: Board | None = None, store: Store | None = None) -> FastAPI:
    """Return the application; its workers run from its start-up to its shut-down.

    board : shares the jobs with other servers, where there are several.
    store : where jobs survive; by default in the folder of the settings, if they name one.
    """
    settings = settings or Settings()
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        jobs = app.state.jobs = Jobs(settings, metrics, board or store)
        await jobs.open()
        sharing = None if board is None else asyncio.ensure_future(board.share(jobs))
        try:
            yield
        finally:
            if sharing is not None:
                sharing.cancel()
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
    app.state.settings, app.state.metrics = settings, metrics
    _add_errors(app)
    _add_solving(app, settings, board)
    _add_about(app, settings, metrics)
    app.mount("/", StaticFiles(directory=Path(__file__).parent / "static", html=True), name="page")
    app.add_middleware(Gate, settings=settings, metrics=metrics)
    return app


def _add_errors(app: FastAPI) -> None:
    """Every failure is a sentence as problem+json."""

    @app.exception_handler(Refusal)
    async def refuse(_: Request, error: Refusal) -> Response:
        return error.response()

    @app.exception_handler(IcdcError)
    async def explain(_: Request, error: IcdcError) -> Response:
        return refusal_of(error).response()

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        status = error.status_code
        methods = _methods_of(app, request.url.path)
        if status in (404, 405) and methods:  # the files of the page are looked for at every address that is left
            return Refusal(
                405, f"this address takes {' and '.join(methods)}", headers={"Allow": ", ".join(methods)}
            ).response()
        return Refusal(status, "there is nothing at this address" if status == 404 else str(error.detail)).response()

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(Exception)
    async def internal(_: Request, error: Exception) -> Response:
        return Refusal(500, f"internal error: {type(error).__name__}").response()


def _methods_of(app: FastAPI, path: str) -> list[str]:
    """Return the methods that an address of the service takes; none for other addresses."""
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.path_regex.match(path)]
    return sorted({method for route in routes for method in route.methods or ()})


def _add_solving(app: FastAPI, settings: Settings, board: Board | None) -> None:
    body: dict[str, Any] = {"requestBody": REQUEST_BODY, "parameters": REQUEST_QUERY}
    intake = Intake(settings.limits)

    @app.post("/v1/solve", responses={200: SOLVED, 202: ACCEPTED}, openapi_extra=body, summary="Solve and answer")
    async def solve(request: Request) -> Response:
        """Solve one instance and answer with its solution; what takes longer is answered with the address of a job.

        A client that goes away ends the search.
        """
        jobs: Jobs = request.app.state.jobs
        source = await intake.source(request)
        limit = source.words.get("time_limit")
        long = limit is not None and _longer(limit, settings.limits.wait)
        job = await jobs.submit(source, kept=long)
        if not long and not await _ended_in_time(job, request, jobs):
            return Response(status_code=GONE)
        if not job.ended:
            return _accepted(job)
        return _answered(job)

    @app.post("/v1/jobs", status_code=202, responses={202: ACCEPTED}, openapi_extra=body, summary="Begin a job")
    async def begin(request: Request) -> Response:
        """Take an instance in and answer at once with the address of its job; it goes on without its client."""
        jobs: Jobs = request.app.state.jobs
        return _accepted(await jobs.submit(await intake.source(request), kept=True))

    @app.get("/v1/jobs/{id}", responses={200: JOB, 404: PROBLEM}, summary="How a job stands")
    async def look(id: str, request: Request) -> Response:
        """Return the state of a job, the best cost and bound so far, and its answer once it has one."""
        jobs: Jobs = request.app.state.jobs
        return JSONResponse(await jobs.get(id))

    @app.get("/v1/jobs/{id}/events", responses={200: {"content": {"text/event-stream": {}}}, 404: PROBLEM})
    async def follow(id: str, request: Request) -> Any:
        """Follow a job by server-sent events: state, begun, improved (seconds, cost, bound, solution), note, step, end.

        A reader that comes back says in Last-Event-ID what it has seen.
        """
        jobs: Jobs = request.app.state.jobs
        job: JobRecord | Watched | None = jobs.find(id)
        seen = request.headers.get("last-event-id", "0")
        if job is None:  # finished under a server before this one, or long ago; or it runs on another
            outcome = await jobs.get(id)
            job = ended_job(outcome) if board is None else board.followed(outcome)
        return _Raw(EventStream(job, int(seen) if seen.isdecimal() and len(seen) < 10 else 0))

    @app.delete("/v1/jobs/{id}", responses={200: JOB, 404: PROBLEM}, summary="Cancel a job")
    async def cancel(id: str, request: Request) -> Response:
        """Stop computing a job; the best it has found so far becomes its answer."""
        jobs: Jobs = request.app.state.jobs
        job = jobs.find(id)
        if job is not None:
            jobs.cancel(job)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(job.wait(), 10)
        elif board is not None:
            await board.cancel(id)
        return JSONResponse(await jobs.get(id))

    @app.post("/v1/read", openapi_extra=body, summary="Read an instance without solving it")
    async def look_at(request: Request) -> Response:
        """Return what is understood of some content: the problem, names, numbers; or the problems it may be."""
        source = await intake.source(request)
        return JSONResponse(await asyncio.to_thread(read, source, settings))


def _add_about(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    @app.get("/v1/models", summary="The models that can be asked for")
    async def models() -> Response:
        """Return the card of every model by name."""
        found = {name: card_of(name) for name in available()}
        found |= {name: card_of(path) for name, path in settings.models.items()}
        return JSONResponse(found)

    @app.get("/v1/problems", summary="The problems and the solvers")
    async def problems() -> Response:
        """Return what a request may say.

        The problems with their words and what may be asked of their solutions; the solvers, which problems each is
        for, and if it is installed; all words of a request, and its limits.
        """
        about = {"problems": _problems(), "solvers": _solvers(), "words": WORDS, "content": list(KINDS)}
        return JSONResponse(about | {"limits": _limits(settings)})

    @app.get("/healthz", summary="Whether the server can work")
    async def health(request: Request) -> Response:
        """Answer 200 when a worker can take work, 503 while none can."""
        jobs: Jobs = request.app.state.jobs
        ready = jobs.crew.ready
        fine = ready > 0 and not jobs.stopping
        about = {"status": "ok" if fine else "not ready", "workers": ready, "version": __version__}
        return JSONResponse(about, 200 if fine else 503)

    @app.get("/metrics", summary="Numbers for Prometheus", response_class=PlainTextResponse)
    async def numbers() -> Response:
        """Return counters, gauges and histograms as text."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")


async def _ended_in_time(job: JobRecord, request: Request, jobs: Jobs) -> bool:
    """Wait for a job's end, or for as long as a request may wait; return False if its client went away."""
    ended = asyncio.ensure_future(job.wait())
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({ended, gone}, timeout=jobs.limits.wait, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and gone.done():
            jobs.cancel(job)
            return False
        if not ended.done():  # from now on it can be asked for
            await jobs.keep(job)
        return True
    finally:
        ended.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _accepted(job: JobRecord) -> Response:
    return JSONResponse(job.outcome(), 202, {"Location": f"/v1/jobs/{job.id}"})


def _answered(job: JobRecord) -> Response:
    """Return the answer of a job that has ended, or why it has none."""
    if job.state in (DONE, CANCELLED) and job.answer is not None:
        return JSONResponse(job.answer | {"notes": job.notes})
    error = job.error or Refusal(409, "the job was cancelled").as_dict()
    return JSONResponse(error, int(error["status"]), media_type="application/problem+json")


def _longer(text: Any, seconds: float) -> bool:
    try:
        return float(text) > seconds
    except (TypeError, ValueError):
        return False


class _Raw(Response):
    """A response that is an application of its own."""

    def __init__(self, stream: EventStream) -> None:
        super().__init__()
        self.stream = stream

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.stream(scope, receive, send)


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
    """Return what may be asked of the solutions of a problem."""
    conditions = () if cls.structure is None else structure_of(cls.structure).conditions
    return [word for word in conditions if not (cls.restated and word == "open")]


def _solvers() -> dict[str, Any]:
    return {
        name: {
            "summary": entry.summary,
            "problems": entry.problems,
            "installed": entry.extra is None or importlib.util.find_spec(_PACKAGES[entry.extra]) is not None,
        }
        for name, entry in SOLVERS.items()
    }


def _limits(settings: Settings) -> dict[str, Any]:
    return vars(settings.limits)
