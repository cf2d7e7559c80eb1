"""The GEMM against cuBLAS (through torch) on one GPU: verified first, then timed interleaved.

    PYTHONPATH=src python3 benchmarks/gemm.py [--rounds=N] [--cases=FILTER] [--sweep=N] [--out=FILE]

Each row's result is compared with a float64 reference, every element, on fresh N(0,1) inputs and
into an output full of NaN; its output is then the same, bit for bit, in repeated runs; only then
it is timed, in turns with torch in this process.  `ratio` is that of slices of launches behind each
other (`slices.py`); `alone` is that of single launches, the L2 swept before each of them, which
also pays for starting on an idle GPU.  A row that fails is reported, and the next one goes on.
`--sweep=N` times the N best configs of the cost model as well; with `--picks` the fastest become
the table that ships with the package, where they beat the model's own pick by more than a percent.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import slices
import torch

from tilewright.arch.target import target
from tilewright.library import heuristics, measured
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.gemm import PreparedGemm, prepare_gemm
from tilewright.profiler.device import TorchDevice
from tilewright.profiler.machine import gpu_state, machine_facts
from tilewright.profiler.operations import matches
from tilewright.profiler.timing import Timing, compare, interleave

HAS_TRITON = importlib.util.find_spec("triton") is not None
triton_matmul: Any = importlib.import_module("triton_matmul") if HAS_TRITON else None
"""The rival on few rows, where Triton is installed; this folder is on the path of a script."""
TIMING = "slices of launches over operands of more than twice the L2; alone: L2 swept by reading"
DEFAULT_OUT = Path(__file__).parent / "results" / "h200_gemm.json"
REPEATS = 10
SUSTAINED_WARMUP = 40
"""Slices that a sustained row runs before it is timed, to get to the power limit."""
ALONE_US = 60
"""Rows that take less are also timed launch by launch."""


@dataclass(frozen=True)
class Case:
    """A problem with the ratio to reach (`floor`) and the one to aim at (`goal`).

    `kind` is "plain", "gelu" (bias and GELU by tanh, fused), "sustained" (launches back to back),
    or one of `NAMED`: that config instead of the library's choice.
    """

    m: int
    n: int
    k: int
    floor: float
    goal: float
    dtype: str = "bf16"
    batch: int = 1
    a_major: str = "K"
    b_major: str = "K"
    kind: str = "plain"

    @property
    def is_narrow(self) -> bool:
        """Whether Triton is a rival too: few rows."""
        return self.m <= 64 < self.n and self.batch == 1

    @property
    def set_bytes(self) -> int:
        """Bytes of one set of operands: A, B and D."""
        return 2 * self.batch * (self.m * self.k + self.n * self.k + self.m * self.n)

    @property
    def name(self) -> str:
        batch = f"{self.batch}x" if self.batch > 1 else ""
        kind = f" {self.kind}" if self.kind != "plain" else ""
        size = f"{batch}{self.m}x{self.n}x{self.k}"
        return f"{self.dtype} A:{self.a_major} B:{self.b_major} {size}{kind}"


SIX = (
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16384, 4096, 4096),
    (4096, 14336, 4096),
    (4096, 4096, 14336),
)
WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096))
CASES: tuple[Case, ...] = (
    *(
        Case(*size, 0.99, 1.06 if size == (8192,) * 3 else 1.03, a_major=a, b_major=b)
        for a, b in (("K", "K"), ("K", "N"), ("M", "K"), ("M", "N"))
        for size in SIX
    ),
    *(Case(*size, 0.99, 1.03, "f16") for size in SIX),
    Case(8192, 8192, 8192, 1.01, 1.05, kind="sustained"),
    Case(8192, 8192, 256, 1.03, 1.03),
    Case(8192, 8192, 512, 1.10, 1.18),
    Case(8192, 8192, 1024, 1.03, 1.03),
    Case(1024, 1024, 1024, 0.98, 1.05),
    Case(512, 512, 512, 0.98, 1.05, batch=64),
    Case(2048, 2048, 128, 0.98, 1.05, batch=16),
    Case(128, 128, 128, 0.98, 1.05, batch=256),
    Case(3000, 5000, 4096, 1.00, 1.08),
    Case(4224, 4352, 4096, 1.00, 1.08),
    Case(1000, 1000, 1000, 1.00, 1.08),
    *(Case(m, n, k, 1.02, 1.15) for m in (16, 32, 64) for n, k in WEIGHTS),
    Case(16, 16, 32768, 1.3, 2.0),
    Case(4096, 4096, 4096, 0.99, 1.04, kind="gelu"),
    Case(8192, 8192, 8192, 0.99, 1.04, kind="gelu"),
    Case(4096, 14336, 4096, 0.99, 1.04, kind="gelu"),
    # Without TMA: rows at multiples of 2, 4 or 8 bytes.  Reported, with no ratio to reach.
    *(
        Case(*size, 0.0, 0.0, b_major=b)
        for size in ((1000, 1000, 1001), (4095, 4097, 4099), (4096, 4096, 4098), (4096, 4096, 4100))
        for b in ("K", "N")
    ),
    Case(4094, 4098, 4098, 0.0, 0.0, a_major="M", b_major="N"),
    Case(4095, 4097, 4099, 0.0, 0.0, a_major="M", b_major="N"),
    # What the library does not choose, and why.
    *(
        Case(*size, 0.0, 0.0, kind=kind)
        for size in ((2048, 2048, 2048), (3000, 5000, 4096))
        for kind in ("whole tiles", "stream-k")
    ),
    *(Case(1000, 1000, 1000, 0.0, 0.0, kind=kind) for kind in ("no cluster", "cluster")),
    *(
        Case(*size, 0.0, 0.0, kind=kind)
        for size in ((2048, 2048, 2048), (8192, 8192, 512))
        for kind in ("warp-specialised", "unspecialised")
    ),
)
_FLAT = Sm90GemmConfig((64, 128, 64), 8, 8, store_boxes=1, schedule="pingpong")
_ONE_TILE = Sm90GemmConfig((128, 128, 64), 3, schedule="warp_specialized", blocks_per_sm=2)
NAMED = {
    "whole tiles": Sm90GemmConfig(),
    "stream-k": Sm90GemmConfig(scheduler="stream_k"),
    "no cluster": _FLAT,
    "cluster": replace(_FLAT, cluster_shape_mn=(2, 1)),
    "warp-specialised": _ONE_TILE,
    "unspecialised": replace(_ONE_TILE, schedule="unspecialized"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=24, help="each times every call twice")
    parser.add_argument("--sweep", type=int, default=0, help="configs to time, by the model's rank")
    parser.add_argument("--picks", type=Path, help="write the fastest configs to this file")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--cases", default="", help="parts of row names: a comma is or, * is and")
    args = parser.parse_args()
    chosen = [case for case in CASES if matches(case.name, args.cases)]
    if not chosen:
        print(f"no case matches --cases={args.cases}; there are:", file=sys.stderr)
        print("\n".join(f"  {case.name}" for case in CASES), file=sys.stderr)
        return 2
    meta = {**machine_facts(), "rounds": args.rounds, "data": "N(0,1)", "timing": TIMING}
    rows: list[dict[str, Any]] = []
    print(HEADER, flush=True)
    for case in chosen:
        rows.append(run_case(case, args.rounds, args.sweep))
        print(line(rows[-1]), flush=True)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"meta": meta, "rows": rows}, indent=1) + "\n")
    if args.picks:
        args.picks.write_text(json.dumps({"meta": meta, "picks": picks(rows)}, indent=1) + "\n")
    bad = [row for row in rows if row["failure"]]
    below = [row for row in rows if not row["failure"] and row["ratio"] < row["floor"]]
    print(f"{len(rows)} rows, {len(bad)} failed, {len(below)} below their floor; wrote {args.out}")
    return 1 if bad else 0


def picks(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Problem -> the fields of its fastest config, where that is not what the model takes.

    Problems that were not timed keep what the table has.
    """
    found: dict[str, dict[str, Any]] = {}
    if measured.TABLE.exists():
        found = json.loads(measured.TABLE.read_text())["picks"]
    for row in rows:
        tried = [] if row["failure"] else row.get("sweep", [])
        if tried and row["case"].startswith("bf16") and row["kind"] in ("plain", "gelu"):
            best = max(tried, key=lambda entry: entry["ratio"])
            model = next(e["ratio"] for e in tried if e["model"])
            found.pop(row["key"], None)
            if best["ratio"] > 1.01 * model:
                found[row["key"]] = best["fields"]
    return found


