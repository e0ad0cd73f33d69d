"""A client of `icdc serve` that needs nothing but the standard library, and returns the answers `icdc.solve` returns.

client = icdc.Client("http://127.0.0.1:8000")
answer = client.solve(matrix, problem="atsp", time_limit=5)
job = client.submit(matrix, problem="atsp", time_limit=60)
for event in job.events():
    print(event["event"], event.get("cost"))
"""

import http.client
import json
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from .errors import IcdcError, InfeasibleError, InputError, MissingExtraError, UsageError
from .io import instances_from
from .problems import get_problem, problem_path
from .problems.base import Problem
from .problems.conditions import Item
from .problems.instance import Conditions, Instance, Number
from .solving.answer import Answer
from .solving.verify import Verdict

_ERRORS: dict[int, type[IcdcError]] = {
    cls.exit_code: cls for cls in (UsageError, InputError, InfeasibleError, MissingExtraError)
}


class Words(TypedDict, total=False):
    """How an instance is to be solved: the options of `icdc.solve` that a server takes.

    model : one of the server's models; by default the one that fits best.
    solver : a solver's name, or name:key=value,….
    samples, steps, refine : tries, denoising steps and rounds of refinement of the learned solver.
    seed : of all random numbers.
    time_limit : seconds to search.
    start : a solution to begin with.
    fixed, stay, open, first, last, busy : what is asked of the solution beyond the matrix.
    """

    model: str | None
    solver: str | None
    samples: int | None
    steps: int | None
    refine: int | None
    seed: int
    time_limit: float | None
    start: Sequence[int] | None
    fixed: Mapping[Item, Item] | Iterable[Sequence[Item]] | None
    stay: Number | None
    open: bool
    first: Item | None
    last: Item | None
    busy: Mapping[Item, Number] | Sequence[Number] | None


class ServerError(IcdcError):
    """The server could not be reached, or could not serve; `status` is that of HTTP, 0 where there was no answer."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class RemoteJob:
    """A job on a server: follow it, wait for it, or cancel it."""

    client: "Client"
    id: str
    instance: Instance

    def state(self) -> dict[str, Any]:
        """Return how it stands: its state, the best cost and bound so far, its answer once it has one."""
        found: dict[str, Any] = self.client._json("GET", f"/v1/jobs/{self.id}")
        return found

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield every event until the end: its name as "event", and its data."""
        yield from self.client._events(f"/v1/jobs/{self.id}/events")

    def answer(self) -> Answer:
        """Wait for the end and return the answer; the best so far where it was cancelled."""
        for event in self.events():
            if event["event"] == "end":
                return self.client._answer_of(event, self.instance)
        return self.client._answer_of(self.state(), self.instance)

    def cancel(self) -> Answer | None:
        """Stop computing; return the best so far, if there is any."""
        job = self.client._json("DELETE", f"/v1/jobs/{self.id}")
        return None if job["answer"] is None else self.client._answer_of(job, self.instance)


