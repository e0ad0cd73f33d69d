"""A problem of your own, worked: machines that cannot do every job, and a makespan to keep small.

    icdc check-problem eligible_machines:EligibleMachines      (in this folder)

Everything but eligibility is what `pmsp` already is, so the class inherits it and says what differs: another
array, a mask for the decoder, a feasibility test of its own, a feature that shows it to the network, and a line
about it below every answer.
"""

import numpy as np
import torch

import icdc


class EligibleMachines(icdc.Pmsp):
    """Instances: `durations` (count, jobs, machines) and `eligible` (the same shape, 0 or 1)."""

    name = "eligible-machines"
    arrays = ("durations", "eligible")
    feature_sizes = icdc.FeatureSizes(relations=6, raw_relations=2)

    def sample(self, count, size, rng):
        arrays = super().sample(count, size, rng)
        jobs, machines = size
        eligible = rng.integers(0, 2, (count, jobs, machines))
        always = rng.integers(0, machines, (count, jobs, 1))  # every job has at least one machine
        np.put_along_axis(eligible, always, 1, 2)
        return {**arrays, "eligible": eligible}

    def sample_on_device(self, size, noise):
        return None  # drawn on the host; a generator on the device would only make training faster

    def check(self, arrays):
        durations = super().check(arrays)["durations"]
        eligible = np.asarray(arrays["eligible"])
        if eligible.ndim == 2:
            eligible = eligible[None]
        if eligible.shape != durations.shape:
            raise icdc.InputError("'eligible' and 'durations' must have the same shape")
        if not np.isin(eligible, (0, 1)).all():
            raise icdc.InputError("the array 'eligible' must hold 0 and 1 only")
        if not eligible.any(2).all():
            job = int(np.argwhere(~eligible.any(2))[0, 1])
            raise icdc.InputError(f"job {job + 1} has no machine that may do it")
        return {"durations": durations, "eligible": eligible.astype(np.int64)}

    def mask(self, instances):
        return instances["eligible"] > 0

    def feasible(self, instances, choice):
        inside = super().feasible(instances, choice)
        machines = instances["durations"].shape[2]
        allowed = icdc.picked(instances["eligible"], choice.clamp(0, machines - 1))
        return inside & (allowed > 0).all(-1)

    def features(self, instances):
        plain = super().features(instances).relations
        eligible = instances["eligible"].to(plain.dtype)[..., None]
        return icdc.Features(torch.cat([plain[..., :1], eligible, plain[..., 1:]], -1))

    def lower_bound(self, arrays):
        # longer times where nothing may be done anyway change no feasible schedule, and raise the bound
        times, eligible = arrays["durations"], arrays["eligible"]
        never = float(times.max()) * times.shape[1]
        return super().lower_bound({"durations": np.where(eligible > 0, times, never)})

    def improve(self, instances, choice, rounds):
        # the search for schedules, kept to the machines that may do a job
        return icdc.improve_schedules(instances["durations"], choice, rounds, self.mask(instances))

    def describe_solution(self, instance, choice):
        eligible = instance.arrays["eligible"]
        lines = super().describe_solution(instance, choice)
        return [*lines, f"  {int(eligible.sum())} of {eligible.size} pairs of job and machine are allowed"]
