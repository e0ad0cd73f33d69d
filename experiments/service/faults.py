"""Faults on `icdc serve` under load: nothing that was promised may be lost, and nothing may hang.

    python -m experiments.service.faults --seconds 30
    python -m experiments.service.faults --ray --jobs 60     # two replicas, one of them killed under load

Clients submit jobs all the time. Meanwhile the server is killed and started again, workers are killed, the disk is
full for a while, bodies stop in the middle and events are never read. At the end every job that was accepted must have
an answer, every answer that was seen must still be there, unchanged, and the server must answer at once. A fault waits
until there were answers since the one before it, so that there is something to lose. Prints one JSON object; the exit
code is 1 if anything was lost, if no answer was ever seen, or if a job was refused for another reason than a full queue
(429), a full disk (507) or a stop (503).
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from experiments.service.load import ask, children, free_port, requests_of, start

ANSWERS, PATIENCE = 5, 20.0
"""New answers for which a fault waits, and seconds for which it does."""


class Subject:
    """A server with a folder of its own that is killed and started again."""

    def __init__(self, folder: Path, port: int, flags: list[str]) -> None:
        self.folder, self.port, self.flags = folder, port, flags
        self.start()

    def start(self) -> None:
        """Start it and wait until it works."""
        self.process = start(self.port, ["--no-warm", "--data", str(self.folder), *self.flags])

    def kill(self) -> None:
        """Kill it as the kernel would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def stall(port: int, stop: threading.Event) -> None:
    """Send half a body, then nothing, on one connection after the other."""
    while not stop.wait(0.2):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as half:
                head = f"POST /v1/solve HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: text/csv\r\n"
                half.sendall((head + "Content-Length: 100000\r\n\r\n1,2,3\n").encode())
                stop.wait(2)
        except OSError:
            continue


def ignore_events(port: int, jobs: list[str], stop: threading.Event) -> None:
    """Ask for the events of jobs and never read them."""
    held: list[socket.socket] = []
    while not stop.wait(0.2):
        if jobs:
            try:
                held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                request = f"GET /v1/jobs/{random.choice(jobs)}/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
                held[-1].sendall(request.encode())
            except OSError:
                continue
        for old in held[:-50]:
            old.close()
        held = held[-50:]
    for old in held:
        old.close()


def replicas() -> list[int]:
    """Return the processes that are replicas of Ray."""
    numbers = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and (entry / "cmdline").read_bytes().startswith(b"ray::ServeReplica:icdc"):
                numbers.append(int(entry.name))
        except OSError:
            continue
    return sorted(numbers)


def wait_for(port: int, name: str, until: float) -> dict[str, Any]:
    """Return a job once it is done, or as it is when the time is over; {} where the server does not know it."""
    while True:
        try:
            status, content, _ = ask(port, "GET", f"/v1/jobs/{name}")
        except OSError:
            status, content = 0, b""
        job = json.loads(content) if status == 200 else {}
        if job.get("state") == "done" or status == 404 or time.monotonic() > until:
            return job
        time.sleep(0.1)


