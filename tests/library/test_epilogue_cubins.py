"""Epilogues as machine code: few instructions, and no branches where predicates do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import prepare_gemm, random_operands
from tilewright.library.problem import GemmProblem
from tilewright.runtime import cuda_api
from tilewright.runtime.sass import opcode_counts

pytestmark = pytest.mark.skipif(
    cuda_api.nvrtc is None, reason="the cuda extra is not installed: no NVRTC"
)


def counts_of(*operands: Any, **how: Any) -> dict[str, int]:
    prepared = prepare_gemm(*operands, **how)
    assert prepared.compiled is not None
    return dict(opcode_counts(prepared.compiled.cubin().cubin))


def padded(rows: int, columns: int, pitch: int) -> Any:
    """A matrix whose rows are 16-byte aligned, whatever its columns."""
    return np.zeros((rows, pitch), np.float16)[:, :columns]


@pytest.mark.parametrize(("n", "tails"), [(256, 0), (255, 64)])
def test_a_direct_epilogue_has_no_branches(n: int, tails: int) -> None:
    """128 accumulators as pairs; only where N is odd may half of a pair be inside of D."""
    a, b, c, d = padded(256, 64, 64), padded(64, n, 256), padded(256, n, 256), padded(256, n, 256)
    more: dict[str, Any] = {"bias": np.zeros(n, np.float16), "activation": "gelu", "beta": 1.0}
    counts = counts_of(a, b, c, out=d, kernel="sm80_gemm", arch="sm_90a", **more)
    stores = {op: n for op, n in counts.items() if op.startswith("STG")}
    assert sum(stores.values()) == 64 + tails, stores
    assert counts["MUFU.EX2"] == 128
    assert counts.get("BSSY", 0) == 0
    assert counts["BRA"] < 8, "loops, and the trap behind the end"


def test_sums_of_a_cluster_are_added_in_a_loop() -> None:
    """Each sender's 128 sums of a thread by the same instructions, 16 bytes at a time."""
    config = Sm90GemmConfig((128, 256, 64), 2, epilogue="direct", split_k=8, reduction="cluster")
    a, b, _, out = random_operands(GemmProblem.packed(256, 256, 2048, ab="bf16", d="bf16"))
    counts = counts_of(a, b, out=out, kernel="sm90_gemm", config=config)
    assert counts["LDS.128"] == 128 // 4
    assert sum(n for op, n in counts.items() if op.startswith("STAS")) == 128 // 4