def run_case(case: Case, rounds: int, sweep: int) -> dict[str, Any]:
    """The row of a case; a failure is in the row, not raised."""
    row: dict[str, Any] = {"case": case.name, "kind": case.kind, "failure": ""}
    row |= {"floor": case.floor, "goal": case.goal}
    try:
        check_then_time(case, rounds, sweep, row)
    except Exception as error:  # one bad row must not cost the others
        row["failure"] = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    torch.cuda.empty_cache()
    return row


def check_then_time(case: Case, rounds: int, sweep: int, row: dict[str, Any]) -> None:
    """Fill the row.  Raises: whatever the kernel raises, and RuntimeError for a wrong result."""
    sets = slices.copies(inputs(case), slices.set_count(case.set_bytes))
    reference, size = expected(*sets[0])
    start = time.perf_counter()
    prepared = prepare(case, *sets[0], None)
    launch = prepared.bind()
    row |= {"config": str(prepared.plan.config), "kernel": prepared.plan.kernel}
    row |= {"prepare_s": round(time.perf_counter() - start, 3)}
    row["key"] = measured.key(prepared.plan.problem)
    row["config_record"] = asdict(prepared.plan.config)
    row["workspace_bytes"] = prepared.workspace_bytes
    row["error"] = verified(case, prepared, launch, reference, size)
    stream = torch.cuda.Stream()
    launches = slices.launch_count(len(sets), time_of(launch))
    calls = {"ours": ours_slice(case, sets, None, launches, stream)}
    row["peer"], calls["peer"], rival = best_peer(case, sets, launches, stream)
    for number, config in enumerate(others(prepared, sweep)):
        other = prepare(case, *sets[0], config)
        verified(case, other, other.bind(), reference, size)
        calls[str(number)] = ours_slice(case, sets, config, launches, stream)
        row.setdefault("sweep", []).append(
            {"config": str(config), "fields": measured.as_entry(config), "model": number == 0}
        )
    del reference, size
    warmup = SUSTAINED_WARMUP if case.kind == "sustained" else 3
    timings = interleave(calls, slices.Unswept(), rounds=rounds, warmup=warmup)
    row |= {"operand_sets": len(sets), "launches": launches}
    row |= timing_facts(case, timings["ours"], timings["peer"], launches)
    for number, entry in enumerate(row.get("sweep", ())):
        entry["ratio"] = round(compare(timings[str(number)], timings["peer"]).median, 4)
    if row["ours_us"] < ALONE_US:
        alone = interleave({"ours": launch, "peer": rival}, TorchDevice(), rounds=rounds)
        row["alone_us"] = round(alone["ours"].median_us, 2)
        row["alone_peer_us"] = round(alone["peer"].median_us, 2)
        row["alone"] = round(compare(alone["ours"], alone["peer"]).median, 4)
    row["gpu_state"] = gpu_state()


