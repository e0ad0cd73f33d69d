"""Kernels of candidates compile for a Hopper GPU, wherever Triton is installed: its interpreter forgives more."""

from typing import Any

import pytest

from icdc.kernels import choosing

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(choosing.INTERPRETED, reason="Triton interprets kernels here, and compiles none")

TYPES = {
    "index": "*i64", "order": "*i32", "starts": "*i32", "rows": "i32", "columns": "i32", "samples": "i32",
    "totals": "*fp32", "row_totals": "*fp32", "column_totals": "*fp32", "along_columns": "*fp32", "scale": "fp32",
}  # fmt: skip
"""Of arguments that are no states in half precision."""
SIZES = {"PAD": 16, "HEADS": 8, "DIM": 16, "THIN": 64, "BLOCK": 16, "STRIDE": 256}
KERNELS = ["_scores", "_attend_rows", "_attend_columns", "_rows_backward", "_queries_backward", "_columns_backward"]


@pytest.mark.parametrize("each", [12, 16])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_candidates_compile(name: str, each: int) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from icdc.kernels import triton_candidates

    kernel: Any = getattr(triton_candidates, name)
    constants = {key: value for key, value in {**SIZES, "EACH": each}.items() if key in kernel.arg_names}
    signature = {key: "constexpr" if key in constants else TYPES.get(key, "*bf16") for key in kernel.arg_names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": triton_candidates.WARPS})
    assert "ptx" in made.asm