class Client:
    """A server of `icdc serve`.

    Parameters
    ----------
    url : its address, such as "http://127.0.0.1:8000".
    token : what it asks for, if it does.
    timeout : seconds without a word from the server after which it counts as lost.
    patience : seconds for which a server that is too busy is asked again.
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0, patience: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"a server's address looks like http://127.0.0.1:8000, not {url!r}")
        self.url, self.token, self.timeout, self.patience = url, token, timeout, patience
        self._parts = parts

    def solve(self, instance: Any, *, problem: str | Problem | None = None, **words: Unpack[Words]) -> Answer:
        """Solve one instance on the server; the words and the answer are those of `icdc.solve`."""
        one = _one(instance, problem)
        found = self._json("POST", "/v1/solve", _document(one, words))
        if "state" in found:  # it takes longer, and has become a job
            return RemoteJob(self, found["id"], one).answer()
        return self._answer_of({"answer": found}, one)

    def submit(self, instance: Any, *, problem: str | Problem | None = None, **words: Unpack[Words]) -> RemoteJob:
        """Begin a job that goes on without this client; the words are those of `solve`."""
        one = _one(instance, problem)
        return RemoteJob(self, self._json("POST", "/v1/jobs", _document(one, words))["id"], one)

    def job(self, id: str, instance: Any, *, problem: str | Problem | None = None) -> RemoteJob:
        """Return a job that was begun before, by its name; its instance is needed to make sense of its answer."""
        return RemoteJob(self, id, _one(instance, problem))

    def models(self) -> dict[str, Any]:
        """Return the cards of the server's models."""
        found: dict[str, Any] = self._json("GET", "/v1/models")
        return found

    def _answer_of(self, job: Mapping[str, Any], instance: Instance) -> Answer:
        found = job.get("answer")
        if found is None:
            raise _error(job.get("error") or {"detail": "the job was cancelled before it had an answer", "status": 409})
        if not found["feasible"]:
            raise InfeasibleError(found.get("reason") or "no feasible solution was found")
        if "conditions" in found:
            instance = replace(instance, conditions=Conditions.from_dict(found["conditions"]))
        choice = instance.choice(found["solution"])
        verdict = Verdict(True, found["objective"], found["bound"])
        return Answer(
            instance, np.asarray(choice), verdict, found["samples"], found["seconds"], found["seed"], found["solver"],
            found["model"], interrupted=found["interrupted"], found_by=found["found_by"],
        )  # fmt: skip

    def _connection(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self.timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=self.timeout)

    def _send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request, again where the server is too busy; return an answer that is no refusal."""
        given = {"Content-Type": "application/json", **(headers or {})}
        if self.token is not None:
            given["Authorization"] = f"Bearer {self.token}"
        deadline = time.monotonic() + self.patience
        while True:
            connection = self._connection()
            try:
                connection.request(method, self._parts.path.rstrip("/") + path, body, given)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise ServerError(f"{self.url}: the server cannot be reached ({error})") from None
            if response.status < 400:
                return connection, response
            document = _parsed(response.read())
            connection.close()
            wait = response.headers.get("Retry-After", "")
            pause = float(wait) if wait.isdecimal() else 1.0
            if response.status != 429 or time.monotonic() + pause > deadline:
                raise _error({"status": response.status, **document})
            time.sleep(pause)

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        connection, response = self._send(method, path, None if body is None else json.dumps(body).encode())
        try:
            return json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ServerError(f"{self.url}: the server broke off ({error})") from None
        finally:
            connection.close()

    def _events(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a job, each once; a connection that breaks is taken up again."""
        last, failures = 0, 0
        while True:
            connection, response = self._send("GET", path, headers={"Last-Event-ID": str(last)})
            fields: dict[str, str] = {}
            try:
                for line in response:
                    text = line.decode().rstrip("\n")
                    if text:
                        name, _, value = text.partition(": ")
                        fields[name] = value
                    elif "event" in fields:
                        last, failures = int(fields["id"]), 0
                        yield {**json.loads(fields["data"]), "event": fields["event"]}
                        if fields["event"] == "end":
                            return
                        fields = {}
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            failures += 1
            if failures > 5:
                raise ServerError(f"{self.url}: the server broke off")
            time.sleep(0.2 * failures)


def _one(value: Any, problem: str | Problem | None) -> Instance:
    """Return what was given as one checked instance."""
    asked = get_problem(problem) if isinstance(problem, str) else problem
    found = instances_from(value, asked, "instance")
    if len(found) != 1:
        raise UsageError(f"a request holds one instance, this holds {len(found)}; send them one by one")
    return found[0]


def _said(words: Words) -> dict[str, Any]:
    """Return the words of a request as JSON holds them; pairs as lists, since their items may be numbers."""
    unknown = [word for word in words if word not in Words.__annotations__]
    if unknown:
        raise UsageError(f"unknown option '{unknown[0]}'; choose from {', '.join(Words.__annotations__)}")
    said: dict[str, Any] = {word: value for word, value in words.items() if value is not None}
    if "start" in said:
        said["start"] = [int(item) for item in said["start"]]  # also from an array
    if "fixed" in said:
        pairs = said["fixed"]
        said["fixed"] = [list(pair) for pair in (pairs.items() if isinstance(pairs, Mapping) else pairs)]
    if "busy" in said and not isinstance(said["busy"], Mapping):
        said["busy"] = list(said["busy"])
    return said


def _document(instance: Instance, words: Words) -> dict[str, Any]:
    """Return an instance and the words of a request as the server reads them."""
    said = _said(words)
    path = problem_path(instance.problem)
    if ":" in path:
        raise UsageError(f"a server solves the problems that ship, not '{path}'")
    document: dict[str, Any] = {name: _with_gaps(array, instance) for name, array in instance.arrays.items()}
    if instance.forbidden is not None and all(a.shape != instance.forbidden.shape for a in instance.arrays.values()):
        document["forbidden"] = instance.forbidden.tolist()
    if instance.rows is not None:
        document["rows"] = list(instance.rows)
    if instance.columns is not None and not instance.problem.feature_sizes.same_items:
        document["columns"] = list(instance.columns)
    return {"instance": {"problem": path, **document}, "name": instance.name, **said}


def _with_gaps(array: NDArray[Any], instance: Instance) -> Any:
    """Return an array as lists, with None where a pair is forbidden."""
    if instance.forbidden is None or instance.forbidden.shape != array.shape:
        return array.tolist()
    gaps = array.astype(object)
    gaps[instance.forbidden] = None
    return gaps.tolist()


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _error(refusal: Mapping[str, Any]) -> IcdcError:
    """Return the error behind a refusal: that of the package, where the command line would know the case, too."""
    sentence, status = (
        str(refusal.get("detail") or f"the server answered {refusal.get('status')}"),
        refusal.get("status"),
    )
    cls = _ERRORS.get(refusal.get("exit_code") or 0)
    return cls(sentence) if cls is not None else ServerError(sentence, int(status or 0))
