"""The course examples/gemm_v0 .. v6 against torch.matmul on one GPU: what each step buys.

    PYTHONPATH=src python3 benchmarks/course.py [--rounds=N] [--out=FILE]
    PYTHONPATH=src python3 benchmarks/course.py --table

Each version is verified on fresh N(0,1) inputs (bf16, both operands K-major), every element, into
an output full of NaN; then it is timed in turns with torch in this process.  `--table` times
nothing: it writes what was stored into the table of `examples/README.md`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright import cute
from tilewright.profiler.device import TorchDevice
from tilewright.profiler.machine import gpu_state, machine_facts
from tilewright.profiler.timing import compare, interleave

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "benchmarks" / "results" / "h200_course.json"
PAGE = ROOT / "examples" / "README.md"
TABLE = re.compile(r"(<!-- course -->\n).*(<!-- /course -->)", re.DOTALL)
SIZES = ((4096, 4096, 4096), (8192, 8192, 512))
SLOW = ("gemm_v0_naive", "gemm_v1_shared_memory")
"""These take fewer rounds: each call is long."""


def versions() -> list[str]:
    return sorted(path.stem for path in (ROOT / "examples").glob("gemm_v*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=24, help="each times every call twice")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--table", action="store_true", help="write the table, time nothing")
    args = parser.parse_args()
    if args.table:
        PAGE.write_text(TABLE.sub(lambda m: m[1] + table(args.out) + m[2], PAGE.read_text()))
        return 0
    sys.path.insert(0, str(ROOT / "examples"))
    torch, framework = importlib.import_module("torch"), TorchDevice()
    rows = []
    for name in versions():
        for size in SIZES:
            rows.append(timed(torch, framework, name, size, args.rounds))
            print(json.dumps(rows[-1]), flush=True)
    meta = {**machine_facts(), "rounds": args.rounds, "data": "N(0,1)", "l2": "swept by reading"}
    args.out.write_text(json.dumps({"meta": meta, "rows": rows}, indent=1) + "\n")
    return 0


def timed(
    torch: Any, framework: TorchDevice, name: str, size: tuple[int, int, int], rounds: int
) -> dict[str, Any]:
    """One version on one size: verified, then timed."""
    m, n, k = size
    a, b = (torch.randn(x, k, device="cuda").to(torch.bfloat16) for x in (m, n))
    d = torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16)
    peer_out = torch.empty_like(d)
    compiled = cute.compile(importlib.import_module(name).gemm, a, b, d)
    ours: Callable[[], None] = compiled.bind(a, b, d)
    ours()
    error = verified(a, b, d)
    calls: dict[str, Callable[[], object]] = {
        "ours": ours,
        "peer": lambda: torch.matmul(a, b.t(), out=peer_out),
    }
    few = name in SLOW
    timings = interleave(
        calls, framework, rounds=max(rounds // 6, 3) if few else rounds, warmup=1 if few else 3
    )
    ratio = compare(timings["ours"], timings["peer"])
    return {
        "case": f"{name} bf16 {m}x{n}x{k}",
        "version": name,
        "size": list(size),
        "peer": "torch.matmul",
        "ours_us": round(timings["ours"].median_us, 2),
        "peer_us": round(timings["peer"].median_us, 2),
        "ours_tflops": round(2e-6 * m * n * k / timings["ours"].median_us, 1),
        "ratio": round(ratio.median, 4),
        "spread": round(ratio.spread, 4),
        "error": error,
        "gpu_state": gpu_state(),
    }


def verified(a: Any, b: Any, d: Any) -> float:
    """The worst error over its bound: f32 sums of K products, rounded once to bf16."""
    a64, b64 = a.double(), b.double()
    reference = a64 @ b64.t()
    size = a64.abs_() @ b64.abs_().t()
    bound = (a.shape[1] + 4) * 2.0**-23 * size + 2.0**-8 * 1.01 * reference.abs()
    worst = float(((d.double() - reference).abs_() / bound).nan_to_num_(math.inf).max())
    if worst > 1:
        raise RuntimeError(f"WRONG: an element is at {worst:.3g} bounds")
    return round(worst, 3)


def table(path: Path) -> str:
    """The stored rows as Markdown: one line for each version, and what it gained."""
    rows = {(r["version"], tuple(r["size"])): r for r in json.loads(path.read_text())["rows"]}
    head = " | ".join(f"{m}x{n}x{k}: us | x cuBLAS" for m, n, k in SIZES)
    lines = [f"| version | {head} | step |", "|---|" + "---|" * (2 * len(SIZES) + 1)]
    before: float | None = None
    for name in versions():
        found = [rows[name, size] for size in SIZES]
        cells = " | ".join(f"{r['ours_us']:,.0f} | {r['ratio']:.3f}" for r in found)
        gained = f"{before / found[0]['ours_us']:.2f}x" if before else ""
        before = found[0]["ours_us"]
        lines.append(f"| [`{name}`]({name}.py) | {cells} | {gained} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
