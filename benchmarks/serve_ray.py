"""`icdc serve --ray` on this machine: two replicas, one of them killed under load; no accepted job may be lost.

    python benchmarks/serve_ray.py --jobs 60

Prints one JSON object; the exit code is 1 if a job was lost.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from serve_load import ask, requests_of


def replicas() -> list[int]:
    """Return the processes that are replicas."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and (entry / "cmdline").read_bytes().startswith(b"ray::ServeReplica:icdc"):
                found.append(int(entry.name))
        except OSError:
            continue
    return sorted(found)


def main() -> int:
    """Submit jobs, kill a replica in the middle, and count what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=60)
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    flags = ["--ray", "local", "--replicas", "2", "--no-warm", "--device", "cpu"]
    server = subprocess.Popen([sys.executable, "-m", "icdc", "serve", "--port", str(port), *flags])
    began = time.monotonic()
    while True:
        time.sleep(0.5)
        assert server.poll() is None, "the server ended"
        assert time.monotonic() - began < 300, "the server did not get ready"
        try:
            if ask(port, "GET", "/healthz")[0] == 200 and len(replicas()) == 2:
                break
        except OSError:
            continue
    ready = time.monotonic() - began
    accepted, refused = [], 0
    for number, body in enumerate(requests_of("mixed", options.jobs)):
        if number == options.jobs // 2:
            os.kill(replicas()[0], signal.SIGKILL)
        try:
            status, content, _ = ask(port, "POST", "/v1/jobs", body)
        except OSError:
            status, content = 0, b""
        if status == 202:
            accepted.append(json.loads(content)["id"])
        else:
            refused += 1
    lost, until = 0, time.monotonic() + 120
    for name in accepted:
        state = ""
        while state != "done" and time.monotonic() < until:
            try:
                state = json.loads(ask(port, "GET", f"/v1/jobs/{name}")[1]).get("state", "")
            except (OSError, ValueError):
                state = ""
            time.sleep(0.02 if state == "done" else 0.3)
        lost += state != "done"
    server.terminate()
    clean = server.wait(60) == 0
    about = {
        "accepted": len(accepted),
        "refused": refused,
        "lost": lost,
        "ready_seconds": round(ready, 1),
        "clean": clean,
    }
    print(json.dumps(about))
    return 1 if lost or not accepted else 0


if __name__ == "__main__":
    sys.exit(main())
