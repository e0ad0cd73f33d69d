"""Numbers for Prometheus, by the names that docs/serving.md lists."""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

disable_created_metrics()  # when each number was first counted
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SIZES = (1, 2, 4, 8, 16, 32)


class Metrics:
    """What one server measures; it has a registry of its own, since a process may hold several servers."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter("icdc_requests", "Requests, by route and status.", ("code", "route"), registry=registry)
        self.jobs = Counter("icdc_jobs", "Jobs that ended, by how.", ("state",), registry=registry)
        self.restarts = Counter("icdc_worker_restarts", "Workers that were started again.", registry=registry)
        self.waited = Histogram(
            "icdc_wait_seconds", "Seconds from a job's arrival to its start.", buckets=SECONDS, registry=registry
        )
        self.solved = Histogram(
            "icdc_solve_seconds", "Seconds from a batch's start to its end.", buckets=SECONDS, registry=registry
        )
        self.batches = Histogram("icdc_batch_size", "Jobs that were solved together.", buckets=SIZES, registry=registry)
        self.gauge("process_resident_memory_bytes", "Memory of the server's own process.", resident_bytes)

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a number that is computed whenever the numbers are read."""
        Gauge(name, about, registry=self.registry).set_function(value)

    def text(self) -> str:
        """Return all numbers in the text format of Prometheus."""
        text: str = generate_latest(self.registry).decode()
        return text


def resident_bytes() -> float:
    """Return the memory of this process that is in use; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return float(int(file.read().split()[1]) * 4096)
    except OSError:
        return 0.0
