"""Gantt charts: of a schedule on parallel machines, and of anything that happens on machines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .style import FAINT, INK, ORANGE, axes_or_new, label_size, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMALLEST = 4.5
"""Points below which a job's name is left out rather than printed unreadably."""


def plot_gantt(
    durations: NDArray[Any],
    machine_of: Sequence[int] | NDArray[np.int64],
    *,
    jobs: Sequence[str] | None = None,
    machines: Sequence[str] | None = None,
    busy: Sequence[float] | None = None,
    bound: float | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw which machine does which job when, with the load of every machine.

    Bars are darker the more time a job loses against its fastest machine, so that the price of balance shows.

    Parameters
    ----------
    durations : (jobs, machines), the time of each job on each machine.
    machine_of : (jobs,), the machine of each job.
    jobs, machines : their names; numbers from 0 unless given.
    busy : (machines,), until when each is busy with something else; hatched, before its jobs.
    bound : a lower bound on the makespan, drawn as a dotted line.
    ax : axes to draw on; new ones unless given.
    """
    times = np.asarray(durations, dtype=np.float64)
    chosen = np.asarray(machine_of, dtype=np.int64)
    job_names, machine_names = shown(jobs, times.shape[0]), shown(machines, times.shape[1])
    ax = axes_or_new(ax, 10.0, 1.2 + 0.55 * times.shape[1])
    own = times[np.arange(len(chosen)), chosen]
    lost = own - times.min(1)
    waits = np.zeros(times.shape[1]) if busy is None else np.asarray(busy, dtype=np.float64)
    loads = np.bincount(chosen, weights=own, minlength=times.shape[1]) + waits
    makespan = float(loads.max())
    longest = makespan if makespan > 0 else 1.0
    ax.set_xlim(0, longest * 1.12)
    ax.set_ylim(times.shape[1] - 0.4, -0.6)
    worst = float(lost.max())
    for machine in range(times.shape[1]):
        begin = float(waits[machine])
        if begin > 0:
            _hatched(ax, 0.0, machine, begin, "busy")
        # jobs on their fastest machine first, so that bars of one shade lie together
        mine = sorted(np.flatnonzero(chosen == machine), key=lambda j: (lost[j], -own[j]))
        for job in mine:
            share = lost[job] / worst if worst > 0 else 0.0
            _bar(ax, begin, machine, own[job], share, job_names[job])
            begin += own[job]
        ax.text(
            loads[machine] + 0.008 * longest,
            machine,
            f"{loads[machine]:.6g}",
            va="center",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            color=ORANGE if loads[machine] == makespan else INK,
            fontweight="bold" if loads[machine] == makespan else "normal",
        )
    _finish(ax, makespan, bound, machine_names)
    ax.set_xlabel("time" + ("; darker: slower than on the job's fastest machine" if worst > 0 else ""))
    return ax


def plot_bars(
    bars: Sequence[tuple[int, float, float, str, bool]],
    *,
    machines: Sequence[str],
    bound: float | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what happens on machines when.

    Parameters
    ----------
    bars : machine (from 0), begin, end, name, and whether it is work; what is not, a setup, is hatched.
    machines : their names.
    bound : a lower bound on the makespan, drawn as a dotted line.
    ax : axes to draw on; new ones unless given.
    """
    ax = axes_or_new(ax, 10.0, 1.2 + 0.55 * len(machines))
    makespan = float(max(end for _, _, end, _, _ in bars))
    ax.set_xlim(0, (makespan if makespan > 0 else 1.0) * 1.05)
    ax.set_ylim(len(machines) - 0.4, -0.6)
    for place, (machine, begin, end, name, work) in enumerate(bars):
        if work:
            # neighbours are told apart by their shades
            _bar(ax, begin, machine, end - begin, 0.15 + 0.25 * (place // len(machines) % 2), name)
        elif end > begin:
            _hatched(ax, begin, machine, end - begin, name)
    _finish(ax, makespan, bound, machines)
    ax.set_xlabel("time" + ("; hatched: setups" if not all(work for *_, work in bars) else ""))
    return ax


def _finish(ax: "Axes", makespan: float, bound: float | None, machines: Sequence[str]) -> None:
    """Draw the end and the bound, name the machines, and leave out what frames have too much."""
    ax.axvline(makespan, color=ORANGE, linewidth=1.2, zorder=0)
    if bound is not None:
        ax.axvline(bound, color=INK, linewidth=1.0, linestyle=":", zorder=0)
    ax.set_yticks(range(len(machines)), list(machines))
    ax.set_ylabel("machine")
    ax.set_title(f"makespan {makespan:.10g}" + (f", bound {bound:.10g}" if bound is not None else ""))
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(left=False)


def _hatched(ax: "Axes", begin: float, machine: int, width: float, name: str) -> None:
    """Draw time that is no job's."""
    ax.barh(machine, width, left=begin, height=0.8, color="white", edgecolor=FAINT, hatch="////", linewidth=0.8)
    size = label_size(ax, width * 0.92, [name])
    if name and size >= _SMALLEST:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        ax.text(begin + width / 2, machine, name, ha="center", va="center", fontsize=size, color=INK, bbox=box)


def _bar(ax: "Axes", begin: float, machine: int, width: float, share: float, name: str) -> None:
    """Draw one job; `share` in [0, 1] says how dark."""
    from matplotlib import colormaps

    red, green, blue, _ = colormaps["Blues"](0.15 + 0.65 * share)
    ax.barh(machine, width, left=begin, height=0.8, color=(red, green, blue), edgecolor="white", linewidth=0.8)
    size = label_size(ax, width * 0.92, [name])
    upright = size >= _SMALLEST
    if not upright:
        size = min(7.0, label_size(ax, width * 0.92, ["M"]) * 0.62)
    if size >= _SMALLEST:
        dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.55
        ax.text(
            begin + width / 2,
            machine,
            name,
            ha="center",
            va="center",
            fontsize=size,
            rotation=0 if upright else 90,
            color="white" if dark else INK,
            clip_on=True,
        )
    elif width > 0:
        ax.plot([begin + width / 2], [machine], marker=".", markersize=1.5, color=FAINT)
