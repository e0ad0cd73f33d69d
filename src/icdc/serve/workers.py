"""The server's side of its processes: workers with their batches and limits of time, and readers of requests.

Everything here happens in the thread of the event loop; threads that listen to workers only hand their messages over.
"""

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from ..errors import UsageError
from ..machine import may_have_gpu
from ..search.run import Budget, cores
from .limits import Refusal, Settings, is_packed
from .metrics import Metrics
from .queue import JobRecord, Queue
from .requests import Source
from .worker import Batch, Device, Message, Reading, run

STOP_AFTER = 1.0
"""Seconds after its time limit at which a search that goes on is asked to stop."""
FIRST_ANSWER = 5.0
"""Seconds more for a search without any answer: it may be the first of its kind and wait for a compiler."""
KILL_AFTER = 3.0
"""Seconds after it was asked to stop at which a worker is killed."""
ATTEMPTS = 3
"""How often a job is begun when workers die of it."""
SMALL_CONTENT = 2**16
"""Bytes of a plain request that is read at once; archives and large ones wait for each other."""
READER_WAIT = 30.0
"""Seconds that a request waits for a reader before it is refused."""

Finish = Callable[[JobRecord, dict[str, Any] | None, Refusal | None], None]
"""Called with a job that ends, its answer, and the refusal in place of one."""
Receive = Callable[["Worker", Message | None], None]
"""Called with every message of a worker, and with None when its process has ended."""


class Worker:
    """One process and the pipe to it.

    Attributes
    ----------
    ready : whether it takes work.
    """

    def __init__(self, device: Device, settings: Settings, receive: Receive) -> None:
        self.device, self.receive = device, receive
        self.settings = replace(settings, token=None)  # content that is read has no way to it
        self.ready = False

    def start(self) -> None:
        """Start the process, and a thread that listens to it."""
        self._loop = asyncio.get_running_loop()
        context = multiprocessing.get_context("spawn")  # forking a process that runs threads can deadlock
        self._connection, other_end = context.Pipe()
        self.ready = False
        arguments = (other_end, self.device, self.settings)
        self._process = context.Process(target=run, args=arguments, daemon=True)
        with _environment(self.device.environment):
            self._process.start()
        other_end.close()
        threading.Thread(target=self._listen, args=(self._connection,), daemon=True).start()

    def send(self, work: Batch | Reading | int) -> None:
        """Send it work, or the number of a batch that it is to end with the best it has."""
        with contextlib.suppress(BrokenPipeError, OSError):  # its process has ended; the listener reports it
            self._connection.send(work)

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()

    def _listen(self, connection: Connection) -> None:
        message: Message | None = Message("")
        while message is not None:
            try:
                message = connection.recv()
            except (EOFError, OSError):
                connection.close()
                self._process.join(5)
                message = None
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.receive, self, message)


