"""`icdc serve` as a process of its own, for tests and for the fuzzer."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class RunningServer:
    """`icdc serve` as a process."""

    process: "subprocess.Popen[bytes]"
    url: str

    def wait(self, seconds: float = 60.0) -> "RunningServer":
        """Wait until it can work."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, "the server ended"
            try:
                if httpx.get(f"{self.url}/healthz", timeout=2).status_code == 200:
                    return self
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise AssertionError("the server did not get ready")

    def stop(self, sig: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(30)


def start(*flags: str, port: int | None = None) -> RunningServer:
    """Start `icdc serve`."""
    port = port or free_port()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    source = str(Path(__file__).parents[2] / "src")
    environment["PYTHONPATH"] = os.pathsep.join([source, environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "icdc", "serve", "--no-warm", "--port", str(port), *flags]
    return RunningServer(subprocess.Popen(command, env=environment), f"http://127.0.0.1:{port}")


@contextmanager
def running_service(*flags: str) -> Iterator[str]:
    """Run a service on this machine and return its address."""
    server = start(*flags)
    try:
        yield server.wait().url
    finally:
        server.stop(signal.SIGKILL)
