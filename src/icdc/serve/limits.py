"""What the server allows, each a flag of `icdc serve`."""

from dataclasses import dataclass, field
from pathlib import Path

from ..errors import UsageError


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may take.

    body : bytes of a request.
    cells : entries of an instance's largest array.
    seconds : of search for one request; a search without a time limit of its own is ended here, too.
    samples : tries of one request, and its denoising steps and rounds of refinement.
    queue : requests that may wait; those beyond are told to come back.
    batch : requests that are solved together, at most.
    kept : finished jobs that stay in memory.
    wait : seconds for which `POST /v1/solve` waits before it hands out the address of a job instead.
    grace : seconds that running searches have to finish when the server is stopped.
    """

    body: int = 8 * 2**20
    cells: int = 250_000
    seconds: float = 300.0
    samples: int = 4096
    queue: int = 256
    batch: int = 32
    kept: int = 1000
    wait: float = 30.0
    grace: float = 5.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0 and not (name == "grace" and value == 0):
                raise UsageError(f"the limit '{name}' must be more than 0, got {value:g}")


@dataclass(frozen=True)
class Settings:
    """How a server runs.

    data : the folder in which jobs survive; None keeps them in memory.
    token : what requests must show; None asks for nothing.
    hosts : names under which the server may be addressed; empty allows all.
    origins : web pages of other hosts that may call it.
    models : files of models beside the shipped ones, by the name requests use.
    device : "auto", "cpu" or "cuda".
    workers : processes that solve on the CPU; on GPUs there is one for each.
    warm : whether workers load models and compile before they take work, or with the first request that needs it.
    """

    limits: Limits = field(default_factory=Limits)
    data: Path | None = None
    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    models: dict[str, Path] = field(default_factory=dict)
    device: str = "auto"
    workers: int = 1
    warm: bool = True