def fill_disk(folder: Path) -> None:
    """Leave no room in a folder, if it is a small file system of its own."""
    with open(folder / "ballast", "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(2**16))
        except OSError:
            return


def lose_a_replica(jobs: int) -> int:
    """Submit jobs to two replicas, kill one in the middle, and count what became of the jobs."""
    port, began = free_port(), time.monotonic()
    process = start(port, ["--ray", "local", "--replicas", "2", "--no-warm", "--device", "cpu"])
    while len(replicas()) < 2:
        time.sleep(0.5)
    ready = round(time.monotonic() - began, 1)
    accepted = []
    for number, body in enumerate(requests_of("mixed", jobs)):
        if number == jobs // 2:
            os.kill(replicas()[0], signal.SIGKILL)
        with contextlib.suppress(OSError):
            status, content, _ = ask(port, "POST", "/v1/jobs", body)
            accepted += [json.loads(content)["id"]] if status == 202 else []
    until = time.monotonic() + 120
    lost = sum(wait_for(port, name, until).get("state") != "done" for name in accepted)
    process.terminate()
    clean = process.wait(60) == 0
    counts = {"accepted": len(accepted), "refused": jobs - len(accepted), "lost": lost, "ready_seconds": ready}
    print(json.dumps({**counts, "clean": clean}))
    return 1 if lost or not accepted else 0


def main() -> int:  # noqa: C901
    """Let everything happen for some seconds, then count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--small-disk", type=Path, help="A mounted file system of a few MB to fill, e.g. a tmpfs.")
    parser.add_argument("--ray", action="store_true", help="instead, lose one of two replicas of Ray")
    parser.add_argument("--jobs", type=int, default=60, help="submitted to the replicas")
    options = parser.parse_args()
    if options.ray:
        return lose_a_replica(options.jobs)
    port = free_port()
    folder = Path(tempfile.mkdtemp(dir=options.small_disk))
    subject = Subject(folder, port, [])
    bodies = requests_of("mixed", 200)
    stop, lock = threading.Event(), threading.Lock()
    accepted: list[str] = []
    answers: dict[str, Any] = {}
    counts = dict.fromkeys(("broken", "server_kills", "worker_kills", "disk_full"), 0)
    refused = Counter[int]()

    def client(number: int) -> None:
        rng = random.Random(number)
        while not stop.is_set():
            try:
                status, content, _ = ask(port, "POST", "/v1/jobs", rng.choice(bodies))
                with lock:
                    if status == 202:
                        accepted.append(json.loads(content)["id"])
                    else:
                        refused[status] += 1
                if status == 429:
                    time.sleep(0.5)
                if accepted and rng.random() < 0.5:
                    name = rng.choice(accepted[-50:])
                    job = json.loads(ask(port, "GET", f"/v1/jobs/{name}")[1])
                    if job.get("state") == "done":
                        with lock:
                            answers[name] = job["answer"]
            except OSError:
                with lock:
                    counts["broken"] += 1
                time.sleep(0.2)
            time.sleep(0.05)

    threads = [threading.Thread(daemon=True, target=client, args=(number,)) for number in range(options.clients)]
    threads += [threading.Thread(daemon=True, target=stall, args=(port, stop)) for _ in range(4)]
    threads += [threading.Thread(daemon=True, target=ignore_events, args=(port, accepted, stop)) for _ in range(2)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + options.seconds
    turn = 0
    while time.monotonic() < until:
        known, patience = len(answers), time.monotonic() + PATIENCE
        time.sleep(1)
        while len(answers) < known + ANSWERS and time.monotonic() < min(patience, until):
            time.sleep(0.05)
        turn += 1
        if turn % 3 == 0:
            subject.kill()
            counts["server_kills"] += 1
            subject.start()
        elif turn % 3 == 1:
            for worker in children(subject.process.pid):
                os.kill(worker, signal.SIGKILL)
                counts["worker_kills"] += 1
        elif options.small_disk is not None:
            fill_disk(folder)
            counts["disk_full"] += 1
            time.sleep(2)
            (folder / "ballast").unlink()
    stop.set()
    for thread in threads:
        thread.join()
    until = time.monotonic() + 120
    jobs = {name: wait_for(port, name, until) for name in accepted}
    lost = [
        name
        for name, job in jobs.items()
        if job.get("state") != "done" or (name in answers and answers[name] != job["answer"])
    ]
    began = time.monotonic()
    prompt = ask(port, "POST", "/v1/solve", bodies[0])[0] == 200
    seconds = round(time.monotonic() - began, 2)
    subject.process.terminate()
    clean = subject.process.wait(30) == 0
    shutil.rmtree(folder, ignore_errors=True)
    about = {"accepted": len(accepted), "seen_answers": len(answers), "lost": len(lost), "refused": dict(refused)}
    print(json.dumps({**about, **counts, "answers_after": prompt, "seconds_after": seconds, "clean_stop": clean}))
    understood = set(refused) <= {429, 503, 507}
    return 0 if not lost and answers and understood and prompt and clean else 1


if __name__ == "__main__":
    sys.exit(main())
