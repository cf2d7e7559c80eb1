"""The three GEMM kernels against torch.matmul (cuBLAS) on one GPU: verified first, then timed.

    PYTHONPATH=src python3 benchmarks/skeleton_gpu.py [--rounds=N] [--cases=FILTER] [--out=FILE]

Every row is checked on fresh N(0,1) inputs against a float64 reference, then bit for bit on small
integers, then for the same bits in repeated runs, each time into an output full of NaN; only then
is it timed, interleaved with torch in this process.  A row that fails is reported, and the next
one goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import traceback
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import torch

from tilewright.library.gemm import PreparedGemm, prepare_gemm
from tilewright.profiler.device import TorchDevice
from tilewright.profiler.machine import gpu_state, machine_facts
from tilewright.profiler.operations import matches
from tilewright.profiler.run import torch_call, verify_on_device
from tilewright.profiler.timing import Timing, compare, interleave

DEFAULT_OUT = Path(__file__).parent / "results" / "h200_skeleton.json"
PEER = "torch.matmul"
REPEATS = 20
# For the roofline: the H200's data sheet for dense bf16, and what a read of its memory reached.
PEAK_TFLOPS, PEAK_TBYTES = 989.0, 4.46


@dataclass(frozen=True)
class Case:
    """One kernel on one size.  `floor` is the ratio to reach; `rounds` a share of --rounds."""

    kernel: str
    size: int
    floor: float | None = None
    rounds: float = 1.0

    @property
    def name(self) -> str:
        return f"{self.kernel} bf16 TN {self.size}x{self.size}x{self.size}"


CASES = (
    Case("sm90_gemm", 4096, 0.96),
    Case("sm90_gemm", 2048),
    Case("sm90_gemm", 8192),
    Case("sm80_gemm", 4096, 0.50),
    Case("sm80_gemm", 2048),
    Case("sm80_gemm", 8192, rounds=0.5),
    Case("simt_gemm", 2048, rounds=0.2),
    Case("simt_gemm", 4096, rounds=0.1),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, help="each times every kernel twice")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--cases", default="", help="parts of row names: a comma is or, * is and")
    args = parser.parse_args()
    chosen = [case for case in CASES if matches(case.name, args.cases)]
    if not chosen:
        print(f"no case matches --cases={args.cases}; there are:", file=sys.stderr)
        print("\n".join(f"  {case.name}" for case in CASES), file=sys.stderr)
        return 2
    framework = TorchDevice()
    meta = {**machine_facts(), "rounds": args.rounds, "data": "N(0,1)", "l2": "swept by reading"}
    rows: list[dict[str, Any]] = []
    print(HEADER, flush=True)
    for case in chosen:
        rows.append(run_case(case, framework, args.rounds))
        print(line(rows[-1]), flush=True)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"meta": meta, "rows": rows}, indent=1) + "\n")
    bad = [row for row in rows if row["failure"]]
    print(f"{len(rows)} rows, {len(bad)} failed; wrote {args.out}")
    return 1 if bad else 0


def run_case(case: Case, framework: TorchDevice, rounds: int) -> dict[str, Any]:
    """The row of a case; a failure is in the row, not raised."""
    row: dict[str, Any] = {
        "case": case.name,
        "kernel": case.kernel,
        "peer": PEER,
        "size": case.size,
        "floor": case.floor,
        "failure": "",
    }
    try:
        check_then_time(case, framework, max(3, round(rounds * case.rounds)), row)
    except Exception as error:  # one bad row must not cost the others
        row["failure"] = row["failure"] or f"{type(error).__name__}: {error}"
        traceback.print_exc()
    torch.cuda.empty_cache()
    return row


def check_then_time(case: Case, framework: TorchDevice, rounds: int, row: dict[str, Any]) -> None:
    """Fill the row.  Raises: whatever the kernel raises, and RuntimeError for a wrong result."""
    a, b = random_inputs(case.size)
    start = time.perf_counter()
    prepared = prepare(case, a, b)
    row["prepare_s"] = round(time.perf_counter() - start, 3)
    row |= kernel_facts(prepared)
    launch = prepared.bind()
    launch()
    framework.synchronize()
    check = verify_on_device(prepared, framework)
    row |= {"error": check.worst, "relative_error": check.relative}
    if not check.passed:
        raise RuntimeError(check.message)
    row["exact"] = exact_on_integers(case)
    row["repeatable"] = repeatable(prepared, launch)
    if not (row["exact"] and row["repeatable"]):
        raise RuntimeError(f"exact on integers: {row['exact']}, same bits: {row['repeatable']}")
    calls = {"ours": launch, PEER: torch_call(torch, (a, b, None, prepared.out), 1.0, 0.0)}
    timings = interleave(calls, framework, rounds=rounds)
    row |= timing_facts(case, timings["ours"], timings[PEER])
    row["gpu_state"] = gpu_state()


def random_inputs(size: int) -> tuple[Any, Any]:
    """A (M,K) and B (K,N) with K contiguous in both, N(0,1), fresh at each call."""
    a = torch.randn(size, size, device="cuda").bfloat16()
    b = torch.randn(size, size, device="cuda").bfloat16()
    return a, b.T


def prepare(case: Case, a: Any, b: Any) -> PreparedGemm:
    out = torch.full((a.shape[0], b.shape[1]), math.nan, device="cuda", dtype=torch.bfloat16)
    return prepare_gemm(a, b, out=out, kernel=case.kernel, backend="gpu")


def exact_on_integers(case: Case) -> bool:
    """Bit for bit: sums of products of -2..2 are exact in f32, so only the last rounding counts."""
    shape = (case.size, case.size)
    a, b = (torch.randint(-2, 3, shape, device="cuda").bfloat16() for _ in range(2))
    prepared = prepare(case, a, b.T)
    prepared.run()
    # + 0.0 makes a -0 of the reference 0, as a sum that starts at 0 is.
    wanted = (a.double() @ b.T.double() + 0.0).float().bfloat16()
    torch.cuda.synchronize()
    return bool(torch.equal(prepared.out.view(torch.int16), wanted.view(torch.int16)))


def repeatable(prepared: PreparedGemm, launch: Any) -> bool:
    """Whether runs on the same inputs give the same bits: a race would show."""
    first = prepared.out.clone().view(torch.int16)
    for _ in range(REPEATS):
        prepared.out.fill_(math.nan)
        launch()
        if not torch.equal(prepared.out.view(torch.int16), first):
            return False
    return True


def kernel_facts(prepared: PreparedGemm) -> dict[str, Any]:
    """Config, registers and spills of the kernel that was launched."""
    config = prepared.plan.config
    is_record = is_dataclass(config) and not isinstance(config, type)
    facts: dict[str, Any] = {"config": asdict(config) if is_record else str(config)}
    compiled = prepared.compiled
    cubins = [compiled.cubin(name) for name in compiled.module.kernels] if compiled else []
    facts["registers"] = max((max(cubin.registers.values()) for cubin in cubins), default=None)
    facts["spills"] = sum(cubin.spill_stores + cubin.spill_loads for cubin in cubins)
    return facts


def timing_facts(case: Case, ours: Timing, peer: Timing) -> dict[str, Any]:
    ratio = compare(ours, peer)
    flops, moved = 2.0 * case.size**3, 6.0 * case.size**2
    return {
        "ours_us": round(ours.median_us, 2),
        "peer_us": round(peer.median_us, 2),
        "ratio": round(ratio.median, 4),
        "ratio_low": round(ratio.low, 4),
        "ratio_high": round(ratio.high, 4),
        "spread": round(ratio.spread, 4),
        "ours_tflops": round(flops / ours.median_us / 1e6, 1),
        "peer_tflops": round(flops / peer.median_us / 1e6, 1),
        "roofline_us": round(max(flops / PEAK_TFLOPS / 1e6, moved / PEAK_TBYTES / 1e6), 2),
        "floor_reached": None if case.floor is None else ratio.median >= case.floor,
        "rounds_ours_us": [round(us, 2) for us in ours.rounds_us],
        "rounds_peer_us": [round(us, 2) for us in peer.rounds_us],
    }


HEADER = (
    f"{'case':<36}{'ours us':>10}{'peer us':>10}{'TFLOP/s':>9}{'ratio':>8}{'floor':>7}"
    f"{'spread':>8}{'error':>7}{'exact':>6}{'regs':>6}{'spill':>6}"
)


def line(row: dict[str, Any]) -> str:
    """A row of the table, or why there is none."""
    if row["failure"]:
        return f"{row['case']:<36}FAILED: {row['failure'].splitlines()[0]}"
    floor = "-" if row["floor"] is None else f"{row['floor']:.2f}"
    return (
        f"{row['case']:<36}{row['ours_us']:>10.1f}{row['peer_us']:>10.1f}{row['ours_tflops']:>9.1f}"
        f"{row['ratio']:>8.3f}{floor:>7}{row['spread']:>8.1%}{row['error']:>7.2f}"
        f"{'yes' if row['exact'] else 'NO':>6}{row['registers'] or '-':>6}{row['spills']:>6}"
    )


if __name__ == "__main__":
    sys.exit(main())
