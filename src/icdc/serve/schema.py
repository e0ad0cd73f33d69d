"""What requests, answers and errors look like: the models from which FastAPI makes the OpenAPI document.

The options of a request are those of the table in `icdc.options`, within the limits of the server.
"""

from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from ..options import HTTP, OPTIONS, http_fields, options_of
from .limits import Limits
from .requests import KINDS, limited

Number = int | float | None


class Problem(BaseModel):
    """A request that is not served: `application/problem+json`."""

    type: str
    title: str
    status: int
    detail: str = Field(description="The sentence of the command line.")
    exit_code: int | None = Field(description="The exit code of the command line for the same error.")


class Answer(BaseModel):
    """A checked solution, as `icdc solve --json` prints it, with what the last four fields add."""

    problem: str
    instance: str
    understood: str | None = Field(description="What the instance was read as.")
    objective: Number
    solution: list[int] | None
    feasible: bool
    reason: str | None = Field(None, description="Why there is no feasible answer.")
    conditions: dict[str, Any] | None = Field(None, description="The conditions on the solution, in numbers from 0.")
    cost: Number = Field(None, description="Where changes weigh something, the cost of the solution without them.")
    changes: int | None = Field(None, description="New steps, or jobs moved, where changes weigh something.")
    timetable: dict[str, list[Any]] | None = Field(None, description="When each job of a sequence begins and ends.")
    bound: Number
    gap: float | None
    samples: int
    seconds: float
    seed: int
    solver: str
    model: str | None
    found_by: str | None
    version: str
    optimal: bool
    interrupted: bool
    in_words: str
    notes: list[str] = []


class Job(BaseModel):
    """How a job stands."""

    id: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    created: float
    seconds: float | None
    problem: str
    instance: str
    solver: str
    time_limit: float | None
    position: int | None = Field(None, description="Jobs before it in the queue.")
    cost: Number = Field(description="Of the best solution so far.")
    bound: Number
    notes: list[str]
    answer: Answer | None
    error: Problem | None


def request_model(limits: Limits) -> type[BaseModel]:
    """Return the model of a request whose instance and options are one JSON object."""
    fields: dict[str, Any] = {
        "instance": (Any, Field(description="A matrix, an object with named arrays, or the text of a file."))
    }
    for name, (kind, about) in http_fields().items():
        most = limited(OPTIONS[name], limits).most
        fields[name] = kind, Field(**about | ({} if most is None else {"le": most}))
    return create_model("Request", **fields)


def request_document(limits: Limits) -> dict[str, Any]:
    """Return what the OpenAPI document says of a request: a file with options in the query, or one JSON object."""
    schema = request_model(limits).model_json_schema()
    parameters = [
        {"name": one.name, "in": "query", "schema": _in_query(schema["properties"][one.name]), "description": one.help}
        for one in options_of(HTTP)
    ]
    binary = (".npz", ".npy", ".xlsx")
    content: dict[str, Any] = {
        kind: {"schema": {"type": "string", "format": "binary"} if ending in binary else {"type": "string"}}
        for kind, ending in KINDS.items()
    }
    content["application/json"] = {"schema": {"anyOf": [schema, {"type": "array"}, {"type": "object"}]}}
    about = "One instance, as a file or inside an object with the options of the query."
    return {"parameters": parameters, "requestBody": {"required": True, "description": about, "content": content}}


def _in_query(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an option in a query, where lists and objects are written as JSON."""
    kinds = [one for one in schema.get("anyOf", [schema]) if one.get("type") not in ("array", "object", "null")]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {"type": "string", "format": "json"}


PROBLEM: dict[str, Any] = {
    "description": "Why not, in a sentence",
    "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
}
SOLVED: dict[str, Any] = {"description": "The answer", "model": Answer}
ACCEPTED: dict[str, Any] = {"description": "A job that goes on; Location is its address", "model": Job}
JOB: dict[str, Any] = {"description": "The job", "model": Job}
