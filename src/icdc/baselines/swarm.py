"""Particle swarm optimisation over scores of job-machine pairs, all instances and particles at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..noise import Noise
from .population import PopulationSearch, makespans
from .scheduling import shortest_job_first

_FIRST_SPEED = 10.0
"""Width of the interval of first velocities, ten times that of positions: a slow swarm settles too early."""


@dataclass(frozen=True)
class ParticleSwarm(PopulationSearch):
    """The paper's setting: 25 particles, one of them SJF's, inertia 0.7, pulls 1.5 and 1.5, 1,000 iterations.

    A particle is a score for every pair of job and machine; each job goes to the machine it scores highest.
    Every iteration pulls a particle towards the best it has seen itself and the best any has seen, each
    pull times a random number per pair. How a particle stands for a schedule is our choice, the paper does
    not say.
    """

    name = "pso"

    inertia: float = 0.7
    cognitive: float = 1.5
    social: float = 1.5

    def search(self, durations: Tensor, noise: Noise, rounds: Iterator[int]) -> Tensor:
        batch, jobs, machines = durations.shape
        shape = (self.individuals, jobs, machines)
        position = noise.uniform(*shape)
        start = shortest_job_first(durations)
        position[:, 0] = torch.zeros_like(position[:, 0]).scatter(2, start[:, :, None], 1.0)
        velocity = (noise.uniform(*shape) - 0.5) * _FIRST_SPEED
        own, own_cost = position, makespans(durations, position.argmax(3))
        item = torch.arange(batch, device=durations.device)
        for _ in rounds:
            common = own[item, own_cost.argmin(1)][:, None]
            bits = noise.bits(*shape)  # drawing is what costs most here: two coarse numbers from one draw
            to_own = (bits >> 16).float() * (self.cognitive / 65536) * (own - position)
            to_common = (bits & 0xFFFF).float() * (self.social / 65536) * (common - position)
            velocity = self.inertia * velocity + to_own + to_common
            position = position + velocity
            cost = makespans(durations, position.argmax(3))
            # only what is really better: a swarm that follows ties loses its variety within a few rounds
            better = cost < own_cost
            own_cost = torch.where(better, cost, own_cost)
            own = torch.where(better[:, :, None, None], position, own)
        return own[item, own_cost.argmin(1)].argmax(2)
