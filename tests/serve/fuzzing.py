"""Requests that no client would send: every answer is a sentence, and none is an internal error.

The service is a process of its own on 127.0.0.1; nothing else is ever sent to.
"""

import json
from typing import Any

import httpx2 as httpx
from hypothesis import strategies as st

from icdc.options import HTTP, options_of
from icdc.serve.requests import KINDS
from tests.io.corpus import CORPUS

PATHS = ("/v1/solve", "/v1/jobs", "/v1/read", "/v1/models", "/v1/problems", "/healthz", "/metrics", "/v1/jobs/x", "/")
_PRINTABLE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([2**53, 2**63, 2**64, -(2**63), 10**400, 1e308, 1e-320, float("inf"), float("nan"), 0.5]),
    st.text(max_size=6),  # also halves of characters
)
ANYTHING = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_PRINTABLE, inner, max_size=3), max_leaves=9
)
MATRICES = st.integers(1, 4).flatmap(
    lambda columns: st.lists(
        st.lists(st.integers(0, 99) | st.none() | _LEAVES, min_size=columns, max_size=columns), min_size=1, max_size=4
    )
)
INSTANCES = st.one_of(
    MATRICES,
    st.builds(
        lambda problem, matrix, more: {"problem": problem, "matrix": matrix} | more,
        st.sampled_from(["pmsp", "atsp", "navigation", "setups", "flow-shop", "none"]),
        MATRICES,
        st.dictionaries(st.sampled_from(["rows", "columns", "forbidden", "conditions", "times"]), ANYTHING, max_size=2),
    ),
    ANYTHING,
    st.sampled_from([entry[1] for entry in CORPUS if isinstance(entry[1], str)]),
)
USUAL = {
    "problem": st.sampled_from(["pmsp", "atsp", "navigation", "setups", "flow-shop"]),
    "solver": st.sampled_from(["lpt", "nn", "search", "ga:iterations=2", "ga:x=1", "icdc:chunk=1", "random"]),
    "time_limit": st.just(0.1),
    "start": st.lists(st.integers(-1, 4), max_size=4),
    "fixed": st.lists(st.lists(st.integers(-1, 4), max_size=3), max_size=2),
    "busy": st.lists(st.integers(-1, 9), max_size=4) | st.dictionaries(st.sampled_from("01a"), st.integers(0, 9)),
}


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Return options of a request, most with values that make sense."""
    names = draw(st.lists(st.sampled_from([*(one.name for one in options_of(HTTP)), "colour"]), max_size=4))
    return {name: draw(USUAL.get(name, ANYTHING) if draw(st.integers(0, 3)) else ANYTHING) for name in names}


def requests_never_end_in_an_internal_error(data: st.DataObject, url: str) -> None:
    """Send one drawn request; the answer is no 500, and a refusal has a sentence."""
    path = data.draw(st.sampled_from(PATHS[:3]) | st.sampled_from(PATHS))
    method = data.draw(st.sampled_from(["POST", "POST", "POST", "GET", "DELETE", "PUT"]))
    kind = data.draw(st.just("application/json") | st.sampled_from([*KINDS, "text/xml", ""]))
    values = {"solver": "lpt", "time_limit": 0.1} | data.draw(options())
    query: dict[str, str] = {}
    if kind == "application/json":
        instance = data.draw(INSTANCES)
        content = json.dumps(
            instance if data.draw(st.integers(0, 5)) == 0 else {"instance": instance, **values}
        ).encode()
    else:
        entry = data.draw(st.sampled_from([entry for entry in CORPUS if len(entry[1]) < 5000]))
        content = entry[1] if isinstance(entry[1], bytes) else entry[1].encode()
        query = {name: json.dumps(value) if not isinstance(value, str) else value for name, value in values.items()}
        query = {name: value.encode(errors="replace").decode() for name, value in query.items()}
    for _ in range(data.draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place = data.draw(st.integers(0, len(content)))
        content = content[:place] + data.draw(st.binary(max_size=3)) + content[place + data.draw(st.integers(0, 3)) :]
    response = httpx.request(
        method, url + path, params=query, content=content, headers={"content-type": kind}, timeout=60
    )
    assert response.status_code < 500 or response.status_code == 501, (
        response.text,
        method,
        path,
        kind,
        query,
        content,
    )
    if response.status_code >= 400:
        assert response.json()["detail"], response.text
