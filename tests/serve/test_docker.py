"""The image: built and started where Docker runs, otherwise read like a careful reviewer would."""

import os
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = (ROOT / "compose.yaml").read_text()


def _docker_runs() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True, check=False, timeout=20).returncode == 0


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, continued lines joined."""
    joined = re.sub(r"\\\n", " ", DOCKERFILE)
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def test_the_image_is_small_and_unprivileged() -> None:
    found = instructions()
    names = [name for name, _ in found]
    assert set(names) <= {
        "FROM", "WORKDIR", "COPY", "ARG", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "CMD",
    }  # fmt: skip
    assert names.count("FROM") == 2, "what builds it stays behind"
    assert all(":" in value and ":latest" not in value for name, value in found if name == "FROM")
    last = names[len(names) - 1 - names[::-1].index("FROM") :]
    assert "USER" in last
    user = next(value for name, value in found if name == "USER")
    assert user.isdecimal()
    assert int(user) > 0
    assert "HEALTHCHECK" in last
    assert "TORCH_INDEX:+--index-url" in DOCKERFILE, "an index of builds without CUDA can be given"
    assert "--no-cache-dir" in DOCKERFILE
    extras = re.findall(r"'\.\[([\w,]+)\]'", DOCKERFILE)
    assert [set(one.split(",")) for one in extras] == [{"serve", "excel"}], "what the page reads, no more"


def test_the_services_of_the_compose_file_are_locked_down() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    compose = yaml.safe_load(COMPOSE)
    (service,) = compose["services"].values()
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["environment"]["ICDC_TOKEN"].startswith("${ICDC_TOKEN:?"), "it does not start without a token"
    assert "TORCH_INDEX" in service["build"]["args"]
    named = {volume.split(":")[0] for volume in service["volumes"]}
    assert named == set(compose["volumes"])
    stop = next(value for name, value in instructions() if name == "STOPSIGNAL")
    assert stop == "SIGTERM"
    assert int(service["stop_grace_period"].removesuffix("s")) > 5 + 10  # the grace of searches, and of connections


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    for name, value in instructions():
        if name == "COPY" and not value.startswith("--from"):
            for source in value.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source.removeprefix('./')}" in ignored, source


def test_the_command_is_one_that_the_server_takes() -> None:
    """It listens to others, so it needs a token; without one it says so."""
    import json

    from icdc.cli import run

    command = json.loads(next(value for name, value in instructions() if name == "CMD"))
    assert command[0] == "icdc"
    assert run(command[1:]) == 2
    assert "ICDC_TOKEN" in COMPOSE


@pytest.mark.slow
@pytest.mark.skipif(not _docker_runs(), reason="no Docker daemon can be reached")
def test_the_image_starts_and_is_healthy() -> None:
    index = os.environ.get("TORCH_INDEX", "")
    build = ["docker", "build", "--build-arg", f"TORCH_INDEX={index}", "--tag", "icdc-test", "."]
    subprocess.run(build, cwd=ROOT, check=True, timeout=900)
    command = [
        "docker",
        "run",
        "--rm",
        "--detach",
        "--publish",
        "127.0.0.1::8000",
        "--env",
        "ICDC_TOKEN=only-for-tests",
    ]
    container = subprocess.run([*command, "icdc-test"], check=True, capture_output=True, text=True).stdout.strip()
    try:
        shown = subprocess.run(["docker", "port", container, "8000"], check=True, capture_output=True, text=True)
        deadline = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"http://{shown.stdout.strip()}/healthz", timeout=2) as response:
                    assert response.status == 200
                    break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(1)
        who = subprocess.run(["docker", "exec", container, "id", "-u"], check=True, capture_output=True, text=True)
        assert who.stdout.strip() == "10001"
    finally:
        subprocess.run(["docker", "kill", container], check=False, capture_output=True)