class RunningBatch:
    """A batch that a worker solves.

    Attributes
    ----------
    budget : the time until the batch is stopped; once it is stopping, until the worker is killed.
    result : the answers by place, or a Refusal; None while there are none, and where the worker died.
    over : whether the worker has finished it or died.
    """

    def __init__(self, number: int, jobs: list[JobRecord], worker: Worker, seconds: float) -> None:
        self.number, self.jobs, self.worker = number, jobs, worker
        self.budget = Budget(seconds)
        self.result: dict[int, dict[str, Any]] | Refusal | None = None
        self.over = self.stopping = False
        self._changed = asyncio.Event()

    @property
    def incomplete(self) -> bool:
        """Whether a job that goes on has no solution yet."""
        return any(job.best is None and not job.cancelled for job in self.jobs)

    async def wait(self) -> None:
        """Wait until something changes or the budget is over."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), self.budget.left)

    def stop(self) -> None:
        """Ask the worker to end with the best solutions it has."""
        if not self.stopping:
            self.stopping = True
            self.budget = Budget(KILL_AFTER)
            self.worker.send(self.number)
            self._changed.set()

    def receive(self, message: Message | None) -> None:
        """Act on a message of the worker; None when its process has ended."""
        if message is None or message.what in ("done", "failed"):
            self.over, self.result = True, None if message is None else message.data
            self._changed.set()
        else:
            self.jobs[message.place].receive(message.what, message.data)


class Workers:
    """The workers that solve, each with the batch it works on.

    Parameters
    ----------
    settings : devices and limits.
    queue : from which they take their work.
    finish : called with every job that ends, and its answer or the refusal in place of one.
    """

    def __init__(self, settings: Settings, metrics: Metrics, queue: Queue, finish: Finish) -> None:
        self.settings, self.limits, self.metrics = settings, settings.limits, metrics
        self.queue, self.finish = queue, finish
        self.all: list[Worker] = []
        self.batches: dict[Worker, RunningBatch] = {}
        self.pace = 1.0  # seconds that a batch takes, averaged over the latest ones
        self.closing = False
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> int:
        """How many workers have started."""
        return sum(worker.ready for worker in self.all)

    @property
    def free(self) -> int:
        """How many workers wait for work."""
        return sum(worker.ready and worker not in self.batches for worker in self.all)

    def open(self) -> None:
        """Start the workers."""
        for device in devices(self.settings.device, self.settings.workers, self.settings.warm):
            self.all.append(Worker(device, self.settings, self._receive))
            self.all[-1].start()

    def feed(self) -> None:
        """Give work to workers that have none."""
        for worker in self.all:
            if self.closing or not len(self.queue):
                return
            if worker.ready and worker not in self.batches:
                jobs = self.queue.take()
                limit = jobs[0].task.time_limit
                seconds = self.limits.seconds if limit is None else min(limit, self.limits.seconds) + STOP_AFTER
                batch = self.batches[worker] = RunningBatch(next(self._numbers), jobs, worker, seconds)
                task = asyncio.ensure_future(self._solve(batch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def stop(self, job: JobRecord) -> None:
        """Stop the batch of a cancelled job, unless other jobs of it go on."""
        for batch in self.batches.values():
            if job in batch.jobs and all(one.cancelled for one in batch.jobs):
                batch.stop()

    async def close(self) -> None:
        """Let running batches finish within the grace, or return their best; then end the workers."""
        self.closing = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.limits.grace)
        for batch in self.batches.values():
            batch.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=KILL_AFTER + 2.0)
        for worker in self.all:
            worker.kill()

    async def _solve(self, batch: RunningBatch) -> None:
        """Let a worker solve a batch in its time; stop it, and in the end kill it, where it takes longer."""
        began, first_answer = time.perf_counter(), Budget(batch.budget.left + FIRST_ANSWER)
        self.metrics.batches.observe(len(batch.jobs))
        for job in batch.jobs:
            self.metrics.waited.observe(job.start())
        batch.worker.send(Batch(batch.number, [job.task for job in batch.jobs]))
        while not batch.over:
            await batch.wait()
            if batch.over or not batch.budget.over:
                continue
            if batch.stopping:
                break
            if batch.incomplete and not first_answer.over:
                batch.budget = Budget(0.1)
            else:
                batch.stop()
        seconds = time.perf_counter() - began
        if not batch.over:
            batch.worker.ready = False
            batch.worker.kill()
        elif batch.result is not None:
            self.metrics.solved.observe(seconds)
            self.pace += 0.2 * (seconds - self.pace)
        self._end(batch)
        del self.batches[batch.worker]
        self.feed()

    def _end(self, batch: RunningBatch) -> None:
        """End the jobs of a batch, or let them wait again, each alone: one of them may be what a worker dies of."""
        again, result = [], batch.result
        for place, job in enumerate(batch.jobs):
            answer = result.get(place) if isinstance(result, dict) else None
            refusal = None
            if not batch.over:
                answer = job.best_answer()
                refusal = Refusal(500, "no solution was found in the time there was", 4)
            elif isinstance(result, dict):
                refusal = Refusal(422, f"no feasible solution was found for {job.task.instance}", 4)
            elif isinstance(result, Refusal) and len(batch.jobs) == 1:
                refusal = result
            elif result is None and (job.attempts >= ATTEMPTS or self.closing):
                refusal = Refusal(500, f"the worker that solved it died {job.attempts} times")
            if answer is None and refusal is None and not job.cancelled:
                job.wait_again()
                again.append(job)
            else:
                self.finish(job, answer, None if answer or job.cancelled else refusal)
        self.queue.put_back(again)

    def _receive(self, worker: Worker, message: Message | None) -> None:
        """Act on a message of a worker; None when its process has ended."""
        batch = self.batches.get(worker)
        if batch is not None and (message is None or message.batch == batch.number):
            batch.receive(message)
        if message is None and not self.closing:
            self.metrics.restarts.inc()
            worker.start()
        elif message is not None and message.what == "ready":
            worker.ready = True
            self.feed()


class Reader:
    """One process that reads requests one after the other, started with the first of them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._numbers = itertools.count(1)
        self._turn = asyncio.Lock()
        self._worker: Worker | None = None
        self._closed = False
        self._ready = asyncio.Event()
        self._result: asyncio.Future[Any] | None = None

    async def read(self, source: Source, describe: bool = False, patience: float = 1.0) -> Any:
        """Return what a request holds, a `PackedTask` or a description; raise a Refusal where it cannot be read.

        patience : how many times as long as usual reading may take.
        """
        try:
            await asyncio.wait_for(self._turn.acquire(), READER_WAIT)
        except TimeoutError:
            sentence = "too many requests are being read; try again in a moment"
            raise Refusal(429, sentence, headers={"Retry-After": "5"}) from None
        try:
            if self._closed:
                raise stopping()
            self.start()
            reading = Reading(next(self._numbers), source, describe)
            result = await self._read(reading, patience)
            if result is None:  # the process may have been killed by mistake
                result = await self._read(reading, patience)
        finally:
            self._turn.release()
        if result is None:
            result = Refusal(413, "reading the content ended the process that did it; it may need too much memory")
        if isinstance(result, Refusal):
            raise result
        return result

    def start(self) -> None:
        """Start the process, if it has not started."""
        if self._worker is None:
            self._worker = Worker(Device("reader", warm=False), self.settings, self._receive)
            self._worker.start()

    def close(self) -> None:
        """End the process."""
        self._closed = True
        self._ready.set()  # those who wait for it are refused
        if self._worker is not None:
            self._worker.kill()

    async def _read(self, reading: Reading, patience: float) -> Any:
        """Return what the process makes of a request, or a Refusal; None where the process died."""
        assert self._worker is not None
        await self._ready.wait()
        if self._closed:
            return stopping()
        seconds = patience * self.settings.limits.reading_seconds
        self._result = asyncio.get_running_loop().create_future()
        self._worker.send(reading)
        try:
            return await asyncio.wait_for(self._result, seconds)
        except TimeoutError:
            self._ready.clear()
            self._worker.kill()
            return Refusal(413, f"reading the content takes more than {seconds:g} s (icdc serve --cells)")

    def _receive(self, worker: Worker, message: Message | None) -> None:
        """Act on a message of the process; None when it has ended."""
        if message is not None and message.what == "ready":
            self._ready.set()
            return
        if self._result is not None and not self._result.done():
            self._result.set_result(None if message is None else message.data)
        if message is None and not self._closed:
            self._ready.clear()
            worker.start()


