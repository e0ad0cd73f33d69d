"""LKH in a process of its own: it cannot be stopped from inside, and a process can.

The module is both ends: imported, it is what talks to that process; run by `python -m`, it is the process. It stays for
the next instance, and ends with the program that started it.
"""

import atexit
import json
import os
import queue
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_LENGTH = struct.Struct("<QQ")


class LkhProcess:
    """The process, started when it is first needed; one for all solvers of this process, as LKH has global state."""

    _shared: "LkhProcess | None" = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        # in a session of its own, so that Ctrl-C reaches us alone
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True, env=environment,
        )  # fmt: skip
        self.lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.lines.get()  # it has loaded LKH

    @classmethod
    def shared(cls) -> "LkhProcess":
        """Return the process, a new one where there is none or it was stopped."""
        if cls._shared is None or cls._shared.process.poll() is not None:
            cls._shared = cls()
            atexit.register(cls._shared.stop)
        return cls._shared

    @classmethod
    def tours(cls, distances: NDArray[np.int64], runs: int, limit: float | None) -> Iterator[list[int]]:
        """Yield tours through all cities of distances (n, n), each better than or as good as those before it.

        After `limit` seconds, or where no more tours are taken (Ctrl-C), the process is stopped.
        """
        deadline = None if limit is None else time.perf_counter() + limit
        with cls._lock:
            process = cls.shared()
            finished = False
            try:
                process.send(distances, runs, hurry=limit is not None)
                while True:
                    left = None if deadline is None else deadline - time.perf_counter()
                    try:
                        line = process.lines.get(timeout=None if left is None else max(0.0, left))
                    except queue.Empty:
                        return
                    tour = json.loads(line or b"null")
                    if not tour:
                        finished = tour is not None
                        return
                    yield tour
            finally:
                if not finished:
                    process.stop()

    def send(self, distances: NDArray[np.int64], runs: int, hurry: bool) -> None:
        """Hand over an instance; in a hurry a first tour comes after a single run."""
        assert self.process.stdin is not None
        content = np.ascontiguousarray(distances, dtype="<i8").tobytes()
        self.process.stdin.write(_LENGTH.pack(len(distances), 2 * runs + hurry) + content)
        self.process.stdin.flush()

    def stop(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer instance after instance until there are no more; an empty list ends each answer."""
    import elkai

    def write(tour: list[int]) -> None:
        answers.write(json.dumps(tour).encode() + b"\n")
        answers.flush()

    write([])
    while header := requests.read(_LENGTH.size):
        size, effort = _LENGTH.unpack(header)
        runs, hurry = divmod(effort, 2)
        distances = np.frombuffer(requests.read(8 * size * size), dtype="<i8").reshape(size, size)
        matrix = elkai.DistanceMatrix(distances.tolist())
        if hurry and runs > 1:  # LKH begins with the same seed every time: more runs only add to this one
            write(matrix.solve_tsp(runs=1)[:-1])
        write(matrix.solve_tsp(runs=runs)[:-1])
        write([])


if __name__ == "__main__":
    # what LKH itself prints must not mix with the answers
    own = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    serve(sys.stdin.buffer, own)
