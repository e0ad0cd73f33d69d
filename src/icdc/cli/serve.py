"""`icdc serve`: the page and the HTTP service."""

import importlib.util
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from ..errors import MissingExtraError, UsageError

_ORIGIN = re.compile(r"https?://[^/\s?#]+")
_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's own need --token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    data: Annotated[
        Path | None, typer.Option(help="Folder in which jobs survive a restart; by default they live in memory.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="ICDC_TOKEN", help="What every request must show (or set ICDC_TOKEN).")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda; one worker for each GPU.")] = "auto",
    workers: Annotated[int, typer.Option(min=1, max=64, help="Workers that share the CPU's cores.")] = 1,
    warm: Annotated[
        bool, typer.Option("--warm/--no-warm", help="Load models and compile before the first request.")
    ] = True,
    model: Annotated[
        list[Path] | None, typer.Option(help="A model file to offer beside the shipped ones, by its name; repeatable.")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="A web page's origin that may call from a browser; repeatable.")
    ] = None,
    body: Annotated[int, typer.Option(min=1024, help="Bytes of a request, at most.")] = 8 * 2**20,
    cells: Annotated[int, typer.Option(min=4, help="Entries of an instance's matrix, at most.")] = 250_000,
    seconds: Annotated[float, typer.Option(help="Seconds of search for a request, at most.")] = 300.0,
    samples: Annotated[int, typer.Option(min=1, help="Samples of a request, at most.")] = 4096,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait.")] = 256,
    batch: Annotated[int, typer.Option(min=1, help="Requests of equal shape solved together, at most.")] = 32,
    grace: Annotated[float, typer.Option(min=0.0, help="Seconds running searches have to finish on a stop.")] = 5.0,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on Ray Serve in the cluster there ('local': here).")
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, help="With --ray: replicas, at most.")] = 2,
) -> None:
    """Serve the page and the HTTP API until stopped (Ctrl-C).

    Open the address in a browser: drop a matrix, watch it being solved. Programs use the same address; see
    docs/serving.md, and /v1/openapi.json of the running server.
    """
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(f"icdc serve needs the package '{package}'; add it with: pip install 'icdc[serve]'")
    from ..serve.limits import Limits, Settings
    from ..serve.server import model_names
    from ..serve.server import serve as run

    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device must be auto, cpu or cuda, got '{device}'")
    local = host in _LOCAL
    if not local and not token:
        raise UsageError(f"--host {host} can be reached by others: give them a token with --token or ICDC_TOKEN")
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError("--token must have at least 8 printable characters and no blanks")
    for page in origin or ():
        if not _ORIGIN.fullmatch(page):
            raise UsageError(f"--origin must be as browsers write it, such as https://tool.example, got '{page}'")
    settings = Settings(
        Limits(body=body, cells=cells, seconds=seconds, samples=samples, queue=queue, batch=batch, grace=grace),
        data=data,
        token=token,
        hosts=_LOCAL if local and not token else (),
        origins=tuple(origin or ()),
        models=model_names(model or []),
        device=device,
        workers=workers,
        warm=warm,
    )
    os.environ.setdefault("KMP_BLOCKTIME", "0")
    if ray is not None:
        from ..serve.ray import serve_on_ray

        serve_on_ray(settings, host, port, ray, replicas)
        return
    run(settings, host, port)
