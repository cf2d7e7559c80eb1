"""What the host pays for a launch: a repeated run against an empty kernel, in one process.

    PYTHONPATH=src python3 benchmarks/launch.py [--rounds=N] [--out=FILE]

Needs a GPU and torch.  The result is verified first.  Then the calls take turns, the first of them
changing from round to round; each turn is a batch of calls that the launch queue holds without
waiting, timed on the host, and the GPU is idle before the next one.  `above_us` is the time beyond
that of an empty cuLaunchKernelEx whose parameters were packed before; `limit_us` is what it may be.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import tilewright as tw
from tilewright import device
from tilewright.library.gemm import prepare_gemm
from tilewright.profiler.machine import gpu_state, machine_facts
from tilewright.profiler.timing import host_times, spread
from tilewright.runtime import cuda_api, driver
from tilewright.runtime.launch import KernelParams, current_stream
from tilewright.runtime.toolchain import compile_cubin

DEFAULT_OUT = Path(__file__).parent / "results" / "h200_launch.json"
SHAPE = (256, 128, 64)
"""Small: what is timed is the host, and the GPU keeps up with it."""
BATCH = 200
SETS = 4
"""Sets of operands that updates go through."""
EMPTY = "empty cuLaunchKernelEx"
LIMITS = {"handle.run()": 3.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50, help="batches of each call")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    calls = {EMPTY: empty_launch(), **gemm_calls([operands() for _ in range(SETS)])}
    times = host_times(calls, driver.synchronize, rounds=args.rounds, batch=BATCH)
    rows = table(times)
    meta = {
        **machine_facts(),
        "rounds": args.rounds,
        "batch": BATCH,
        "problem": "x".join(map(str, SHAPE)) + " bf16 TN",
        "gpu_state": gpu_state(),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"meta": meta, "rows": rows}, indent=1) + "\n")
    print(f"{'call':<32} {'host us':>8} {'above':>8} {'limit':>6} {'spread':>7}")
    for row in rows:
        limit = "" if row["limit_us"] is None else f"{row['limit_us']:.1f}"
        print(
            f"{row['case']:<32} {row['host_us']:8.2f} {row['above_us']:8.2f} {limit:>6} "
            f"{row['spread']:7.1%}"
        )
    bad = [r["case"] for r in rows if r["limit_us"] is not None and r["above_us"] > r["limit_us"]]
    print(f"wrote {args.out}" + (f"; over the limit: {', '.join(bad)}" if bad else ""))
    return 1 if bad else 0


def empty_launch() -> Callable[[], Any]:
    """A launch of a kernel that does nothing, straight through the driver's bindings."""
    source = 'extern "C" __global__ void nothing(float* x, int n) {}'
    cubin = compile_cubin(source, "nothing", driver.device_info().target).cubin
    function = driver.load_function(cubin, "nothing")
    params = KernelParams(("ptr", "i32"), ("x", "n"))
    params.fill((0, 0))
    api = cuda_api.driver
    config = api.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1
    config.hStream = api.CUstream(current_stream())
    launch = functools.partial(api.cuLaunchKernelEx, config, function.handle, params.address, 0)
    launch.kept = params  # type: ignore[attr-defined]
    return launch


def operands() -> tuple[Any, Any, Any]:
    """A (M,K), B (K,N) with K contiguous, and an output full of NaN."""
    m, n, k = SHAPE
    a = torch.randn(m, k, device="cuda").bfloat16()
    b = torch.randn(n, k, device="cuda").bfloat16()
    return a, b.T, torch.full((m, n), math.nan, device="cuda", dtype=torch.bfloat16)


def handle() -> device.GemmUniversalAdapter:
    """A cooperative kernel, its stages counted beside its epilogue."""
    row, column = (device.TensorDescription("bf16", x) for x in ("RowMajor", "ColumnMajor"))
    builder = device.CollectiveBuilder("sm_90a", "TensorOp", (128, 128, 64))
    epilogue = builder.epilogue(row)
    stages = device.StageCountAutoCarveoutEpi(epilogue)
    mainloop = builder.mainloop(row, column, stages=stages)
    return device.GemmUniversalAdapter(device.GemmUniversal(mainloop, epilogue))


def gemm_calls(sets: list[tuple[Any, Any, Any]]) -> dict[str, Callable[[], Any]]:
    """The ways to run the same product again.  Raises: RuntimeError for a wrong result."""
    once, moving = handle(), handle()
    arguments = [once.Arguments(SHAPE, a, b, None, d) for a, b, d in sets]
    once.initialize(arguments[0])
    moving.initialize(arguments[0])
    a, b, d = sets[0]
    bound = prepare_gemm(a, b, out=d).bind()
    turn = iter(())

    def update_and_run() -> None:
        nonlocal turn
        x = next(turn, None)
        if x is None:
            turn = iter(arguments)
            x = next(turn)
        moving.update(x)
        moving.run()

    calls: dict[str, Callable[[], Any]] = {
        "handle.run()": once.run,
        "handle.update() + run()": update_and_run,
        "handle.initialize() + run()": lambda: once(arguments[0]),
        "prepare_gemm(...).bind()": bound,
        "tilewright.gemm(a, b, out=d)": lambda: tw.gemm(a, b, out=d),
    }
    for name, call in calls.items():
        for x in arguments if "update" in name else arguments[:1]:
            call()
            verify(name, x)
    calls["torch.matmul(a, b, out=d)"] = lambda: torch.matmul(a, b, out=d)
    return calls


def verify(name: str, x: Any) -> None:
    """Every element, then the output is full of NaN again."""
    driver.synchronize()
    wanted = x.a.double() @ x.b.double()
    error = (x.d.double() - wanted).abs().max().item()
    if not error <= 2.0**-8 * max(wanted.abs().max().item(), 1.0):
        raise RuntimeError(f"{name}: wrong result, largest error {error}")
    x.d.fill_(math.nan)


def table(times: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    """A row for each call; what it takes beyond the empty launch is the median over the rounds."""
    empty = times[EMPTY]
    return [
        {
            "case": name,
            "peer": EMPTY,
            "host_us": round(statistics.median(us), 3),
            "above_us": round(statistics.median(x - y for x, y in zip(us, empty, strict=True)), 3),
            "limit_us": LIMITS.get(name),
            "spread": round(spread(us), 4),
            "rounds_us": [round(x, 3) for x in us],
        }
        for name, us in times.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
