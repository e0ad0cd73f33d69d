"""The steps of Algorithm 1 for instances of one size, on tensors that stay where they are.

`draw`, `make_targets`, `improve` and `clone` take and return nothing: they read and write buffers, so that each
can be recorded as a CUDA graph or run as it is. No step looks at a value on the host.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..decoding import log_probability, random_choice
from ..model import Model
from ..noise import Noise
from ..problem import Features, Size, one_hot, to_tensors
from ..sampling import Predict, Task, all_as_good, generate, refine
from .chain import Decision, decision_log_probability, trajectories
from .drafts import Drafts
from .examples import Examples
from .learner import Learner
from .losses import (
    advantages,
    constraint_loss,
    decoder_loss,
    improvement_loss,
    prediction_loss,
    variational_bound,
)
from .memory import ReplayMemory, Targets

METRICS = ("loss", "cost", "target", "improvement")
"""What steps report: cloning loss, mean cost of generated solutions, of targets, of IMPROVEMENT's samples."""


class Steps:
    """The steps for one size.

    Parameters
    ----------
    learner : weights and optimizer, shared by all sizes.
    size : the size of the instances.
    examples : instances to learn from and the solutions that are their targets, instead of new instances.
    """

    def __init__(self, learner: Learner, size: Size, examples: Examples | None = None) -> None:
        self.learner, self.size, self.config = learner, size, learner.config
        problem = learner.model.problem
        self.problem, self.diffusion = problem, learner.model.diffusion
        self.rng = np.random.default_rng([self.config.seed, learner.ranks.rank, *size])
        shape = problem.shape(size)
        self.count = self.config.batch_of(self.config.targets.instances, *shape) // learner.ranks.world
        self.batch = self.config.batch_of(self.config.cloning.batch, *shape) // learner.ranks.world
        self.examples = examples
        self.solved: Tensor | None = None  # the solutions of the instances, where there are examples
        self.on_device = examples is not None or problem.sample_on_device(size, learner.noise(1)) is not None
        self.instances = {k: v.clone() for k, v in self._new_instances().items()}
        self.task = Task(problem, self.instances)
        self.metrics = {name: torch.zeros(2, device=learner.device) for name in METRICS}  # sum and count
        example = self._targets(problem.features(self.instances), self._prior(learner.noise(self.count), 1), 1)
        self.memory = ReplayMemory(self._capacity(), example, self.config.memory.reward_weighted)

    def tensors(self) -> list[Tensor]:
        """Return every tensor that the steps change."""
        solved = [] if self.solved is None else [self.solved]
        return [*self.instances.values(), *solved, *self.memory.tensors().values(), *self.metrics.values()]

    def kept(self) -> dict[str, Tensor]:
        """Return the tensors that a resumed run needs again."""
        return self.memory.tensors()

    def draw(self) -> None:
        """Replace the instances by new ones."""
        for name, values in self._new_instances().items():
            self.instances[name].copy_(values)

    @torch.no_grad()
    def make_targets(self) -> None:
        """Generate solutions of the instances, refine the best, and store it; or store the examples' solutions."""
        config = self.config.targets
        if self.solved is not None and not self.config.cloning.drafts:
            cost = self.task.cost(self.solved).squeeze(1)
            self._store(self.problem.features(self.instances), self.solved, cost, 1)
            self._report("target", cost.float().mean())
            return
        model = self.learner.average if config.from_average else self.learner.model
        noise = self.learner.noise(self.count)
        features = self.problem.features(self.instances)
        task = Task(self.problem, self.instances)
        predict = self._predict(model, features, noise)
        drafts = Drafts(noise.spawn(config.trajectories))
        generated = generate(
            predict, task, self.diffusion, noise.spawn(config.trajectories), config.sampling, callback=drafts
        )
        again = replace(config.sampling, decodes=config.refine_decodes)
        choice, cost = (generated.choice, generated.cost) if config.ties else generated.best()
        if self.solved is not None:  # of what was generated only the drafts are wanted
            choice, cost = self.solved, task.cost(self.solved).squeeze(1)
        for _ in range(config.refine_rounds if self.solved is None else 0):
            attempt = noise.spawn(config.trajectories)
            choice, cost = refine(
                predict, task, self.diffusion, attempt, again, choice, cost,
                level=config.refine_level, steps=config.refine_steps,
            )  # fmt: skip
        if config.ties:
            choice, cost = all_as_good(choice, cost)
        samples = len(choice) // self.count
        draft, step = drafts.of_trajectories(samples, noise)
        self._store(features, choice, cost, samples, draft, step)
        self._report("cost", generated.cost.float().mean())
        self._report("target", cost.float().mean())

    def improve(self) -> None:
        """IMPROVEMENT: sample p̂ along whole trajectories, take a REINFORCE step at their last one, or at all."""
        config = self.config.improvement
        if config.objective == "chain":
            self._improve_chain()
            return
        trajectories, decodes = self.config.targets.trajectories, config.sampling.decodes
        noise = self.learner.noise(self.count)
        with torch.no_grad():
            features = self.problem.features(self.instances)
            task = Task(self.problem, self.instances)
            predict = self._predict(self.learner.model, features, Noise(noise.keys))
            # REINFORCE needs samples of p̂: a greedy end is not one
            sampling = replace(config.sampling, greedy_end=False)
            samples = generate(predict, task, self.diffusion, noise.spawn(trajectories), sampling)
            cost = samples.last_cost
            groups = trajectories if config.per_trajectory else 1
            advantage = advantages(cost, groups, config.normalise)
        # the same identifiers as during sampling (noise of the same keys), now with gradients
        log_odds = self._predict(self.learner.model, features, Noise(noise.keys))(samples.last_x, samples.last_t)
        log_p = log_probability(
            task.rule,
            (log_odds / config.sampling.temperature).repeat_interleave(decodes, 0),
            samples.last_choice.flatten(0, 1),
            samples.last_first,
            task.mask(trajectories * decodes),
        )
        loss = improvement_loss(log_p.view_as(cost), advantage).mean() / task.rows
        self.learner.update(self.learner.improvement_weight * loss)
        self._report("improvement", cost.float().mean())
        if self.config.targets.from_improvement:
            with torch.no_grad():
                self._store(features, samples.last_choice.flatten(0, 1), cost.flatten(), cost.shape[1])
                self._report("target", cost.float().amin(1).mean())
                self._report("cost", cost.float().mean())

    def _improve_chain(self) -> None:
        """∇ Σ_t log p_θ(x_s | x_t) · r(x_0): the whole reverse chain is the policy, what it ends in the reward."""
        config = self.config.improvement
        # where solutions are decoded on the way, the last one must be a sample of p̂ as well
        sampling = replace(config.sampling, greedy_end=False)
        noise = self.learner.noise(self.count)
        with torch.no_grad():
            features = self.problem.features(self.instances)
            predict = self._predict(self.learner.model, features, Noise(noise.keys))
        task = Task(self.problem, self.instances)
        each = noise.spawn(self.config.targets.trajectories)
        decisions, cost = trajectories(predict, task, self.diffusion, each, sampling)
        advantage = advantages(cost, 1, config.normalise)
        temperature = sampling.step_temperature if sampling.reverse == "independent" else sampling.temperature

        def loss_of(decision: Decision) -> Tensor:
            # encoded anew for every step, with the same identifiers, so that one step's graph is all there is
            predict = self._predict(self.learner.model, features, Noise(noise.keys))
            log_odds = predict(decision.x, torch.full_like(each.keys, decision.t))
            log_p = decision_log_probability(decision, log_odds, task, self.diffusion, temperature)
            loss = improvement_loss(log_p.view_as(cost), advantage).mean() / task.rows
            return self.learner.improvement_weight * loss

        self.learner.update(loss_of(decision) for decision in decisions)
        self._report("improvement", cost.float().mean())
        self._report("cost", cost.float().mean())

    def clone(self) -> None:
        """CLONING: one step of diffusion training on items of the memory."""
        noise = self.learner.noise(self.batch)
        with torch.no_grad():
            items = self.memory.draw(noise)
        loss = self.clone_loss(items, noise)
        self.learner.update(loss)
        self._report("loss", loss.detach())

    def clone_loss(self, items: Targets, noise: Noise) -> Tensor:
        """Return the cloning loss L_CLN of a batch of targets, a scalar."""
        config, columns, density = self.config.cloning, self.task.columns, self.task.density
        x0 = one_hot(items.choice, columns)
        t = 1 + noise.integers(self.diffusion.steps)
        from_draft = noise.uniform(1).squeeze(1) < config.drafts
        source = torch.where(from_draft[:, None, None], one_hot(items.draft, columns), x0)
        t = torch.where(from_draft, items.draft_step, t)
        xt = self.diffusion.q_sample(source, t, density, noise)
        log_odds = self._predict(self.learner.model, items.features, noise)(xt, t)
        loss = config.prd * prediction_loss(log_odds, x0)
        if config.vb:
            # a noised draft is no X_t of this X_0, so its posterior says nothing
            bound = variational_bound(self.diffusion, log_odds, x0, xt, t, density)
            loss = loss + config.vb * torch.where(from_draft, 0.0, bound)
        if config.cst:
            loss = loss + config.cst * constraint_loss(self.problem.violation, log_odds, noise, config.cst_temperature)
        loss = loss / (self.task.rows * columns)
        if config.decoder:
            first = noise.integers(self.task.rows)
            own = decoder_loss(self.task.rule, log_odds, items.choice, first, items.mask)
            loss = loss + config.decoder * own / self.task.rows
        return loss.mean()

    def _predict(self, model: Model, features: Features, noise: Noise) -> Predict:
        return model.predict(model.encode(features, noise), self.problem.density(self.size))

    def _new_instances(self) -> dict[str, Tensor]:
        if self.examples is not None:
            instances, solved = self.examples.draw(self.learner.noise(self.count))
            self.solved = solved if self.solved is None else self.solved.copy_(solved)
            return instances
        if self.on_device:
            drawn = self.problem.sample_on_device(self.size, self.learner.noise(self.count))
            assert drawn is not None
            return drawn
        return to_tensors(self.problem.sample(self.count, self.size, self.rng), self.learner.device)

    def _capacity(self) -> int:
        """Return how many items a memory of the configured number of rounds holds."""
        config = self.config
        each = config.targets.trajectories if config.targets.ties else 1
        if config.targets.from_improvement:
            each = config.targets.trajectories * config.improvement.sampling.decodes
        return config.memory.rounds * self.count * (each + self._prior_samples(each))

    def _prior_samples(self, generated: int) -> int:
        """Return how many solutions of the prior join `generated` ones of an instance: (1 − α)/α as many."""
        share = self.config.memory.mixture
        return round(generated * (1 - share) / share)

    def _prior(self, noise: Noise, samples: int) -> Tensor:
        """Draw `samples` random feasible solutions of every instance, (B · samples, rows)."""
        return random_choice(
            self.task.rule, (self.task.rows, self.task.columns), noise.spawn(samples), self.task.mask(samples)
        )

    def _store(
        self,
        features: Features,
        choice: Tensor,
        cost: Tensor,
        samples: int,
        draft: Tensor | None = None,
        step: Tensor | None = None,
    ) -> None:
        """Store `samples` solutions of every instance with their rewards, and the prior's share beside them."""
        reward = -cost.float()
        if self.config.memory.reward_weighted or self.config.memory.mixture < 1:
            extra = self._prior_samples(samples)
            random = self._prior(self.learner.noise(self.count), max(2, extra))
            random_cost = self.task.cost(random).float()
            # R on one scale for all instances: in standard deviations above a random solution
            mean, spread = random_cost.mean(1, keepdim=True), random_cost.std(1, keepdim=True).clamp_min(1e-9)
            reward = ((mean - cost.view(self.count, -1).float()) / spread).flatten()
            if extra:
                kept = random.view(self.count, -1, self.task.rows)[:, :extra].flatten(0, 1)
                kept_reward = ((mean - random_cost[:, :extra]) / spread).flatten()
                self.memory.store(self._targets(features, kept, extra, kept_reward))
        self.memory.store(self._targets(features, choice, samples, reward, draft, step))

    def _targets(
        self,
        features: Features,
        choice: Tensor,
        samples: int,
        reward: Tensor | None = None,
        draft: Tensor | None = None,
        step: Tensor | None = None,
    ) -> Targets:
        """Return targets for `samples` solutions of every instance; without a draft the target is its own."""
        ones = torch.ones(len(choice), dtype=torch.long, device=choice.device)
        return Targets(
            features.repeat(samples),
            choice,
            ones.float() if reward is None else reward,
            choice if draft is None else draft,
            ones if step is None else step,
            self.task.mask(samples),
        )

    def _report(self, name: str, value: Tensor) -> None:
        self.metrics[name][0] += value
        self.metrics[name][1] += 1
