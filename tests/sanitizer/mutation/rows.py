"""The kernels whose mutants are tried: a new kernel, or a new kind of config, is one more row.

Problems are as small as a fault allows: ragged, several tiles for each role, and more k tiles than
a ring has stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.cpasync_config import Sm90CpAsyncConfig
from tilewright.library.gemm import PreparedGemm, prepare_gemm, random_operands
from tilewright.library.kernels.simt_gemm import SimtGemmConfig
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.kernels.sm90_long_k_gemm import LongKGemmConfig
from tilewright.library.padded_config import PaddedGemmConfig
from tilewright.library.problem import GemmProblem
from tilewright.runtime.arrays import ArrayView, host_bytes
from tilewright.sim import build
from tilewright.sim.findings import Finding
from tilewright.sim.options import SimOptions

MAX_STEPS = 40_000
"""Of a run: mutants may never end."""
POLLING = 16_000
"""The same of rows whose blocks poll: endless loops take longer there."""


@dataclass(frozen=True)
class Row:
    """A kernel, a config and a problem.

    `schedule` names the protocol: each kind of mutant is tried in each of them.  `call` are more
    words of `prepare_gemm`; a `bias` of True is a random one.  A mutant that has taken `max_steps`
    is a livelock.
    """

    name: str
    kernel: str
    schedule: str
    size: tuple[int, int, int]
    config: Any = None
    ab: str = "bf16"
    d: str = "bf16"
    majors: str = "KKN"
    batch: int = 1
    call: Mapping[str, Any] = field(default_factory=dict)
    max_steps: int = MAX_STEPS

    def prepare(self) -> PreparedGemm:
        m, n, k = self.size
        a_major, b_major, d_major = self.majors
        call = dict(self.call)
        problem = GemmProblem.packed(
            m, n, k, ab=self.ab, d=self.d, a_major=a_major, b_major=b_major, d_major=d_major,
            with_c="beta" in call, batch=self.batch,
        )  # fmt: skip
        a, b, c, out = random_operands(problem)
        if call.get("bias"):
            call["bias"] = np.random.default_rng(2).standard_normal(n).astype(np.float32)
        return prepare_gemm(a, b, c, out=out, kernel=self.kernel, config=self.config, **call)


class Trial:
    """A row, compiled: runs again and again, on the same arrays."""

    def __init__(self, row: Row) -> None:
        self._prepared, self._max_steps = row.prepare(), row.max_steps
        assert self._prepared.compiled is not None, "a problem with elements has a kernel"
        self.funcs = tuple(self._prepared.compiled.module.kernels.values())
        memory = [host_bytes(view)[0] for view in _views(self._prepared.arguments)]
        self._before = [(held, held.copy()) for held in memory]
        """Of every array and the workspace: mutants leave anything behind."""

    def findings(self, seeds: int) -> tuple[Finding, ...]:
        """Those of the first of some seeds that has any, of the kernel as it is now."""
        for held, before in self._before:
            held[...] = before
        self._forget()
        options = SimOptions(
            check_races=True,
            check_global=True,
            runs=seeds,
            raise_on_findings=False,
            max_steps=self._max_steps,
        )
        report = self._prepared.run(options=options)
        self._forget()
        assert report is not None, "the arrays are not on a GPU"
        return report.findings

    def _forget(self) -> None:
        """Kernels have changed: they are looked at anew."""
        for func in self.funcs:
            build._CACHE.pop(id(func), None)


def _views(arguments: Any) -> Iterator[ArrayView]:
    if isinstance(arguments, ArrayView):
        yield arguments
    elif isinstance(arguments, tuple):
        for part in arguments:
            yield from _views(part)


_COOPERATIVE = Sm90GemmConfig((128, 64, 64), 3, store_boxes=1, max_ctas=2)
_PINGPONG = Sm90GemmConfig((64, 64, 64), 3, store_boxes=1, max_ctas=1, schedule="pingpong")
_CROWDED = replace(_COOPERATIVE, num_stages=2, schedule="warp_specialized", blocks_per_sm=3)
_STREAMED = replace(_COOPERATIVE, scheduler="stream_k", max_ctas=3)
_SM80 = Sm80GemmConfig((64, 64, 32), 3)
_RAGGED = (200, 136, 264)
_GELU = {"beta": 0.5, "bias": True, "activation": "gelu"}

ROWS = (
    Row("cooperative", "sm90_gemm", "cooperative", (264, 136, 264), _COOPERATIVE),
    Row("cooperative, two buffers", "sm90_gemm", "cooperative", _RAGGED,
        Sm90GemmConfig((128, 128, 64), 2, store_boxes=1, store_buffers=2, max_ctas=1)),
    Row("cooperative, 256 rows", "sm90_gemm", "cooperative", (264, 72, 200),
        Sm90GemmConfig((256, 64, 64), 2, store_boxes=2, max_ctas=1)),
    Row("cooperative, MN-major, batches", "sm90_gemm", "cooperative", (136, 72, 264),
        _COOPERATIVE, majors="MNM", batch=2),
    Row("cooperative, swapped", "sm90_gemm", "cooperative", _RAGGED,
        replace(_COOPERATIVE, swap_operands=True)),
    Row("cooperative, fused", "sm90_gemm", "cooperative", _RAGGED, _COOPERATIVE, call=_GELU),
    Row("cooperative, direct", "sm90_gemm", "direct", (133, 130, 264),
        replace(_COOPERATIVE, epilogue="direct"), d="f32"),
    Row("cooperative, 88 columns", "sm90_gemm", "cooperative", (264, 104, 200),
        Sm90GemmConfig((128, 88, 64), 3, store_boxes=1, max_ctas=1)),
    Row("cooperative, 152 columns, direct", "sm90_gemm", "direct", (133, 160, 136),
        Sm90GemmConfig((128, 152, 64), 3, max_ctas=1, epilogue="direct")),
    Row("narrow, two blocks", "sm90_gemm", "cooperative", (136, 40, 264),
        Sm90GemmConfig((128, 32, 64), 3, store_boxes=1, max_ctas=2, blocks_per_sm=2)),
    Row("narrow, swapped, fused", "sm90_gemm", "cooperative", (24, 136, 264),
        Sm90GemmConfig((128, 16, 64), 3, store_boxes=1, max_ctas=1, swap_operands=True),
        call=_GELU),
    Row("split K", "sm90_gemm", "split K", (136, 72, 264),
        replace(_COOPERATIVE, split_k=2, max_ctas=3)),
    Row("split K, direct", "sm90_gemm", "split K", (133, 70, 264),
        replace(_COOPERATIVE, split_k=3, max_ctas=2, epilogue="direct")),
    Row("split K, atomics", "sm90_gemm", "atomics", (136, 72, 264),
        replace(_COOPERATIVE, split_k=2, max_ctas=3, reduction="fast")),
    Row("split K, cluster", "sm90_gemm", "cluster", (264, 72, 264),
        replace(_COOPERATIVE, split_k=2, max_ctas=2, reduction="cluster", epilogue="direct")),
    Row("split K, cluster of 3", "sm90_gemm", "cluster", (264, 72, 264),
        replace(_COOPERATIVE, split_k=3, max_ctas=3, reduction="cluster", epilogue="direct")),
    Row("split K, serial", "sm90_gemm", "serial", (136, 72, 264),
        replace(_COOPERATIVE, split_k=3, max_ctas=3, reduction="serial"), max_steps=POLLING),
    Row("split K, serial, ping-pong", "sm90_gemm", "serial", (133, 70, 264),
        replace(_PINGPONG, split_k=2, max_ctas=4, reduction="serial", epilogue="direct"),
        max_steps=POLLING),
    Row("Stream-K", "sm90_gemm", "stream-K", (136, 72, 264), _STREAMED, max_steps=POLLING),
    Row("Stream-K, two waves, ping-pong", "sm90_gemm", "stream-K", (200, 72, 264),
        replace(_PINGPONG, scheduler="stream_k", stream_waves=2, max_ctas=3), max_steps=POLLING),
    Row("Stream-K, atomics", "sm90_gemm", "stream-K, atomics", (136, 72, 264),
        replace(_STREAMED, reduction="fast")),
    Row("Stream-K, two waves, atomics", "sm90_gemm", "stream-K, atomics", (133, 70, 264),
        replace(_STREAMED, reduction="fast", stream_waves=2, epilogue="direct")),
    Row("multicast of B", "sm90_gemm", "multicast", (264, 72, 264),
        replace(_COOPERATIVE, cluster_shape_mn=(2, 1))),
    Row("multicast of A", "sm90_gemm", "multicast", (136, 136, 264),
        replace(_COOPERATIVE, cluster_shape_mn=(1, 2))),
    Row("multicast, ping-pong", "sm90_gemm", "multicast", (200, 136, 200),
        replace(_PINGPONG, cluster_shape_mn=(2, 1), max_ctas=2, epilogue="direct"), d="f32"),
    Row("ping-pong", "sm90_gemm", "ping-pong", _RAGGED, _PINGPONG),
    Row("ping-pong, two buffers", "sm90_gemm", "ping-pong", (200, 264, 200),
        Sm90GemmConfig((128, 128, 64), 2, store_boxes=2, store_buffers=2, max_ctas=1,
                       schedule="pingpong")),
    Row("ping-pong, 88 columns", "sm90_gemm", "ping-pong", (200, 104, 200),
        Sm90GemmConfig((128, 88, 64), 3, store_boxes=1, store_buffers=2, max_ctas=1,
                       schedule="pingpong")),
    Row("ping-pong, MN-major", "sm90_gemm", "ping-pong", _RAGGED, _PINGPONG, majors="MNM"),
    Row("ping-pong, swapped, fused", "sm90_gemm", "ping-pong", _RAGGED,
        replace(_PINGPONG, swap_operands=True), call=_GELU),
    Row("ping-pong, direct", "sm90_gemm", "ping-pong", (133, 130, 200),
        replace(_PINGPONG, epilogue="direct")),
    Row("warp-specialised", "sm90_gemm", "warp-specialised", (136, 72, 264), _CROWDED),
    Row("unspecialised", "sm90_gemm", "unspecialised", (136, 72, 264),
        replace(_CROWDED, schedule="unspecialized")),
    Row("copied first", "sm90_padded_gemm", "copies, then TMA", (265, 30, 201),
        PaddedGemmConfig(replace(_COOPERATIVE, epilogue="direct"), "AB"), max_steps=200_000),
    Row("any alignment", "sm90_cpasync_gemm", "cp.async, wgmma", (136, 72, 264),
        Sm90CpAsyncConfig((128, 64, 64), 4, 2, max_ctas=1)),
    Row("any alignment, odd", "sm90_cpasync_gemm", "cp.async, wgmma", (131, 67, 201),
        Sm90CpAsyncConfig((128, 64, 64), 4, 2, 2, 2, max_ctas=1)),
    Row("any alignment, TMA stores", "sm90_cpasync_gemm", "cp.async, wgmma", (264, 72, 200),
        Sm90CpAsyncConfig((128, 64, 64), 3, 1, epilogue="tma", max_ctas=1)),
    Row("long K", "sm90_long_k_gemm", "long K", (14, 10, 4160),
        LongKGemmConfig(warps=8, cluster=2, clusters=2)),
    Row("sm80", "sm80_gemm", "cp.async", (72, 136, 200)),
    Row("sm80, shallow", "sm80_gemm", "cp.async", (72, 72, 136), Sm80GemmConfig((64, 64, 32), 2)),
    Row("sm80, four stages, fused", "sm80_gemm", "cp.async", (70, 72, 200),
        Sm80GemmConfig((64, 64, 32), 4), call=_GELU),
    Row("sm80, f32, batches", "sm80_gemm", "cp.async", (70, 71, 136), _SM80, d="f32", batch=2),
    Row("simt", "simt_gemm", "simt", (130, 70, 19), ab="f32", d="f32"),
    Row("simt, small tile, fused", "simt_gemm", "simt", (40, 36, 20),
        SimtGemmConfig((64, 64, 16)), ab="f16", d="f16", call=_GELU),
    Row("simt, column-major, batches", "simt_gemm", "simt", (70, 35, 19),
        SimtGemmConfig((64, 64, 8)), ab="f16", d="f32", majors="MNM", batch=2),
)  # fmt: skip
