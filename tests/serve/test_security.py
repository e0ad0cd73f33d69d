"""Who may ask, from where, and what every response carries."""

import socket
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from icdc.cli import run
from icdc.serve.limits import Settings
from icdc.serve.security import HEADERS

from .process import RunningServer

Serving = Callable[..., TestClient]
LOCAL = Settings(hosts=("127.0.0.1", "localhost", "::1"))


@pytest.mark.parametrize("path", ["/", "/js/main.js", "/v1/problems", "/v1/nothing", "/healthz"])
def test_every_response_carries_the_headers(serving: Serving, path: str) -> None:
    response = serving().get(path)
    for name, value in HEADERS.items():
        assert response.headers[name] == value
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "server" not in response.headers


def test_only_the_names_of_this_machine_are_answered_to(serving: Serving) -> None:
    """A page of somebody's that lets its own name lead here must not get through."""
    client = serving(LOCAL)
    assert client.get("/healthz", headers={"host": "evil.example:8000"}).status_code == 403
    assert client.get("/healthz", headers={"host": "localhost:8000"}).status_code == 200
    assert client.get("/healthz", headers={"host": "[::1]:8000"}).status_code == 200


@pytest.mark.parametrize(
    "host", ["", "[::1", "evil@127.0.0.1", "127.0.0.1@evil", "127.0.0.1:80:80", "127.0.0.1/", "a b"]
)
def test_names_that_are_none_are_refused(serving: Serving, host: str) -> None:
    assert serving(LOCAL).get("/healthz", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("origin", ["http://[::1", "null", "", "http://", "javascript:1", "http://127.0.0.1:8000.evil"])
def test_origins_that_are_none_are_refused(serving: Serving, origin: str) -> None:
    assert serving(LOCAL).get("/v1/problems", headers={"origin": origin}).status_code == 403


def test_what_other_pages_embed_gets_nothing(serving: Serving, shop: dict[str, Any]) -> None:
    """A browser that sends no origin says all the same where the request comes from; the page itself can be linked."""
    client = serving(Settings(hosts=LOCAL.hosts, origins=("https://tool.example",)))
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert client.get("/v1/problems", headers={"sec-fetch-site": site}).status_code == status
        assert client.post("/v1/solve", json=shop, headers={"sec-fetch-site": site}).status_code == status
        assert client.get("/metrics", headers={"sec-fetch-site": site}).status_code == status
        assert client.get("/", headers={"sec-fetch-site": site}).status_code == 200
    named = {"sec-fetch-site": "cross-site", "origin": "https://tool.example"}
    assert client.get("/v1/problems", headers=named).status_code == 200


def test_pages_of_other_hosts_get_nothing_unless_named(serving: Serving, shop: dict[str, Any]) -> None:
    client = serving(LOCAL)
    refused = client.post("/v1/solve", json=shop, headers={"origin": "https://evil.example"})
    assert refused.status_code == 403
    assert "access-control-allow-origin" not in refused.headers
    assert client.options("/v1/solve", headers={"origin": "https://evil.example"}).status_code == 403
    assert client.post("/v1/solve", json=shop, headers={"origin": "null"}).status_code == 403
    assert client.post("/v1/solve", json=shop, headers={"origin": "http://127.0.0.1:8000"}).status_code == 200


def test_pages_that_are_named_get_through(serving: Serving, shop: dict[str, Any]) -> None:
    client = serving(Settings(origins=("https://tool.example",)))
    ahead = client.options("/v1/solve", headers={"origin": "https://tool.example"})
    assert ahead.status_code == 204
    assert ahead.headers["access-control-allow-origin"] == "https://tool.example"
    assert "authorization" in ahead.headers["access-control-allow-headers"]
    answer = client.post("/v1/solve", json=shop, headers={"origin": "https://tool.example"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://tool.example"


def test_a_token_guards_everything_but_the_page_and_its_health(serving: Serving, shop: dict[str, Any]) -> None:
    client = serving(Settings(token="open sesame".replace(" ", "-")))
    for path in ("/v1/problems", "/v1/models", "/metrics", "/v1/openapi.json", "/v1/jobs/x", "/v1/jobs/x/events"):
        response = client.get(path)
        assert response.status_code == 401, path
        assert response.headers["www-authenticate"] == "Bearer"
    assert client.post("/v1/solve", json=shop).status_code == 401
    assert client.delete("/v1/jobs/x").status_code == 401
    for wrong in ("Bearer open-sesam", "Bearer open-sesamee", "open-sesame", "Basic open-sesame", "Bearer é"):
        assert client.get("/v1/problems", headers={"authorization": wrong.encode()}).status_code == 401
    assert client.get("/v1/problems", headers={"authorization": "Bearer open-sesame"}).status_code == 200
    assert client.get("/").status_code == 200
    assert client.get("/healthz").status_code == 200


def test_a_request_with_two_lengths_is_refused(running_server: RunningServer) -> None:
    """A proxy that believes the other one would take a part of the body for a second request."""
    host, port = running_server.url.removeprefix("http://").split(":")
    head = f"POST /v1/solve HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: text/csv\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall((head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"Content-Length and Transfer-Encoding" in answer


def test_requests_do_not_reach_files(serving: Serving) -> None:
    client = serving()
    for path in ("/../pyproject.toml", "/js/../../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/static/../app.py"):
        assert client.get(path).status_code == 404, path
    for document in ('"/etc/passwd"', '"-"', '{"instance": "/etc/passwd"}', '{"instance": "-"}'):
        response = client.post("/v1/solve", content=document, headers={"content-type": "application/json"})
        assert response.status_code in (400, 422)
        assert "root:" not in response.text


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 can be reached by others: give them a token"),
        (["--host", "0.0.0.0", "--token", "short"], "--token must have at least 8 printable characters"),
        (["--seconds", "0"], "the limit 'seconds' must be more than 0, got 0"),
        (["--device", "tpu"], "--device must be auto, cpu or cuda, got 'tpu'"),
        (["--origin", "tool.example"], "--origin must be as browsers write it, such as https://tool.example, got"),
        (["--origin", "https://a.example", "--origin", "https://tool.example/"], "got 'https://tool.example/'"),
        (["--model", "/nowhere/x.safetensors"], "--model /nowhere/x.safetensors: no such file"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *flags]) == 2
    assert sentence in capsys.readouterr().err