def time_of(call: Callable[[], object]) -> float:
    """Microseconds of a call, roughly."""
    return interleave({"": call}, slices.Unswept(), rounds=3)[""].median_us


def ours_slice(
    case: Case, sets: Sequence[Any], config: Any, launches: int, stream: Any
) -> Callable[[], None]:
    """A slice of our launches, each set with an output of its own."""
    prepared = [prepare(case, *operands, config) for operands in sets]
    bound = [p.bind(stream.cuda_stream) for p in prepared]
    replay = slices.graph(bound, launches, stream)
    return lambda _keep=prepared: replay()  # the graph has addresses only


def others(prepared: PreparedGemm, count: int) -> list[Any]:
    """The `count` configs that the model likes best, its own pick first, and the measured one.

    None without TMA.
    """
    if prepared.plan.kernel != "sm90_gemm" or not count:
        return []
    ranked = heuristics.rank(prepared.plan.problem, target("sm_90a"))
    return [p.config for p in sorted(ranked[: count + 1], key=lambda p: p.clocks)]


def inputs(case: Case) -> tuple[Any, Any, Any]:
    """A (M,K), B (K,N) and perhaps a bias, N(0,1), in the case's layouts, with batches in front."""
    element = torch.bfloat16 if case.dtype == "bf16" else torch.float16
    batch = (case.batch,) if case.batch > 1 else ()

    def draw(rows: int, columns: int, k_major: bool) -> Any:
        shape = (*batch, rows, columns) if k_major else (*batch, columns, rows)
        data = torch.randn(*shape, device="cuda").to(element)
        return data if k_major else data.transpose(-1, -2)

    a = draw(case.m, case.k, case.a_major == "K")
    b = draw(case.n, case.k, case.b_major == "K").transpose(-1, -2)
    bias = torch.randn(case.n, device="cuda").to(element) if case.kind == "gelu" else None
    return a, b, bias


def prepare(case: Case, a: Any, b: Any, bias: Any, config: Any) -> PreparedGemm:
    shape = (case.batch, case.m, case.n) if case.batch > 1 else (case.m, case.n)
    out = torch.full(shape, math.nan, device="cuda", dtype=a.dtype)
    activation = "gelu_tanh" if case.kind == "gelu" else ""
    config = config or NAMED.get(case.kind)
    kernel = "sm90_gemm" if config is not None else ""
    return prepare_gemm(
        a, b, bias=bias, activation=activation, out=out, kernel=kernel, config=config
    )