class Readers:
    """Reads requests in processes that can be killed.

    Small plain requests have a process of their own, so that they do not wait for archives and large ones.
    """

    def __init__(self, settings: Settings) -> None:
        self.quick, self.slow = Reader(settings), Reader(settings)

    async def read(self, source: Source, describe: bool = False, patience: float = 1.0) -> Any:
        """Return what a request holds; see `Reader.read`."""
        quick = len(source.content) <= SMALL_CONTENT and not is_packed(source.content)
        return await (self.quick if quick else self.slow).read(source, describe, patience)

    def close(self) -> None:
        """End the processes."""
        self.quick.close()
        self.slow.close()


def stopping() -> Refusal:
    """Return the refusal of every request while the server stops."""
    return Refusal(503, "the server is stopping; try again in a moment", headers={"Retry-After": "5"})


def devices(kind: str, workers: int, warm: bool = True) -> list[Device]:
    """Return where workers are to run: one on each GPU, or a number of them that share the CPU's cores.

    kind : "cpu", "cuda", or "auto" for GPUs where there are any.
    """
    gpus = _gpus() if kind != "cpu" else []
    if gpus:
        return [Device("cuda", gpu, warm=warm) for gpu in gpus]
    if kind == "cuda":
        raise UsageError("--device cuda: there is no GPU that can be used")
    return [Device("cpu", None, max(1, cores() // workers), warm) for _ in range(workers)]


def _gpus() -> list[str]:
    """Return the GPUs that there are, by the names in CUDA_VISIBLE_DEVICES, if it is set.

    No driver is loaded where there is none.
    """
    if not may_have_gpu():
        return []
    import torch

    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(count)] if visible is None else visible.split(",")
    return [name.strip() for name in names[:count]]


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables while a process is started, which inherits them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
