"""Operations that choose their implementation themselves: Triton kernels, compiled loops, tiles that fit a CPU's cache,
or plain torch.

An operation is a function that says what it computes and has its plain implementation beside it (`attention`,
`candidate_edges`, `random`, `solutions`, `loads`, `schedule_descent`, `tour_descent`, `schedule_merging`,
`tour_merging`, `prices`). Where a faster one fits the device, the dtype and the sizes, it is taken; `choosing` knows
which devices have what, and modules named `triton_…` and `compiled_…` are imported only there. No caller ever has to
ask.
"""

from .attention import (
    NormedMLP,
    attend,
    edge_attention,
    first_edges,
    gelu,
    head_scores,
    layer_norm,
    linear,
    mix_edges,
    project_nodes,
    read_edges,
    relu_means,
    split_heads,
    update_nodes,
)
from .candidate_edges import summarise_columns
from .choosing import only_plain, without_triton, worth_compiling
from .loads import load_prices, pick_by_loads
from .neighbours import Neighbours, neighbours
from .prices import SchedulePrices, TourPrices, schedule_prices, tour_prices
from .random import GumbelNoise, Noise, child_keys, fold, gumbel, integers, random_bits, root_key, uniform
from .schedule_descent import improve_schedules
from .schedule_merging import merge_schedules
from .solutions import (
    BARRED,
    NEVER,
    barred,
    column_totals,
    follow_candidates,
    follow_tours,
    join_candidates,
    join_tours,
    noisy_scores,
    pick_columns,
    picked,
    spread_over,
    spread_scores,
)
from .tour_descent import improve_tours
from .tour_merging import merge_tours

__all__ = [
    "BARRED",
    "NEVER",
    "GumbelNoise",
    "Neighbours",
    "Noise",
    "NormedMLP",
    "SchedulePrices",
    "TourPrices",
    "attend",
    "barred",
    "child_keys",
    "column_totals",
    "edge_attention",
    "first_edges",
    "fold",
    "follow_candidates",
    "follow_tours",
    "gelu",
    "gumbel",
    "head_scores",
    "improve_schedules",
    "improve_tours",
    "integers",
    "join_candidates",
    "join_tours",
    "layer_norm",
    "linear",
    "load_prices",
    "merge_schedules",
    "merge_tours",
    "mix_edges",
    "neighbours",
    "noisy_scores",
    "only_plain",
    "pick_by_loads",
    "pick_columns",
    "picked",
    "project_nodes",
    "random_bits",
    "read_edges",
    "relu_means",
    "root_key",
    "schedule_prices",
    "split_heads",
    "spread_over",
    "spread_scores",
    "summarise_columns",
    "tour_prices",
    "uniform",
    "update_nodes",
    "without_triton",
    "worth_compiling",
]