def expected(a: Any, b: Any, bias: Any) -> tuple[Any, Any]:
    """The result in float64, and the sum of the magnitudes."""
    a64, b64 = a.double(), b.double()
    reference = a64 @ b64
    size = a64.abs_() @ b64.abs_()
    if bias is not None:
        reference += bias.double()
        size += bias.double().abs()
        reference = torch.nn.functional.gelu(reference, approximate="tanh")
        size *= 2
    return reference, size


def verified(
    case: Case, prepared: PreparedGemm, launch: Callable[[], object], reference: Any, size: Any
) -> float:
    """Runs and compares every element; the worst error as a part of the library's own bound.

    Raises: RuntimeError for a wrong element, or bits that differ from run to run.
    """
    row = prepared.plan.problem.d.dtype
    out = prepared.out
    launch()
    half_ulp = float(row.epsilon) / 2
    bound = (case.k + 4) * 2.0**-23 * size + half_ulp * 1.01 * reference.abs()
    bound += float(row.smallest_normal) * half_ulp
    ratio = (out.double() - reference).abs_() / bound
    worst = float(torch.where(torch.isfinite(ratio), ratio, math.inf).max())
    if worst > 1:
        raise RuntimeError(f"WRONG: {prepared.plan.config}: an element is at {worst:.3g} bounds")
    first = out.clone().view(torch.int16)
    for _ in range(REPEATS):
        out.fill_(math.nan)
        launch()
        if not torch.equal(out.view(torch.int16), first):
            raise RuntimeError(f"{prepared.plan.config}: runs differ in their bits")
    return round(worst, 3)


def peer(case: Case, a: Any, b: Any, bias: Any) -> tuple[str, Callable[[], object]]:
    """cuBLAS through torch, and its name; the fused epilogue is cuBLASLt's."""
    if case.kind == "gelu":
        fused = torch._addmm_activation
        return "cublasLt gelu", lambda: fused(bias, a, b, use_gelu=True)
    out = torch.empty((*a.shape[:-1], case.n), device="cuda", dtype=a.dtype)
    return "torch.matmul", lambda: torch.matmul(a, b, out=out)


def best_peer(
    case: Case, sets: Sequence[Any], launches: int, stream: Any
) -> tuple[str, Callable[[], None], Callable[[], object]]:
    """cuBLAS, or the fastest of its rivals where there are any: name, slice, single launch."""
    rivals: dict[str, list[Callable[[], object]]] = {}
    for operands in sets:
        name, call = peer(case, *operands)
        rivals.setdefault(name, []).append(call)
        if case.is_narrow and triton_matmul is not None:
            for name, call in triton_matmul.candidates(*operands[:2]):
                rivals.setdefault(name, []).append(call)
    replays = {name: slices.graph(calls, launches, stream) for name, calls in rivals.items()}
    best = next(iter(rivals))
    if len(rivals) > 1:
        timings = interleave(replays, slices.Unswept(), rounds=8, warmup=2)
        best = min(rivals, key=lambda name: timings[name].median_us)
    kept = rivals[best]
    return best, lambda _keep=kept: replays[best](), kept[0]


def timing_facts(case: Case, ours: Timing, theirs: Timing, launches: int) -> dict[str, Any]:
    ratio = compare(ours, theirs)
    flops = 2.0 * case.batch * case.m * case.n * case.k * launches
    return {
        "ours_us": round(ours.median_us / launches, 2),
        "peer_us": round(theirs.median_us / launches, 2),
        "ratio": round(ratio.median, 4),
        "ratio_low": round(ratio.low, 4),
        "ratio_high": round(ratio.high, 4),
        "spread": round(ratio.spread, 4),
        "ours_tflops": round(flops / ours.median_us / 1e6, 1),
        "floor_reached": ratio.median >= case.floor,
    }


HEADER = (
    f"{'case':<38}{'ours us':>9}{'peer us':>9}{'TFLOP/s':>9}{'ratio':>7}{'floor':>6}{'goal':>6}"
    f"{'spread':>8}{'alone':>7}{'error':>6}  config"
)


def line(row: dict[str, Any]) -> str:
    """A row of the table, or why there is none."""
    if row["failure"]:
        return f"{row['case']:<38}FAILED: {row['failure'].splitlines()[0]}"
    text = (
        f"{row['case']:<38}{row['ours_us']:>9.1f}{row['peer_us']:>9.1f}{row['ours_tflops']:>9.1f}"
        f"{row['ratio']:>7.3f}{row['floor']:>6.2f}{row['goal']:>6.2f}{row['spread']:>8.1%}"
        f"{row.get('alone', math.nan):>7.3f}{row['error']:>6.2f}  {row['config']}"
    )
    tried = sorted(row.get("sweep", ()), key=lambda entry: -entry["ratio"])
    return "\n".join([text, *(f"{e['ratio']:>72.3f}  {e['config']}" for e in tried)])


if __name__ == "__main__":
    sys.exit(main())
