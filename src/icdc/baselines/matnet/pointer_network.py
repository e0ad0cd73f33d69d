"""The network of MatNet: a dual encoder of rows and columns, and a decoder that points to one column after another.

Encoder: rows attend over columns and columns over rows, with scores mixed with the matrix itself.

Decoder: the rule of the problem says which row decides now and which columns it may take; the decoder scores them by
attention of a context over columns, and the probability of what it builds is exact.

- Tours (rows and columns are the same items): the context of a decision is the first and the current city, as in the
  paper.
- Other problems, where several rows may take the same column (jobs on machines): the context is the row that decides.
  Rows decide in decreasing order of the least relation they have to any column (jobs that are long even where they are
  quickest come first; ties by the mean), which needs no index, so that the order of the input does not matter. What has
  been decided enters by the use of columns: keys, values and pointer keys of a column get a term from how much of the
  first relation its rows sum up to, how far that is above the least used column, what this row would add, and the share
  of rows that is still open. In units of the mean duration these are the loads of the machines.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ...kernels import NEVER, Noise, attend, head_scores, split_heads
from ...networks.layers import FeedForward
from ...problems.base import FeatureSizes
from ...problems.features import Features
from ...problems.rules import Rule
from ...problems.tensors import one_hot

USAGE_FEATURES = 6
NEVER_HALF = -1e4
"""Score of a column that may not be attended to, within the range of half precision."""


class InstanceNorm(nn.Module):
    """Normalisation of every channel over the items of one instance, (N, items, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        centred = wide - wide.mean(1, keepdim=True)
        scaled = centred * (centred.square().mean(1, keepdim=True) + 1e-5).rsqrt()
        return (scaled * self.weight + self.bias).to(x.dtype)


@dataclass(frozen=True)
class MatNetNetworkConfig:
    """Choices of architecture.

    width, heads, layers, feed_forward : sizes of the encoder (d, h, number of layers, hidden width).
    mixer_width : hidden width of the score-mixing MLP that every head has of its own.
    one_hots : how many one-hot vectors columns draw from; with more columns than this some share one.
    clip : C of the logits C · tanh(·) of the pointer.
    usage_width : width of what the decoder sees of each column's use so far, where columns are used several times.
    """

    width: int = 256
    heads: int = 16
    layers: int = 5
    feed_forward: int = 512
    mixer_width: int = 16
    one_hots: int = 64
    clip: float = 10.0
    usage_width: int = 16

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UsageError(f"the width {self.width} must be a multiple of the {self.heads} heads")
        for name in ("layers", "feed_forward", "mixer_width", "one_hots", "usage_width"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.one_hots > self.width:
            raise UsageError(f"{self.one_hots} one-hot vectors do not fit a width of {self.width}")
        if not self.clip > 0:
            raise UsageError(f"clip must be positive, got {self.clip}")


class MatNetEncoding(NamedTuple):
    """An encoded batch: rows (B, R, d), columns (B, C, d) and the relations (B, R, C, k) that were seen."""

    rows: Tensor
    columns: Tensor
    relations: Tensor


class Rollouts(NamedTuple):
    """K solutions of each of B instances: choice (B, K, rows) and log p of each (B, K), given its first city."""

    choice: Tensor
    log_p: Tensor


class MixedScores(nn.Module):
    """Every head's own MLP from its attention score and the matrix entries of a pair to a new score.

    score_h, D_1, …, D_k → mixer_width → 1, for each head h with weights of its own.
    """

    def __init__(self, heads: int, channels: int, hidden: int) -> None:
        super().__init__()
        inputs = 1 + channels
        self.up = nn.Parameter(torch.empty(heads, inputs, hidden).uniform_(-1, 1) * inputs**-0.5)
        self.up_bias = nn.Parameter(torch.empty(heads, hidden).uniform_(-1, 1) * inputs**-0.5)
        self.down = nn.Parameter(torch.empty(heads, hidden).uniform_(-1, 1) * hidden**-0.5)

    def forward(self, scores: Tensor, relations: Tensor) -> Tensor:
        """Mix scores (N, heads, own, other) with relations (N, own, other, k), in full precision, as `scores`."""
        # sums of products, not matrix products: they fuse into one kernel, and autocast leaves them alone
        hidden = scores.float()[..., None] * self.up[:, None, None, 0] + self.up_bias[:, None, None]
        for channel in range(relations.shape[-1]):
            hidden = hidden + relations[:, None, :, :, channel, None] * self.up[:, None, None, 1 + channel]
        # no bias of its own: the softmax that follows would not see it
        return (hidden.relu() * self.down[:, None, None]).sum(-1)


class MixedScoreBlock(nn.Module):
    """One side of a layer: mixed-score attention over the other side, then a feed-forward part, both residual."""

    def __init__(self, config: MatNetNetworkConfig, channels: int) -> None:
        super().__init__()
        width, self.heads = config.width, config.heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.mix = MixedScores(config.heads, channels, config.mixer_width)
        self.combine = nn.Linear(width, width)
        self.norm_1, self.norm_2 = InstanceNorm(width), InstanceNorm(width)
        self.feed = FeedForward(width, config.feed_forward)

    def forward(self, own: Tensor, other: Tensor, relations: Tensor) -> Tensor:
        """Update `own` (B, own, d) from `other` (B, other, d) and relations (B, own, other, k)."""
        scores = self.mix(head_scores(self.query(own), self.key(other), self.heads), relations)
        weights, value = scores.softmax(-1), self.value(other)
        message = self.combine(attend(weights.to(value.dtype), value, self.heads))
        own = self.norm_1(own + message)
        updated: Tensor = self.norm_2(own + self.feed(own))
        return updated


class PointerDecoder(nn.Module):
    """Multi-head attention of the context over columns, then one head that points, clipped by C · tanh.

    Parameters
    ----------
    config : the sizes.
    several_rows_a_column : whether columns can be taken more than once, so that their use so far matters.
    """

    def __init__(self, config: MatNetNetworkConfig, several_rows_a_column: bool) -> None:
        super().__init__()
        width, self.heads, self.clip = config.width, config.heads, config.clip
        self.uses = several_rows_a_column
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(width, width)
        if self.uses:
            self.usage = FeedForward(USAGE_FEATURES, 4 * config.usage_width, config.usage_width)
            self.use = nn.Linear(config.usage_width, 3 * width, bias=False)
        else:
            self.query_first = nn.Linear(width, width, bias=False)

    def forward(
        self,
        rule: Rule,
        encoded: MatNetEncoding,
        first: Tensor,
        *,
        noise: Noise | None = None,
        mask: Tensor | None = None,
        opening: Tensor | None = None,
        forced: Tensor | None = None,
    ) -> Rollouts:
        """Build K solutions of every instance.

        Parameters
        ----------
        first : (B, K), the city a tour begins with; not used by other problems.
        noise : B · K keys, instance-major, to sample; None is greedy.
        mask : (B, rows, columns) bool, the pairs the instances permit.
        opening : (B, K), the column of the first decision, where that is not to be the network's; it does not count
            in log p, and where it is not allowed it is ignored.
        forced : (B, K, rows), solutions whose probability to return.
        """
        batch, samples = first.shape
        rows, columns = encoded.relations.shape[1:3]
        order = None
        row_states, relations = encoded.rows, encoded.relations
        if self.uses:
            order = deciding_order(relations[..., 0])
            row_states = _rows_in(row_states, order)
            relations = _rows_in(relations.flatten(2), order).view_as(relations)
            mask = None if mask is None else _rows_in(mask, order)
            forced = None if forced is None else forced.gather(2, order[:, None].expand(-1, samples, -1))
        if mask is not None:
            mask = mask.repeat_interleave(samples, 0)
        queries = self.query(row_states)
        keys = split_heads(self.key(encoded.columns), self.heads)
        values = split_heads(self.value(encoded.columns), self.heads)
        start_query = None if self.uses else _rows_in(self.query_first(row_states), first)
        state = rule.start((batch * samples, rows, columns), first.flatten(), mask)
        choice = torch.zeros(batch * samples, rows, dtype=torch.long, device=first.device)
        log_p = torch.zeros(batch * samples, device=first.device)
        loads = torch.zeros(batch, samples, columns, device=first.device)
        for turn in range(rows):
            row = rule.next_row(state)
            at = row.view(batch, samples)
            query = _rows_in(queries, at)
            use = None
            if start_query is not None:
                query = query + start_query
            else:
                added = _rows_in(relations[..., 0], at)
                use = self.use(self.usage(usage_features(loads, added, turn / rows)))
            allowed = _row_of(rule.allowed(state), row)
            logits = self._point(query, keys, values, encoded.columns, use, allowed.view(batch, samples, columns))
            scores = logits.flatten(0, 1).float().masked_fill(~allowed, NEVER)
            if forced is not None:
                column = forced.flatten(0, 1).gather(1, row[:, None]).squeeze(1)
            else:
                noisy = scores if noise is None else scores + noise.gumbel(columns)
                column = noisy.argmax(-1)
            step = scores.log_softmax(-1)
            if opening is not None and turn == 0:
                open_column = opening.flatten()
                possible = allowed.gather(1, open_column[:, None]).squeeze(1)
                column = torch.where(possible, open_column, column)
                step = torch.where(possible[:, None], 0.0, step)
            log_p = log_p + step.gather(1, column[:, None]).squeeze(1)
            choice = choice.scatter(1, row[:, None], column[:, None])
            state = rule.choose(state, row, column)
            if start_query is None:
                loads = loads + one_hot(column, columns).view_as(loads) * (added + 1.0)
        if order is not None:
            turns = order.repeat_interleave(samples, 0)
            choice = torch.zeros_like(choice).scatter(1, turns, choice)
        return Rollouts(choice.view(batch, samples, rows), log_p.view(batch, samples))

    def _point(
        self, query: Tensor, keys: Tensor, values: Tensor, columns: Tensor, use: Tensor | None, allowed: Tensor
    ) -> Tensor:
        """Return clipped logits (B, K, C) of a decision with queries (B, K, d).

        keys and values (B, heads, C, d / heads), columns (B, C, d), use (B, K, C, 3 d) or None, allowed (B, K, C).
        """
        by_heads = split_heads(query, self.heads) * (query.shape[-1] // self.heads) ** -0.5  # (B, heads, K, d / heads)
        scores = by_heads @ keys.transpose(-1, -2)
        if use is not None:
            use_key, use_value, use_pointer = use.chunk(3, -1)
            keys_of_use = use_key.unflatten(-1, (self.heads, -1))
            scores = scores + torch.einsum("bhkd,bkchd->bhkc", by_heads, keys_of_use)
        weights = scores.masked_fill(~allowed[:, None], NEVER_HALF).softmax(-1).to(values.dtype)
        glimpse = (weights @ values).transpose(1, 2)
        if use is not None:
            glimpse = glimpse + torch.einsum("bhkc,bkchd->bkhd", weights, use_value.unflatten(-1, (self.heads, -1)))
        pointer = self.combine(glimpse.flatten(2)) * query.shape[-1] ** -0.5
        logits = pointer @ columns.to(pointer.dtype).transpose(-1, -2)
        if use is not None:
            logits = logits + torch.einsum("bkd,bkcd->bkc", pointer, use_pointer)
        return self.clip * torch.tanh(logits.float())


def deciding_order(relation: Tensor) -> Tensor:
    """Return the row of each turn, (B, R): the largest least relation first, ties by the mean, for (B, R, C)."""
    by_mean = relation.mean(2).argsort(dim=1, descending=True, stable=True)
    least = relation.amin(2).gather(1, by_mean)
    return by_mean.gather(1, least.argsort(dim=1, descending=True, stable=True))


def usage_features(loads: Tensor, added: Tensor, done: float) -> Tensor:
    """Return what is seen of each column's use, (B, K, C, 6), from its load and the relation this row would add."""
    after = loads + added + 1.0
    least, most = loads.amin(-1, keepdim=True), loads.amax(-1, keepdim=True)
    return torch.stack(
        [
            loads - least,
            loads - most,
            added,
            after - after.amin(-1, keepdim=True),
            after - most,
            torch.full_like(loads, 1.0 - done),
        ],
        -1,
    )


def _rows_in(items: Tensor, index: Tensor) -> Tensor:
    """Return the items (B, K, d) at index (B, K) of (B, R, d)."""
    return items.gather(1, index[..., None].expand(-1, -1, items.shape[2]))


def _row_of(matrix: Tensor, row: Tensor) -> Tensor:
    """Return one row (N, columns) of each matrix (N, rows, columns)."""
    return matrix.gather(1, row[:, None, None].expand(-1, 1, matrix.shape[2])).squeeze(1)


class MatNetNetwork(nn.Module):
    """Encoder and decoder together, sized from feature dimensions alone.

    It sees the raw relations of a problem and nothing else: no features of items, no derived relations.
    """

    def __init__(self, config: MatNetNetworkConfig, sizes: FeatureSizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        channels = sizes.raw_relations
        self.row_blocks = nn.ModuleList(MixedScoreBlock(config, channels) for _ in range(config.layers))
        self.column_blocks = nn.ModuleList(MixedScoreBlock(config, channels) for _ in range(config.layers))
        self.decoder = PointerDecoder(config, several_rows_a_column=not sizes.same_items)

    def encode(self, features: Features, one_hots: Tensor) -> MatNetEncoding:
        """Encode B instances; `one_hots` (B, C) int64 says which one-hot vector each column has; rows have zeros."""
        relations = features.relations[..., : self.sizes.raw_relations]
        columns = one_hot(one_hots, self.config.width)
        rows = columns.new_zeros(relations.shape[0], relations.shape[1], self.config.width)
        flipped = relations.transpose(1, 2)
        for row_block, column_block in zip(self.row_blocks, self.column_blocks, strict=True):
            rows, columns = row_block(rows, columns, relations), column_block(columns, rows, flipped)
        return MatNetEncoding(rows, columns, relations)

    def worth_compiling(self) -> list[nn.Module]:
        """Return the parts that move most memory: the blocks, with their hidden scores of every pair and head."""
        return [module for module in self.modules() if isinstance(module, MixedScoreBlock)]
