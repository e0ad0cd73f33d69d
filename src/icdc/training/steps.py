"""The steps of Algorithm 1 for instances of one size: draw, make targets, IMPROVEMENT, CLONING.

Each takes and returns nothing: it reads and writes tensors that stay where they are and never looks at a value on the
host, so that it can be recorded as a CUDA graph or run as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from ..diffusion.sampler import Predict, best_of, generate, refine
from ..errors import UsageError
from ..kernels import Noise
from ..models.diffusion import CANDIDATES_ORDER, Model
from ..problems.base import Size
from ..problems.decoding import random_choice
from ..problems.features import Features
from ..problems.task import Task
from .batches import batch_sizes
from .checkpoint import Means
from .config import TrainingConfig
from .loop import Step
from .losses import advantages, constraint_loss, improvement_loss, prediction_loss, reward_scale, variational_bound
from .memory import DraftPicker, ReplayMemory, Targets
from .policy_gradient import Decision, all_decisions, last_decision
from .sources import Source
from .weights import Weights

REFINE_STEPS = 2
"""Network passes of a refinement."""

METRICS = ("loss", "cost", "target", "improvement", "effective")
"""What steps report: cloning loss, mean cost of generated solutions, of targets, of IMPROVEMENT's samples, and, where
rewards weigh, the share of the memory that its effective sample size is."""


class Steps:
    """The steps of Algorithm 1 for instances of one size, on tensors that stay where they are.

    Parameters
    ----------
    weights : what is learned, shared by all sizes.
    config : the run.
    size : the size of the instances.
    source : where they come from.
    """

    def __init__(self, weights: Weights[Model], config: TrainingConfig, size: Size, source: Source) -> None:
        self.weights, self.config, self.source = weights, config, source
        self.problem, self.diffusion = weights.model.problem, weights.model.diffusion
        self.rows, self.columns = self.problem.shape(size)
        self.width = weights.model.candidates_of(size) or self.columns
        instances, batch = batch_sizes(config, self.rows, self.columns, self.width)
        self.batch = max(1, batch // weights.ranks.world)
        self.sampling = config.targets.sampling
        if self.width < self.columns and self.sampling.order == "rule":  # following a tour looks at all columns
            self.sampling = replace(self.sampling, order=CANDIDATES_ORDER)
        self.refining = replace(self.sampling, decodes=config.targets.refine_decodes)
        self.improvement_weight = torch.tensor(config.improvement.weight, device=weights.device)
        if config.improvement.weight > 0 and self.width < self.columns:
            raise UsageError(
                f"IMPROVEMENT needs log p̂, which is not known where only {self.width} of {self.columns} columns are "
                f"looked at: set improvement.weight = 0, or model.network.dense_up_to to {self.rows} at least"
            )
        self.count, self.metrics = max(1, instances // weights.ranks.world), Means(METRICS, weights.device)
        drawn = source.draw(self.count)
        self.instances = {name: values.clone() for name, values in drawn.instances.items()}
        self.solutions = drawn.solutions
        features, task = self.task()
        self.density = task.density
        like = self.targets_of(features, self._from_prior(task, weights.noise(self.count), 1))
        self.memory = ReplayMemory(self._capacity(), like, config.memory.reward_weighted)

    @property
    def work(self) -> float:
        """Return about how much a round computes, in network passes over matrix entries: a gradient counts two."""
        targets = self.config.targets
        passes = self.sampling.steps + targets.refine_rounds * REFINE_STEPS
        generated = self.count * targets.trajectories * passes if self.config.makes_targets else 0
        cloned = 3 * self.batch * (self.config.cloning.steps_first + self.config.cloning.steps_last) / 2
        return (generated + cloned) * self.rows * self.width

    def kept(self) -> dict[str, Tensor]:
        """Return the tensors that a resumed run needs again."""
        return self.memory.tensors() if self.config.memory.saved else {}

    def tensors(self) -> list[Tensor]:
        """Return every tensor that the steps change."""
        solutions = [] if self.solutions is None else [self.solutions]
        return [*self.instances.values(), *solutions, *self.memory.tensors().values(), *self.metrics.tensors()]

    def recordable(self) -> list[Step]:
        """Return the steps that the run takes and that need nothing of the host, in their order."""
        wanted = {
            self.draw: self.source.on_device,
            self.make_targets: self.config.makes_targets,
            self.improve: self.config.improvement.weight > 0,
            self.clone: self.config.clones,
            self.gather_statistics: self.gathers_statistics,
        }
        return [step for step, taken in wanted.items() if taken]

    def draw(self) -> None:
        """Replace the instances by new ones."""
        drawn = self.source.draw(self.count)
        for name, values in drawn.instances.items():
            self.instances[name].copy_(values)
        if self.solutions is not None and drawn.solutions is not None:
            self.solutions.copy_(drawn.solutions)

    @torch.no_grad()
    def make_targets(self) -> None:
        """Store a target for every instance: the best of its trajectories, refined; or the solution it came with."""
        with self.generating():
            self._make_targets()

    def _make_targets(self) -> None:
        config = self.config.targets
        features, task = self.task()
        if self.solutions is not None and not self.config.cloning.drafts:
            self._store(task, features, self.solutions, task.cost(self.solutions))
            return
        noise = self.weights.noise(self.count)
        predict = self.predict(features, noise)
        drafts = DraftPicker(noise.spawn(config.trajectories))
        each = noise.spawn(config.trajectories)
        generated = generate(predict, task, self.diffusion, each, self.sampling, callback=drafts)
        if self.solutions is not None:  # of what was generated only the drafts are wanted
            choice, cost = self.solutions, task.cost(self.solutions).squeeze(1)
        else:
            choice, cost = generated.best()
            for _ in range(config.refine_rounds):
                choice, cost = refine(
                    predict, task, self.diffusion, noise.spawn(config.trajectories), self.refining, choice, cost,
                    level=config.refine_level, steps=REFINE_STEPS,
                )  # fmt: skip
        self._store(task, features, choice, cost[:, None], drafts.one_each(noise))
        self.metrics.add("cost", generated.cost.float().mean())

    def improve(self) -> None:
        """IMPROVEMENT: sample trajectories to the end, and take a REINFORCE step on what they decided (equation 17)."""
        with self.generating():
            self._improve()

    def _improve(self) -> None:
        config, trajectories = self.config.improvement, self.config.targets.trajectories
        sampling = config.sampling
        run_to_the_end = last_decision if config.objective == "last" else all_decisions
        noise = self.weights.noise(self.count)
        with torch.no_grad():
            features, task = self.task()
            predict = self.predict(features, Noise(noise.keys))
            sampled = run_to_the_end(predict, task, self.diffusion, noise.spawn(trajectories), sampling)
            groups = trajectories if config.objective == "last" and config.per_trajectory else 1
            advantage = advantages(sampled.cost, groups, config.normalise)

        def loss_of(decision: Decision) -> Tensor:
            # the same identifiers as during sampling (noise of the same keys), now with gradients; encoded anew for
            # every decision, so that one decision's graph is all there is
            log_odds = self.predict(features, Noise(noise.keys))(decision.x, decision.t)
            log_p = decision.log_probability(log_odds, task, self.diffusion, sampling)
            loss = improvement_loss(log_p.view_as(sampled.cost), advantage).mean() / self.rows
            return self.improvement_weight * loss

        self.weights.update(loss_of(decision) for decision in sampled.decisions)
        self.metrics.add("improvement", sampled.cost.float().mean())
        if not self.config.makes_targets:
            self.metrics.add("cost", sampled.cost.float().mean())
        if self.config.targets.from_improvement:
            with torch.no_grad():
                choice, cost = sampled.choice, sampled.cost
                if self.config.targets.best_only:
                    choice, lowest = best_of(choice.view(self.count, -1, self.rows), cost)
                    cost = lowest[:, None]
                self._store(task, features, choice, cost)

    def clone(self) -> None:
        """CLONING: one step of diffusion training on items of the memory."""
        noise = self.weights.noise(self.batch)
        with torch.no_grad():
            items = self.memory.draw(noise)
        loss = self.clone_loss(items, noise)
        self.weights.update(loss)
        self.metrics.add("loss", loss.detach())

    @property
    def gathers_statistics(self) -> bool:
        """Tell whether averaged weights, other than the current ones, need statistics of batch normalisation."""
        averages = self.config.optimizer.average > 0 and self.config.model.network.norm == "batch"
        return averages and self.config.clones

    @torch.no_grad()
    def gather_statistics(self) -> None:
        """Show the averaged weights a batch of CLONING: their own running statistics are what solving needs."""
        model, noise = self.weights.average, self.weights.noise(self.batch)
        items = self.memory.draw(noise)
        times = 1 + noise.integers(self.diffusion.steps)
        noisy = self.diffusion.q_sample(items.features.marked(items.choice), times, self.density, noise)
        model.network.train()
        model.predict(model.encode(items.features, noise), self.density)(noisy, times)
        model.network.eval()

    def clone_loss(self, items: Targets, noise: Noise) -> Tensor:
        """Return L_CLN of a batch of targets (equation 15), a scalar."""
        config = self.config.cloning
        features = items.features
        x0 = features.marked(items.choice)
        t = 1 + noise.integers(self.diffusion.steps)
        from_draft = noise.uniform(1).squeeze(1) < config.drafts
        noised = torch.where(from_draft[:, None, None], features.marked(items.draft), x0)
        t = torch.where(from_draft, items.draft_time, t)
        xt = self.diffusion.q_sample(noised, t, self.density, noise)
        log_odds = self.predict(features, noise)(xt, t)
        loss = config.prd * prediction_loss(log_odds, x0)
        if config.vb:
            # drafts are no samples of q(x_t | x_0), so L_VB says nothing about them
            bound = variational_bound(self.diffusion, log_odds, x0, xt, t, self.density)
            loss = loss + config.vb * torch.where(from_draft, 0.0, bound)
        if config.cst:
            loss = loss + config.cst * constraint_loss(self.problem.violation, log_odds, noise, features.candidates)
        return (loss / (self.rows * self.width)).mean()

    @contextmanager
    def generating(self) -> Iterator[None]:
        """Let batch normalisation, where the network has any, take its running statistics, as solving does.

        Without CLONING nothing but generating could gather them.
        """
        network = self.weights.model.network
        network.train(not self.config.clones)
        try:
            yield
        finally:
            network.train()

    def task(self) -> tuple[Features, Task]:
        """Return what the network sees of the instances at hand, and what generating their solutions needs."""
        features = self.weights.model.features(self.instances)
        return features, Task(self.problem, self.instances, candidates=features.candidates, masked=self.source.forbids)

    def predict(self, features: Features, noise: Noise) -> Predict:
        """Encode instances, with identifiers from the noise; return the log-odds of X_0 as a function of (x, t)."""
        model = self.weights.model
        log_odds = model.predict(model.encode(features, noise), self.density)

        def predict(x: Tensor, t: Tensor) -> Tensor:
            self.weights.between_passes()
            return log_odds(x, t)

        return predict

    def targets_of(
        self,
        features: Features,
        choice: Tensor,
        reward: Tensor | None = None,
        drafts: tuple[Tensor, Tensor] | None = None,
    ) -> Targets:
        """Return targets for solutions (B · K, rows) of B instances; without a draft each is its own."""
        samples = len(choice) // len(features.relations)
        ones = torch.ones(len(choice), dtype=torch.long, device=choice.device)
        draft, time = (choice, ones) if drafts is None else drafts
        reward = ones.float() if reward is None else reward
        return Targets(features.repeat(samples), choice, reward, draft, time)

    def _store(
        self, task: Task, features: Features, choice: Tensor, cost: Tensor, drafts: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Store K solutions (B · K, rows) of every instance, with costs (B, K), and the prior's share beside them.

        This is q̃ of equation 10: the mixture by α here, exp(R) where the memory is drawn from.
        """
        config, cost = self.config.memory, cost.float()
        self.metrics.add("target", cost.amin(1).mean())
        reward = -cost
        if config.reward_weighted or config.mixture < 1:
            scale = reward_scale(task, self.weights.noise(self.count))
            reward = scale.rewards(cost)
            if extra := config.prior_share(cost.shape[1]):
                random = self._from_prior(task, self.weights.noise(self.count), extra)
                random_reward = scale.rewards(task.cost(random).float()).flatten()
                self.memory.store(self.targets_of(features, random, random_reward))
        self.memory.store(self.targets_of(features, choice, reward.flatten(), drafts))
        if config.reward_weighted:
            self.metrics.add("effective", self.memory.effective_share())

    def _from_prior(self, task: Task, noise: Noise, samples: int) -> Tensor:
        """Draw `samples` random feasible solutions of every instance, (B · samples, rows), from q(X_0)."""
        return random_choice(task.rule, (self.rows, self.columns), noise.spawn(samples), task.mask(samples))

    def _capacity(self) -> int:
        """Return how many items a memory of the configured number of rounds holds."""
        config = self.config
        each = 1
        if config.targets.from_improvement and not config.targets.best_only:
            each = config.targets.trajectories * config.improvement.sampling.decodes
        return config.memory.rounds * self.count * (each + config.memory.prior_share(each))
