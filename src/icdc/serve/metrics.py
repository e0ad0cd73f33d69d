"""Counters, gauges and histograms in the text format of Prometheus."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TypeVar

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
SIZES = (1, 2, 4, 8, 16, 32)


class Counter:
    """Only ever grows; one number for every set of labels."""

    kind = "counter"

    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self.values: dict[tuple[tuple[str, str], ...], float] = {}

    def inc(self, amount: float = 1.0, **labels: str) -> None:
        """Count."""
        key = tuple(sorted(labels.items()))
        self.values[key] = self.values.get(key, 0.0) + amount

    def lines(self) -> list[str]:
        """Return the lines of its numbers."""
        return [f"{self.name}{_labels(dict(key))} {_number(value)}" for key, value in sorted(self.values.items())]


class Gauge:
    """Is asked when somebody looks."""

    kind = "gauge"

    def __init__(self, name: str, about: str, ask: Callable[[], float]) -> None:
        self.name, self.about, self.ask = name, about, ask

    def lines(self) -> list[str]:
        """Return the line of its number."""
        return [f"{self.name} {_number(self.ask())}"]


class Histogram:
    """How often values fell below each of some limits."""

    kind = "histogram"

    def __init__(self, name: str, about: str, limits: tuple[float, ...] = SECONDS) -> None:
        self.name, self.about, self.limits = name, about, limits
        self.counts = [0] * (len(limits) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.limits, value)] += 1
        self.total += value

    def lines(self) -> list[str]:
        """Return the lines of its buckets, its sum and its count."""
        lines, below = [], 0
        for limit, count in zip((*map(_number, self.limits), "+Inf"), self.counts, strict=True):
            below += count
            lines.append(f'{self.name}_bucket{{le="{limit}"}} {below}')
        return [*lines, f"{self.name}_sum {_number(self.total)}", f"{self.name}_count {below}"]


Metric = TypeVar("Metric", Counter, Gauge, Histogram)


class Metrics:
    """Everything that is measured, in the order it was added."""

    def __init__(self) -> None:
        self.all: list[Counter | Gauge | Histogram] = []
        self.requests = self.add(Counter("icdc_requests_total", "Requests, by route and status."))
        self.jobs = self.add(Counter("icdc_jobs_total", "Jobs that ended, by how."))
        self.restarts = self.add(Counter("icdc_worker_restarts_total", "Workers that had to be started again."))
        self.restarts.inc(0)
        self.waited = self.add(Histogram("icdc_wait_seconds", "Seconds from a job's arrival to its start."))
        self.solved = self.add(Histogram("icdc_solve_seconds", "Seconds from a batch's start to its end."))
        self.batches = self.add(Histogram("icdc_batch_size", "Jobs that were solved together.", SIZES))
        self.gauge("process_resident_memory_bytes", "Memory of the server's own process.", resident_bytes)

    def add(self, metric: Metric) -> Metric:
        """Add a metric."""
        self.all.append(metric)
        return metric

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a number that is computed whenever the numbers are read."""
        self.add(Gauge(name, about, value))

    def text(self) -> str:
        """Return all of them as Prometheus reads them."""
        lines = []
        for metric in self.all:
            lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        return "\n".join(lines) + "\n"


def resident_bytes() -> float:
    """Return the memory of this process that is in use; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return float(int(file.read().split()[1]) * 4096)
    except OSError:
        return 0.0


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}" if labels else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
