"""What the OpenAPI document says of bodies that are not plain JSON objects of one shape."""

from typing import Any

_NUMBER = {"type": "number", "nullable": True}
_TEXT = {"type": "string", "nullable": True}

_WORDS: dict[str, Any] = {
    "problem": ({"type": "string"}, "What it is an instance of; needed where the content leaves it open."),
    "name": ({"type": "string"}, "The word for it in answers and messages."),
    "solver": ({"type": "string", "default": "icdc"}, "A solver's name, or name:key=value,…."),
    "model": ({"type": "string"}, "One of /v1/models; by default the one that fits best."),
    "samples": ({"type": "integer", "minimum": 1}, "Tries; by default as many as the solver takes by itself."),
    "steps": ({"type": "integer", "minimum": 1}, "Denoising steps of the learned solver."),
    "refine": ({"type": "integer", "minimum": 0}, "Rounds of refinement by noising again."),
    "time_limit": ({"type": "number", "exclusiveMinimum": 0}, "Seconds to search."),
    "seed": ({"type": "integer", "minimum": 0, "default": 0}, "Seed of all random numbers."),
    "trace": ({"type": "boolean", "default": False}, "Whether events show the steps of the network."),
    "open": ({"type": "boolean", "default": False}, "A tour need not return to where it began."),
    "first": ({"type": "string"}, "The first city or job, by name or number from 0."),
    "last": ({"type": "string"}, "The last city or job, by name or number from 0."),
    "stay": ({"type": "number", "minimum": 0}, "What each change of the start weighs."),
    "labels": ({"type": "boolean"}, "Row 1 and column 1 are names, even if numbers; or no number is a name."),
    "comments": ({"type": "boolean"}, "Lines that begin with # are comments; or are rows."),
    "decimal": ({"type": "string", "enum": [".", ","]}, "The mark before fractions."),
    "id_column": ({"type": "string"}, "The column of names: its own name, or its number; 0 for none."),
    "transpose": ({"type": "boolean"}, "Rows and columns of a table change places; or do not."),
    "sheet": ({"type": "string"}, "The sheet of a workbook."),
    "range": ({"type": "string"}, "The part of the sheet, such as B2:F20."),
    "hidden": ({"type": "boolean"}, "Hidden rows and columns of a workbook are read; or left out."),
    "forbidden": ({"type": "string", "enum": ["nan"]}, "NaN marks a forbidden pair, too."),
}
_PAIRS = (
    {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {}}},
    "Pairs to keep, by name or number: a job and its machine, a city and the one after it; also an object. "
    "In a query, as JSON.",
)
_BUSY = (
    {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
    "Until when machines are busy, by name or number; also a list with a time for each. In a query, as JSON.",
)
_SKIP = (
    {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "Rows and columns that are left out, by name or place ('row 4', 'column 3'); several in a query as JSON.",
)
_START = {"type": "array", "items": {"type": "integer"}, "description": "A solution to begin with."}

_ASKED: dict[str, Any] = {"fixed": _PAIRS, "busy": _BUSY, "skip": _SKIP}
_IN_QUERY = _WORDS | {name: ({"type": "string"}, about) for name, (_, about) in _ASKED.items()}

REQUEST_QUERY: list[dict[str, Any]] = [
    {"name": name, "in": "query", "required": False, "schema": schema, "description": about}
    for name, (schema, about) in _IN_QUERY.items()
]
"""The words of `icdc solve` as parameters of a request whose body is a file."""

_ENVELOPE = {
    "type": "object",
    "required": ["instance"],
    "properties": {
        "instance": {"description": "A matrix, an object with named arrays, or the text of a CSV or TSPLIB file."},
        **{name: schema | {"description": about} for name, (schema, about) in _WORDS.items()},
        "start": _START,
        **{name: schema | {"description": about} for name, (schema, about) in _ASKED.items()},
    },
}

REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "description": "One instance, as a file or inside an object with the words of the query.",
    "content": {
        "application/json": {"schema": {"oneOf": [_ENVELOPE, {"type": "array"}, {"type": "object"}]}},
        "text/csv": {"schema": {"type": "string"}},
        "text/tab-separated-values": {"schema": {"type": "string"}},
        "text/plain": {"schema": {"type": "string"}},
        "application/x-tsplib": {"schema": {"type": "string"}},
        "application/x-npz": {"schema": {"type": "string", "format": "binary"}},
        "application/x-npy": {"schema": {"type": "string", "format": "binary"}},
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": {
            "schema": {"type": "string", "format": "binary"}
        },
    },
}

_ANSWER = {
    "type": "object",
    "properties": {
        "problem": {"type": "string"},
        "instance": {"type": "string"},
        "objective": _NUMBER,
        "solution": {"type": "array", "items": {"type": "integer"}},
        "feasible": {"type": "boolean"},
        "conditions": {"type": "object", "description": "What was asked beyond the matrix, in numbers from 0."},
        "cost": _NUMBER | {"description": "Where changes weigh something, what the solution costs without that."},
        "changes": {"type": "integer", "description": "New steps, or jobs moved, where changes weigh something."},
        "timetable": {"type": "object", "description": "When each job of a sequence begins and ends."},
        "bound": _NUMBER,
        "gap": _NUMBER,
        "samples": {"type": "integer"},
        "seconds": {"type": "number"},
        "seed": {"type": "integer"},
        "solver": {"type": "string"},
        "model": _TEXT,
        "found_by": _TEXT,
        "version": {"type": "string"},
        "optimal": {"type": "boolean"},
        "interrupted": {"type": "boolean"},
        "in_words": {"type": "string"},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
}
_OUTCOME = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "state": {"type": "string", "enum": ["waiting", "running", "done", "failed", "cancelled"]},
        "created": {"type": "number"},
        "seconds": _NUMBER,
        "position": {"type": "integer", "nullable": True},
        "cost": _NUMBER,
        "bound": _NUMBER,
        "notes": {"type": "array", "items": {"type": "string"}},
        "answer": _ANSWER | {"nullable": True},
        "error": {"type": "object", "nullable": True},
    },
}
_REFUSAL = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "The sentence of the command line."},
        "exit_code": {"type": "integer", "nullable": True, "description": "What the command line would exit with."},
    },
}

PROBLEM: dict[str, Any] = {
    "description": "Why not, in a sentence",
    "content": {"application/problem+json": {"schema": _REFUSAL}},
}
SOLVED: dict[str, Any] = {"description": "The answer", "content": {"application/json": {"schema": _ANSWER}}}
ACCEPTED: dict[str, Any] = {
    "description": "A job that goes on; Location is its address",
    "content": {"application/json": {"schema": _OUTCOME}},
}
JOB: dict[str, Any] = {"description": "The job", "content": {"application/json": {"schema": _OUTCOME}}}
