"""Kernels of candidates, of merging and of local search compile for a Hopper GPU, wherever Triton is installed: its
interpreter forgives more.
"""

from typing import Any

import pytest

from icdc.kernels import dispatch

triton = pytest.importorskip("triton")
pytestmark = [
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION is unset:UserWarning"),  # from triton 3.9 on
    pytest.mark.skipif(dispatch.INTERPRETED, reason="Triton interprets kernels here, and compiles none"),
]

TYPES = {
    "index": "*i64", "order": "*i32", "starts": "*i32", "rows": "i32", "columns": "i32", "samples": "i32",
    "totals": "*fp32", "row_totals": "*fp32", "column_totals": "*fp32", "along_columns": "*fp32", "scale": "fp32",
}  # fmt: skip
"""Of arguments that are no states in half precision."""
SIZES = {"PAD": 16, "HEADS": 8, "DIM": 16, "THIN": 64, "BLOCK": 16, "STRIDE": 256}
KERNELS = ["_scores", "_attend_rows", "_attend_columns", "_rows_backward", "_queries_backward", "_columns_backward"]
MERGING = [
    ("_merge_tours", {"CITIES": 32, "PARTS": 32, "TRIALS": 32}, 1),
    ("_merge_tours", {"CITIES": 1024, "PARTS": 32, "TRIALS": 32}, 4),
    ("_merge_schedules", {"ROWS": 32, "COLUMNS": 32, "CHANGES": 16}, 1),
    ("_merge_schedules", {"ROWS": 2048, "COLUMNS": 256, "CHANGES": 16}, 8),
]
"""Kernels of merging for the least and the most that they take."""
DESCENT = [
    ("_improve_tours", {"CITIES": 32}, 1),
    ("_improve_tours", {"CITIES": 1024}, 4),
    ("_improve_schedules", {"ROWS": 1, "COLUMNS": 1}, 1),
    ("_improve_schedules", {"ROWS": 128, "COLUMNS": 16}, 1),
    ("_improve_schedules", {"ROWS": 2048, "COLUMNS": 256}, 8),
]
"""Those of local search."""
NUMBERS = ["distances", "leasts", "times", "loads", "steps", "owns"]
COUNTS = ["samples", "size", "count", "rows", "columns", "rounds"]
"""Of their arguments those that are whole or real, and those that are no tensors."""


@pytest.mark.parametrize("each", [12, 16])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_candidates_compile(name: str, each: int) -> None:
    from icdc.kernels.edge_attention import triton_candidates

    kernel: Any = getattr(triton_candidates, name)
    constants = {key: value for key, value in {**SIZES, "EACH": each}.items() if key in kernel.arg_names}
    signature = {key: "constexpr" if key in constants else TYPES.get(key, "*bf16") for key in kernel.arg_names}
    assert compiles(kernel, signature, constants, triton_candidates.WARPS)


@pytest.mark.parametrize("number", ["*i64", "*fp64"])
@pytest.mark.parametrize(("name", "sizes", "warps"), [*MERGING, *DESCENT])
def test_kernels_of_merging_and_of_local_search_compile(
    name: str, sizes: dict[str, int], warps: int, number: str
) -> None:
    from icdc.kernels.improve import triton as improving
    from icdc.kernels.merge import triton as merging

    kernel: Any = getattr(merging if "merge" in name else improving, name)
    constants = {key: value for key, value in {**sizes, "REAL": number == "*fp64"}.items() if key in kernel.arg_names}
    types = dict.fromkeys(NUMBERS, number) | dict.fromkeys(COUNTS, "i32")
    types |= dict.fromkeys(("factor", "givens"), "*fp64")
    signature = {key: "constexpr" if key in constants else types.get(key, "*i64") for key in kernel.arg_names}
    assert compiles(kernel, signature, constants, warps)


@pytest.mark.parametrize(("cities", "warps"), [(32, 1), (1024, 4), (4096, 16)])
@pytest.mark.parametrize("name", ["_join_candidates", "_follow_candidates"])
def test_kernels_of_tours_from_candidates_compile(name: str, cities: int, warps: int) -> None:
    from icdc.kernels.decode import triton as decoding

    kernel: Any = getattr(decoding, name)
    constants = {key: value for key, value in {"CITIES": cities, "EACH": 32}.items() if key in kernel.arg_names}
    types = dict.fromkeys(("scores", "excesses", "floors"), "*fp32") | dict.fromkeys(("firsts", "found"), "*i64")
    types |= dict.fromkeys(("indices", "rows", "columns"), "*i32") | dict.fromkeys(("samples", "size"), "i32")
    types |= dict.fromkeys(("width", "places"), "i32")
    signature = {key: "constexpr" if key in constants else types[key] for key in kernel.arg_names}
    assert compiles(kernel, signature, constants, warps)


def compiles(kernel: Any, signature: dict[str, str], constants: dict[str, Any], warps: int) -> bool:
    """Return whether a kernel becomes instructions of a Hopper GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    return "ptx" in triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps}).asm
