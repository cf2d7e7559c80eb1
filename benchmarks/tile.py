"""Tile IR on the CPU: the interpreter's matmul against numpy.matmul and Triton's interpreter.

    PYTHONPATH=src python3 benchmarks/tile.py
    PYTHONPATH=src python3 benchmarks/tile.py --triton=/path/to/python

Every result is verified before it is timed.  Ours and numpy.matmul take turns in one process, a
fresh one for each number of BLAS threads; Triton's interpreter runs on the same tiling in a process
of its own, under the Python given.
Bytecode: 1,000 operations are read, verified and written.  Results go to
`results/tile_cpu.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import numpy as np  # noqa: E402

from tilewright.tileir.bytecode.reader import read_bytecode  # noqa: E402
from tilewright.tileir.bytecode.writer import write_bytecode  # noqa: E402
from tilewright.tileir.check import load_text  # noqa: E402
from tilewright.tileir.interpret.machine import compile_entry  # noqa: E402
from tilewright.tileir.verify import verify  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "tile_cpu.json"
TILES = ((256, 128, 128), (256, 256, 256), (128, 128, 128), (128, 128, 64))
GOALS = {"matmul": 1.5, "triton": 20.0, "bytecode_s": 0.1}

MATMUL = """cuda_tile.module @m {{ entry @matmul(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>) {{
  %i, %j, %z = get_tile_block_id : tile<i32>
  %va = make_tensor_view %a, shape = [{n}, {n}], strides = [{n}, 1] : {tensor}
  %vb = make_tensor_view %b, shape = [{n}, {n}], strides = [{n}, 1] : {tensor}
  %vc = make_tensor_view %c, shape = [{n}, {n}], strides = [{n}, 1] : {tensor}
  %pa = make_partition_view %va : {pa}
  %pb = make_partition_view %vb : {pb}
  %pc = make_partition_view %vc : {pc}
  %zero = constant <f32: 0.0> : {acc}
  %lo = constant <i32: 0> : tile<i32>
  %hi = constant <i32: {steps}> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %sum = for %k in (%lo to %hi, step %one) : tile<i32> iter_values(%acc = %zero) -> ({acc}) {{
    %x, %t = load_view_tko weak %pa[%i, %k] : {pa}, tile<i32> -> tile<{bm}x{bk}xf32>, token
    %y, %u = load_view_tko weak %pb[%k, %j] : {pb}, tile<i32> -> tile<{bk}x{bn}xf32>, token
    %r = mmaf %x, %y, %acc : tile<{bm}x{bk}xf32>, tile<{bk}x{bn}xf32>, {acc}
    continue %r : {acc}
  }}
  %s = store_view_tko weak %sum, %pc[%i, %j] : {acc}, {pc}, tile<i32> -> token
  return
}} }}"""  # noqa: E501


def matmul_text(n: int, bm: int, bn: int, bk: int) -> str:
    """C = A B of n x n matrices in f32, one bm x bn tile of C per block."""
    tensor = f"tensor_view<{n}x{n}xf32, strides=[{n},1]>"
    views = {
        name: f"partition_view<tile=({rows}x{cols}), {tensor}>"
        for name, rows, cols in (("pa", bm, bk), ("pb", bk, bn), ("pc", bm, bn))
    }
    acc = f"tile<{bm}x{bn}xf32>"
    return MATMUL.format(n=n, tensor=tensor, acc=acc, steps=n // bk, bm=bm, bn=bn, bk=bk, **views)


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def time_matmul(n: int, tile: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    """Ours and NumPy's times, taken in turns; the ratio is the median of the rounds' ratios."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    c = np.full((n, n), np.nan, np.float32)
    program = compile_entry(load_text(matmul_text(n, *tile)), "matmul")
    grid = (n // tile[0], n // tile[1], 1)

    def ours() -> None:
        program.run(grid, [a, b, c])

    def numpys() -> None:
        np.matmul(a, b)

    ours()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = 2.0**-24 * n * (np.abs(a).astype(np.float64) @ np.abs(b))
    error = float((np.abs(c - exact) / bound).max())
    if not error <= 1:
        raise SystemExit(f"tile {tile}: error {error} of its bound")
    numpys()
    pairs = []
    for i in range(rounds):
        first = seconds(ours) if i % 2 == 0 else None
        theirs = seconds(numpys)
        pairs.append((first if first is not None else seconds(ours), theirs))
    return {
        "tile": list(tile),
        "error_of_bound": error,
        "ours_ms": round(1e3 * statistics.median(p[0] for p in pairs), 2),
        "numpy_ms": round(1e3 * statistics.median(p[1] for p in pairs), 2),
        "ratio": round(statistics.median(p[0] / p[1] for p in pairs), 3),
        "rounds": [[round(1e3 * s, 3) for s in pair] for pair in pairs],
    }


TRITON = """
import json, os, statistics, sys, time
os.environ["TRITON_INTERPRET"] = "1"
import numpy as np
import torch, triton
import triton.language as tl
N, BM, BN, BK, ROUNDS = map(int, sys.argv[1:])

@triton.jit
def matmul(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, n, BK):
        x = tl.load(a + rows[:, None] * n + (k + depth)[None, :])
        y = tl.load(b + (k + depth)[:, None] * n + cols[None, :])
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.store(c + rows[:, None] * n + cols[None, :], acc)

rng = np.random.default_rng(1)
a, b = (torch.from_numpy(rng.standard_normal((N, N)).astype(np.float32)) for _ in range(2))
c = torch.full((N, N), float("nan"))
times = []
for _ in range(ROUNDS + 1):
    start = time.perf_counter()
    matmul[(N // BM, N // BN)](a, b, c, N, BM, BN, BK)
    times.append(time.perf_counter() - start)
error = float((c.double() - a.double() @ b.double()).abs().max())
print(json.dumps({"ms": 1e3 * statistics.median(times[1:]), "error": error, "version": triton.__version__}))
"""  # noqa: E501


def time_triton(
    python: str, n: int, tile: tuple[int, int, int], rounds: int, threads: int
) -> dict[str, Any]:
    """Triton's interpreter on the same problem and tiling."""
    words = [python, "-c", "import runpy, sys; runpy.run_path(sys.argv.pop(1))"]
    script = RESULTS.with_name("_triton_matmul.py")
    script.write_text(TRITON)
    try:
        done = subprocess.run(
            [*words, str(script), *map(str, (n, *tile, rounds))],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "OMP_NUM_THREADS": str(threads),
                "OPENBLAS_NUM_THREADS": str(threads),
            },
        )
    finally:
        script.unlink()
    if done.returncode != 0:
        raise SystemExit(f"Triton's interpreter failed:\n{done.stderr[-2000:]}")
    return {"tile": list(tile), **json.loads(done.stdout.splitlines()[-1])}


