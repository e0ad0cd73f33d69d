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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from .errors import IcdcError, InfeasibleError, InputError, MissingExtraError, UsageError
from .io import instances_from
from .options import HTTP, Group, check_all, options_of
from .problems import get_problem, problem_path
from .problems.base import Problem
from .problems.instance import Conditions, Instance
from .solving.answer import Answer

_ERRORS: dict[int, type[IcdcError]] = {
    cls.exit_code: cls for cls in (UsageError, InputError, InfeasibleError, MissingExtraError)
}


class ServerError(IcdcError):
    """The server could not be reached, or could not serve; `status` is that of HTTP, 0 where there was no answer."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class RemoteJob:
    """A job on a server, to follow, to wait for, or to cancel."""

    client: "Client"
    id: str
    instance: Instance

    def state(self) -> dict[str, Any]:
        """Return how it stands: its state, the best cost and bound so far, its answer once it has one."""
        state: dict[str, Any] = self.client._json("GET", f"/v1/jobs/{self.id}")
        return state

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
    token : the token that it needs, if it does.
    timeout : seconds without an answer after which the connection counts as lost.
    patience : seconds for which a request is sent again while the server is too busy.
    """

    def __init__(self, url: str, *, token: str | None = None, timeout: float = 60.0, patience: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"a server's address looks like http://127.0.0.1:8000, not {url!r}")
        self.url, self.token, self.timeout, self.patience = url, token, timeout, patience
        self._parts = parts

    def solve(self, instance: Any, *, problem: str | Problem | None = None, **options: Any) -> Answer:
        """Solve one instance on the server; options and answer are those of `icdc.solve`."""
        one = _one(instance, problem)
        answer = self._json("POST", "/v1/solve", _document(one, options))
        if "state" in answer:  # it takes longer, and has become a job
            return RemoteJob(self, answer["id"], one).answer()
        return self._answer_of({"answer": answer}, one)

    def submit(self, instance: Any, *, problem: str | Problem | None = None, **options: Any) -> RemoteJob:
        """Begin a job that goes on without this client; the options are those of `solve`."""
        one = _one(instance, problem)
        return RemoteJob(self, self._json("POST", "/v1/jobs", _document(one, options))["id"], one)

    def job(self, id: str, instance: Any, *, problem: str | Problem | None = None) -> RemoteJob:
        """Return an earlier job by its name; its instance gives its answer a meaning."""
        return RemoteJob(self, id, _one(instance, problem))

    def models(self) -> dict[str, Any]:
        """Return the cards of the server's models."""
        cards: dict[str, Any] = self._json("GET", "/v1/models")
        return cards

    def _answer_of(self, job: Mapping[str, Any], instance: Instance) -> Answer:
        record = job.get("answer")
        if record is None:
            raise _error(job.get("error") or {"detail": "the job was cancelled before it had an answer", "status": 409})
        if not record["feasible"]:
            raise InfeasibleError(record.get("reason") or "no feasible solution was found")
        if "conditions" in record:
            instance = replace(instance, conditions=Conditions.from_dict(record["conditions"]))
        choice = np.asarray(instance.choice(record["solution"]))
        # every other field must be sent; `cause` is None where there is an answer
        names = {field.name for field in fields(Answer)} - {"instance", "choice", "cause"}
        return Answer(instance, choice, **{name: record[name] for name in names})

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
        sent = {"Content-Type": "application/json", **(headers or {})}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        deadline = time.monotonic() + self.patience
        while True:
            connection = self._connection()
            try:
                connection.request(method, self._parts.path.rstrip("/") + path, body, sent)
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
    """Return a value as one checked instance."""
    instances = instances_from(value, get_problem(problem) if isinstance(problem, str) else problem, "instance")
    if len(instances) != 1:
        raise UsageError(f"a request holds one instance, this holds {len(instances)}; send them one by one")
    return instances[0]


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a request, checked, as JSON holds them; pairs as lists, since their items may be numbers.

    How content is read is not among them: the instance is sent as it is understood here.
    """
    allowed = [one.name for one in options_of(HTTP, Group.RUN, Group.SOLVER, Group.CONDITIONS)]
    allowed = [name for name in allowed if name not in ("problem", "name")]
    for name in options:
        if name not in allowed:
            raise UsageError(f"unknown option '{name}'; choose from {', '.join(allowed)}")
    values = check_all({name: value for name, value in options.items() if value is not None})
    if "start" in values:
        values["start"] = [int(item) for item in values["start"]]  # also from an array
    if "fixed" in values:
        pairs = values["fixed"]
        values["fixed"] = [list(pair) for pair in (pairs.items() if isinstance(pairs, Mapping) else pairs)]
    if "busy" in values and not isinstance(values["busy"], Mapping):
        values["busy"] = list(values["busy"])
    return values


def _document(instance: Instance, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return an instance and the options of a request as the server reads them."""
    values = _values(options)
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
    return {"instance": {"problem": path, **document}, "name": instance.name, **values}


def _with_gaps(array: NDArray[Any], instance: Instance) -> Any:
    """Return an array as lists, with None where a pair is forbidden."""
    if instance.forbidden is None or instance.forbidden.shape != array.shape:
        return array.tolist()
    gaps = array.astype(object)
    gaps[instance.forbidden] = None
    return gaps.tolist()


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _error(refusal: Mapping[str, Any]) -> IcdcError:
    """Return the error behind a refusal: that of the package with its exit code, or a ServerError."""
    status = int(refusal.get("status") or 0)
    sentence = str(refusal.get("detail") or f"the server answered {status}")
    cls = _ERRORS.get(refusal.get("exit_code") or 0)
    return cls(sentence) if cls is not None else ServerError(sentence, status)
