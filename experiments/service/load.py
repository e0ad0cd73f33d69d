"""Load on `icdc serve`: throughput, latencies, what micro-batches bring, and whether memory stays flat.

    python -m experiments.service.load load --clients 200 --seconds 60     # 20×4 and 20-city instances, mixed
    python -m experiments.service.load batching --requests 1500 --kind tour   # micro-batches against one at a time
    python -m experiments.service.load memory --requests 10000             # memory of server and worker
    python -m experiments.service.load latency                             # the second request of a 20-city instance

Each starts a server of its own, and prints one JSON object. Flags after -- go to the server, such as -- --workers 2.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import numpy as np

TURNS = 3
"""Parts in which the requests of a comparison are sent."""


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(port: int, flags: list[str]) -> "subprocess.Popen[bytes]":
    """Start a server, and return its process once it is healthy."""
    process = subprocess.Popen([sys.executable, "-m", "icdc", "serve", "--port", str(port), *flags])
    until = time.monotonic() + 300
    while True:
        time.sleep(0.1)
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < until, "the server did not get ready"
        try:
            if ask(port, "GET", "/healthz")[0] == 200:
                return process
        except OSError:
            continue


@contextmanager
def server(flags: list[str]) -> Iterator[tuple[int, int]]:
    """Run a server; yield its port and the number of its process."""
    port = free_port()
    process = start(port, flags)
    try:
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(60)


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes, str]:
    """Send one request on a connection of its own; return status, body and Retry-After."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read(), response.headers.get("Retry-After", "")
    finally:
        connection.close()


def requests_of(kind: str, count: int, **words: Any) -> list[bytes]:
    """Return requests, every one with an instance of its own."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        if kind == "shop" or (kind == "mixed" and number % 2):
            instance = {"problem": "pmsp", "matrix": rng.integers(2, 20, (20, 4)).tolist()}
        else:
            distances = rng.integers(1, 10**6, (20, 20))
            np.fill_diagonal(distances, 0)
            instance = {"problem": "atsp", "matrix": distances.tolist()}
        made.append(json.dumps({"instance": instance, **words}).encode())
    return made


def hammer(port: int, bodies: list[bytes], clients: int, seconds: float | None) -> dict[str, Any]:
    """Let clients send one request after the other, for some seconds or until all are sent once.

    Each keeps its connection. One that is told to come back later does so, after the time it was told.
    """
    taken, seen, failed, lock = [], Counter[int](), Counter[str](), threading.Lock()
    following = iter(range(10**9))
    until = None if seconds is None else time.perf_counter() + seconds

    def client() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        while True:
            with lock:
                number = next(following)
            if number >= len(bodies) if until is None else time.perf_counter() >= until:
                connection.close()
                return
            body = bodies[number % len(bodies)]
            while True:
                began = time.perf_counter()
                try:
                    connection.request("POST", "/v1/solve", body, {"Content-Type": "application/json"})
                    response = connection.getresponse()
                    status, content, wait = response.status, response.read(), response.headers.get("Retry-After", "")
                except (OSError, HTTPException) as error:
                    connection.close()
                    with lock:
                        failed[type(error).__name__] += 1
                    break
                with lock:
                    seen[status] += 1
                    if status == 200:
                        taken.append(time.perf_counter() - began)
                        assert json.loads(content)["feasible"]
                if status != 429 or (until is not None and time.perf_counter() >= until):
                    break
                time.sleep(float(wait or 1))

    began = time.perf_counter()
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = time.perf_counter() - began
    cuts = statistics.quantiles(taken, n=100) if len(taken) > 1 else [0.0] * 99
    return {
        "answers": len(taken),
        "answers_per_second": round(len(taken) / total, 1),
        "p50_ms": round(1000 * cuts[49], 1),
        "p99_ms": round(1000 * cuts[98], 1),
        "statuses": dict(seen),
        "broken_connections": dict(failed),
        "seconds": round(total, 3),
    }


def processor_ms(pid: int) -> dict[str, float]:
    """Return the processor time that a server and its workers have used."""
    own = [resource_ms(one) for one in (pid, *children(pid))]
    return {"server": own[0], "workers": sum(own[1:])}


def resource_ms(pid: int) -> float:
    """Return the processor time of a process in milliseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(options: argparse.Namespace, flags: list[str]) -> dict[str, Any]:
    """Many clients at once on instances of two shapes."""
    bodies = requests_of("mixed", 500, solver=options.solver)
    with server(flags) as (port, pid):
        before = processor_ms(pid)
        found = hammer(port, bodies, options.clients, options.seconds)
        after = processor_ms(pid)
        sizes = metric(port, "icdc_batch_size_sum") / max(1.0, metric(port, "icdc_batch_size_count"))
    each = {name: round((after[name] - before[name]) / max(1, found["answers"]), 2) for name in after}
    return {"clients": options.clients, **found, "mean_batch": round(sizes, 2), "processor_ms_each": each}


