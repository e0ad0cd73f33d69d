"""Operations that choose their implementation themselves: Triton kernels, tiles that fit a CPU's cache, or plain torch.

An operation is a function that says what it computes and has its plain implementation beside it (`attention`, `random`,
`solutions`). Where a faster one fits the device, the dtype and the sizes, it is taken; `choosing` knows which devices
have what, and modules named `triton_…` are imported only there. No caller ever has to ask.
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
from .choosing import without_triton, worth_compiling
from .random import GumbelNoise, Noise, child_keys, fold, gumbel, integers, random_bits, root_key, uniform
from .solutions import NEVER, column_totals, follow_tours, join_tours, noisy_scores, pick_columns

__all__ = [
    "NEVER",
    "GumbelNoise",
    "Noise",
    "NormedMLP",
    "attend",
    "child_keys",
    "column_totals",
    "edge_attention",
    "first_edges",
    "fold",
    "follow_tours",
    "gelu",
    "gumbel",
    "head_scores",
    "integers",
    "join_tours",
    "layer_norm",
    "linear",
    "mix_edges",
    "noisy_scores",
    "pick_columns",
    "project_nodes",
    "random_bits",
    "read_edges",
    "relu_means",
    "root_key",
    "split_heads",
    "uniform",
    "update_nodes",
    "without_triton",
    "worth_compiling",
]