def bytecode_module(count: int) -> str:
    """A module of `count` operations of ordinary kinds."""
    kinds = (
        "%{r} = addf %{a}, %x : tile<64xf32>",
        "%{r} = mulf %{a}, %x rounding<zero> : tile<64xf32>",
        "%{r} = exp %{a} : tile<64xf32>",
        "%{r} = maxf %{a}, %x propagate_nan : tile<64xf32>",
        "%{r} = fma %{a}, %x, %x : tile<64xf32>",
    )
    lines, last = [], "x"
    for i in range(count - 2):
        lines.append(kinds[i % len(kinds)].format(r=f"v{i}", a=last))
        last = f"v{i}"
    body = "\n".join(lines)
    return (
        "cuda_tile.module @m { entry @k() {\n%x = constant <f32: 1.0> : tile<64xf32>\n"
        f"{body}\nreturn\n}} }}"
    )


def time_bytecode(rounds: int) -> dict[str, Any]:
    """Reading, verifying and writing 1,000 operations."""
    data = write_bytecode(load_text(bytecode_module(1000)))
    steps: dict[str, list[float]] = {"read": [], "verify": [], "write": []}
    for _ in range(rounds):
        start = time.perf_counter()
        block = read_bytecode(data)
        read = time.perf_counter()
        verify(block)
        verified = time.perf_counter()
        again = write_bytecode(block)
        written = time.perf_counter()
        if again != data:
            raise SystemExit("the bytecode did not come back as it was")
        for step, spent in zip(
            steps, (read - start, verified - read, written - verified), strict=True
        ):
            steps[step].append(spent)
    totals = [sum(spent) for spent in zip(*steps.values(), strict=True)]
    return {
        "operations": 1000,
        "bytes": len(data),
        "total_s": round(statistics.median(totals), 5),
        **{f"{step}_s": round(statistics.median(s), 5) for step, s in steps.items()},
    }


def meta() -> dict[str, Any]:
    cpu = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(": ")[2] if names else cpu
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load_average": [round(x, 2) for x in os.getloadavg()],
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def with_threads(threads: int, size: int, rounds: int) -> list[dict[str, Any]]:
    """The matmul rows, measured in a fresh process whose BLAS has this many threads."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    words = [sys.executable, __file__, "--child", f"--size={size}", f"--rounds={rounds}"]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **dict.fromkeys(names, str(threads))},
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    load = [round(x, 2) for x in os.getloadavg()]
    return [{"threads": threads, "load_average_after": load, **row} for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="of BLAS, one run each")
    parser.add_argument("--triton", metavar="PYTHON", help="a Python that has triton and torch")
    parser.add_argument("--save", type=Path, default=RESULTS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps([time_matmul(args.size, tile, args.rounds) for tile in TILES]))
        return 0
    result: dict[str, Any] = {"meta": meta(), "goals": GOALS, "size": args.size, "matmul": []}
    for threads in dict.fromkeys(map(int, args.threads.split(","))):
        rows = with_threads(threads, args.size, args.rounds)
        result["matmul"] += rows
        for row in rows:
            print(
                f"matmul {args.size}^3, BLAS threads {threads}, tile {row['tile']}: ours "
                f"{row['ours_ms']} ms, numpy {row['numpy_ms']} ms, ratio {row['ratio']} "
                f"(goal at most {GOALS['matmul']})"
            )
    result["bytecode"] = time_bytecode(args.rounds)
    print(
        f"1,000 operations read, verified, written in {result['bytecode']['total_s']} s (goal "
        f"below {GOALS['bytecode_s']})"
    )
    if args.triton:
        result["triton"] = []
        for row in result["matmul"][: len(TILES)]:
            peer = time_triton(args.triton, args.size, tuple(row["tile"]), 1, row["threads"])
            peer["times_ours"] = round(peer["ms"] / row["ours_ms"], 1)
            result["triton"].append(peer)
            print(
                f"Triton's interpreter, tile {peer['tile']}: {peer['ms']:.0f} ms, "
                f"{peer['times_ours']} times ours (goal at least {GOALS['triton']})"
            )
    args.save.parent.mkdir(exist_ok=True)
    args.save.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