def batching(options: argparse.Namespace, flags: list[str]) -> dict[str, Any]:
    """The same requests with and without micro-batches: two servers, one of which waits while the other works.

    They take turns, so that whatever else the machine does slows both alike; the ratio is of the sums.
    """
    bodies = requests_of(options.kind, options.requests, solver=options.solver, samples=options.samples)
    sizes = {"together": 32, "one at a time": 1}
    seconds, batches, processor = dict.fromkeys(sizes, 0.0), {}, {}
    answers = dict.fromkeys(sizes, 0)
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(server([*flags, "--batch", str(size), "--queue", "10000"]))
            for name, size in sizes.items()
        }
        for port, _ in servers.values():
            hammer(port, bodies[:8], 8, None)
        before = {name: processor_ms(pid) for name, (_, pid) in servers.items()}
        for turn in range(TURNS):
            part = bodies[turn::TURNS]
            for name, (port, _) in servers.items():
                found = hammer(port, part, options.clients, None)
                seconds[name] += found["seconds"]
                answers[name] += found["answers"]
        for name, (port, pid) in servers.items():
            used = processor_ms(pid)
            processor[name] = {who: round((used[who] - before[name][who]) / answers[name], 2) for who in used}
            batches[name] = round(metric(port, "icdc_batch_size_sum") / metric(port, "icdc_batch_size_count"), 1)
    rates = {name: round(answers[name] / seconds[name], 1) for name in sizes}
    about = {"solver": options.solver, "samples": options.samples, "kind": options.kind, "clients": options.clients}
    ratio = round(rates["together"] / rates["one at a time"], 2)
    measured = {"answers": answers, "answers_per_second": rates, "mean_batch": batches, "processor_ms_each": processor}
    return {**about, **measured, "ratio": ratio}


def memory(options: argparse.Namespace, flags: list[str]) -> dict[str, Any]:
    """Memory of the server and of its workers after each tenth of many requests, half of them jobs."""
    bodies = requests_of("mixed", 200, solver=options.solver)
    tenth = options.requests // 10
    with server(flags) as (port, pid):
        hammer(port, bodies * (tenth // len(bodies) + 1), 16, 2.0)
        sizes = []
        for _ in range(10):
            hammer(port, (bodies * (tenth // len(bodies) + 1))[: tenth // 2], 16, None)
            for number in range(tenth // 2):
                while ask(port, "POST", "/v1/jobs", bodies[number % len(bodies)])[0] == 429:
                    time.sleep(0.5)
            sizes.append([round(resident(one) / 2**20, 1) for one in (pid, *children(pid))])
    growth = [round(last / first, 3) for first, last in zip(sizes[2], sizes[-1], strict=True)]
    return {"requests": options.requests, "MiB_server_and_workers": sizes, "last_over_third": growth}


def latency(options: argparse.Namespace, flags: list[str]) -> dict[str, Any]:
    """Seconds of requests one after the other, the first and those after it."""
    bodies = requests_of("tour", 21)
    taken = []
    with server(flags) as (port, _):
        for body in bodies:
            began = time.perf_counter()
            assert ask(port, "POST", "/v1/solve", body)[0] == 200
            taken.append(1000 * (time.perf_counter() - began))
    rest = taken[1:]
    rounded = {"first_ms": taken[0], "second_ms": taken[1], "median_ms": statistics.median(rest), "worst_ms": max(rest)}
    return {name: round(value, 1) for name, value in rounded.items()}


def metric(port: int, name: str) -> float:
    """Return one number of /metrics."""
    lines = ask(port, "GET", "/metrics")[1].decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def resident(pid: int) -> int:
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children(pid: int) -> list[int]:
    """Return the processes of a server: its workers, and those that read requests."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                worker = b"spawn_main" in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == pid and worker:
                found.append(int(entry.name))
    return sorted(found)


def main() -> None:
    """Run one measurement."""
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    own, flags = sys.argv[1:end], sys.argv[end + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "batching", "memory", "latency"])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--solver", default="icdc")
    parser.add_argument("--samples", type=int, default=None)
    parser.add_argument("--kind", choices=["shop", "tour"], default="shop")
    options = parser.parse_args(own)
    measure = {"load": load, "batching": batching, "memory": memory, "latency": latency}[options.what]
    print(json.dumps({"measured": options.what, **measure(options, flags)}))


if __name__ == "__main__":
    main()
