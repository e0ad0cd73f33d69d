"""Check and time the fused `EdgeMixer` on a GPU: `PYTHONPATH=src python3 benchmarks/fused_mixer.py`.

Every time is the median over replays of a CUDA graph that runs the work on several input sets in turn, so
that neither launches nor a warm cache colour it. `floor` is the unavoidable memory traffic at 4.3 TB/s.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from icdc.networks import fused
from icdc.networks.edge import EdgeMixer

NAMES = ["norm.weight", "norm.bias", "up.weight", "up.bias", "down.weight", "down.bias"]
SHAPES = [(512, 20, 20), (256, 50, 50), (512, 20, 4), (8192, 20, 20)]
LAUNCHES = {
    "FORWARD": [(64, 4, 3, 1, 168), (64, 4, 3, 2, 168), (64, 4, 4, 1, 128), (128, 8, 2, 1, 128)],
    "BACKWARD": [(128, 8, 1, 1), (128, 8, 1, 2), (64, 8, 1, 1), (64, 4, 2, 1)],
}
Mix = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
start = time.time()


def log(*values: object) -> None:
    print(f"[{time.time() - start:5.1f}s]", *values, flush=True)


def make(n: int, rows: int, columns: int, width: int = 64, heads: int = 8) -> tuple[Tensor, ...]:
    """Return edges, scores and random gradients of the two outputs."""
    shapes = [(n, rows, columns, width), (n, heads, rows, columns)]
    shapes += [(n, rows, columns, width), (n, 2 * heads, rows, columns)]
    edges, *others = (torch.randn(shape, device="cuda") for shape in shapes)
    return tuple(x.bfloat16() for x in (edges * 2 + 0.5, *others))


def make_mixer(width: int = 64, heads: int = 8) -> EdgeMixer:
    mixer = EdgeMixer(width, heads).cuda()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return mixer


def fused_mix(mixer: EdgeMixer) -> Mix:
    return lambda edges, scores: fused.fused_mixer(edges, scores, *(mixer.get_parameter(n) for n in NAMES))


def outputs_and_gradients(mix: Mix, mixer: EdgeMixer, data: tuple[Tensor, ...]) -> list[Tensor]:
    edges, scores = data[0].detach().requires_grad_(), data[1].detach().requires_grad_()
    outputs = mix(edges, scores)
    inputs = [edges, scores, *(mixer.get_parameter(n) for n in NAMES)]
    return [
        *outputs,
        *torch.autograd.grad(outputs, inputs, [d.to(o) for d, o in zip(data[2:], outputs, strict=True)]),
    ]


def check() -> None:
    """Print ‖value − reference‖ / ‖reference‖ of outputs and gradients against the eager mixer in float64."""
    print("relative error, new edges | logits | d edges | d scores |", " | ".join(f"d {n}" for n in NAMES))
    cases = [
        (64, 20, 20, 64, 8),
        (3, 7, 11, 64, 8),
        (33, 10, 5, 32, 4),
        (5, 50, 50, 64, 16),
        (1, 1, 1, 64, 8),
    ]
    for n, rows, columns, width, heads in cases:
        mixer, data = make_mixer(width, heads), make(n, rows, columns, width, heads)
        double = copy.deepcopy(mixer).double()
        reference = outputs_and_gradients(double, double, tuple(x.double() for x in data))
        torch.use_deterministic_algorithms(True, warn_only=True)  # fills new tensors with NaN
        with torch.autocast("cuda", torch.bfloat16):
            results = [outputs_and_gradients(fused_mix(mixer), mixer, data) for _ in range(2)]
        torch.use_deterministic_algorithms(False)
        same = all(torch.equal(a, b) for a, b in zip(*results, strict=True))
        with torch.autocast("cuda", torch.bfloat16):
            eager = outputs_and_gradients(mixer, mixer, data)
        for label, values in (("fused", results[0]), ("eager", eager)):
            errors = [float((v - r).norm() / r.norm()) for v, r in zip(values, reference, strict=True)]
            log(
                f"{(n, rows, columns, width, heads)} {label}",
                *(f"{e:.1e}" for e in errors),
                f"repeats={same}",
            )


def milliseconds(mix: Mix, sets: list[tuple[Tensor, ...]], mixer: EdgeMixer, backward: bool) -> float:
    """Return the time of one pass over one input set."""

    def work() -> None:
        for data in sets:
            with (
                torch.autocast("cuda", torch.bfloat16, cache_enabled=False),
                torch.set_grad_enabled(backward),
            ):
                if backward:
                    outputs_and_gradients(mix, mixer, data)
                else:
                    mix(data[0], data[1])

    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    times = []
    for i in range(13):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= 3:
            times.append(begin.elapsed_time(end) / len(sets))
    return statistics.median(times)


def floor(n: int, rows: int, columns: int, backward: bool, width: int = 64, heads: int = 8) -> float:
    values = n * rows * columns * ((5 * width + 7 * heads) if backward else (2 * width + 3 * heads))
    return values * 2 / 4.3e9


def sets_of(shape: tuple[int, int, int]) -> list[tuple[Tensor, ...]]:
    return [make(*shape) for _ in range(1 if shape[0] > 1000 else 4)]


def tune(mixer: EdgeMixer) -> None:
    """Time all launches at the first shape and keep the fastest."""
    sets, found = sets_of(SHAPES[0]), {}
    for name, choices in LAUNCHES.items():
        launches = [fused.Launch(*choice) for choice in choices]
        for launch in launches:
            setattr(fused, name, launch)
            try:
                found[launch] = milliseconds(fused_mix(mixer), sets, mixer, name != "FORWARD")
                log(f"{name} {tuple(launch)} {found[launch]:.4f} ms")
            except Exception as error:
                log(f"{name} {tuple(launch)} {type(error).__name__} {str(error)[:80]}")
        setattr(fused, name, min((x for x in launches if x in found), key=found.__getitem__))
        found.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true", help="time several launches and keep the fastest")
    parser.add_argument("--compile", action="store_true", help="time the eager mixer under torch.compile as well")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.utils.deterministic.fill_uninitialized_memory = True
    fused.ENABLED = False  # `EdgeMixer` itself stays eager here
    check()
    mixer = make_mixer()
    if arguments.tune:
        tune(mixer)
    log("launches", *(tuple(getattr(fused, name)) for name in LAUNCHES))
    rows: dict[tuple[object, ...], dict[str, float]] = {}
    for kind in ["fused", "eager"] + ["compiled"] * arguments.compile:
        for shape in SHAPES:
            sets = sets_of(shape)
            for backward in [False] if shape[0] > 1000 else [False, True]:
                if kind == "compiled" and not backward and shape[0] < 1000 and shape != SHAPES[0]:
                    continue  # compilation takes longest
                mix = fused_mix(mixer) if kind == "fused" else mixer
                if kind == "compiled":
                    torch._dynamo.reset()
                    mix = torch.compile(mix, dynamic=False)
                row = rows.setdefault((*shape, "forward + backward" if backward else "forward"), {})
                row["floor"] = floor(*shape, backward)
                row[kind] = milliseconds(mix, sets, mixer, backward)
                log(shape, "backward" if backward else "forward", kind, f"{row[kind]:.4f} ms")
    print("| N | rows | columns | pass | " + " | ".join(next(iter(rows.values()))) + " |  (ms)")
    for key, row in rows.items():
        print("|", " | ".join(map(str, key)), "|", " | ".join(f"{k} {ms:.4f}" for k, ms in row.items()), "|")


if __name__ == "__main__":
    main()
