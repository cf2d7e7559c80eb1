"""Tile kernels on the GPU: every sample of `examples/tile` against the interpreter, and launches.

    PYTHONPATH=src python3 benchmarks/tile_gpu.py
    PYTHONPATH=src python3 benchmarks/tile_gpu.py --prepare=DIR     (anywhere with tileiras, no GPU)
    PYTHONPATH=src python3 benchmarks/tile_gpu.py --cache=DIR       (then no tileiras is needed)

Needs a GPU and torch.  A sample says what is exact and how far a result may be from it.  The GPU's
result has to be that close, to be within twice that of the interpreter's, and to have the same bits
in every run.  Then the host time of `ct.launch` is measured, in turns with cuTile's own in this
process where the package cuda-tile and tileiras are installed: the same source, after changing its
import.
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib
import json
import os
import statistics
import sys
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import tilewright.tile as ct
from tilewright.compiler.tile_arguments import read_arguments
from tilewright.compiler.tile_gpu import cubin_for, target_of
from tilewright.errors import TilewrightError
from tilewright.profiler.machine import gpu_state, machine_facts, package_versions
from tilewright.profiler.timing import host_times, spread
from tilewright.runtime import cache, driver

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_OUT = ROOT / "benchmarks" / "results" / "h200_tile.json"
OUR_IMPORT, THEIR_IMPORT = "import tilewright.tile as ct", "import cuda.tile as ct"
TIMED = ("vector_add", "matmul", "layer_norm")
"""Samples whose first launch is timed: three arrays and a constant; more constants; more arrays."""
RUNS, BATCH, SEED = 5, 200, 20261130

Launch = tuple[Any, Any, Sequence[Any]]
"""grid, kernel, arguments"""


def samples() -> list[Path]:
    return sorted(p.relative_to(ROOT) for p in (ROOT / "examples" / "tile").glob("*.py"))


def load(path: Path, source: str | None = None) -> Any:
    """A sample as a module.

    Its path is relative to the checkout: debug information names it, so that a cubin that is made
    on one machine is found again on another.
    """
    module = types.ModuleType(path.stem)
    text = (ROOT / path).read_text() if source is None else source
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def fresh(x: Any) -> Any:
    """A copy of arguments, each array in memory of its own, as on the GPU."""
    if isinstance(x, list | tuple):
        return type(x)(map(fresh, x))
    return np.array(x) if isinstance(x, np.ndarray) else copy.copy(x)


def launches_of(library: Any, run: Callable[..., None], arguments: Sequence[Any]) -> list[Launch]:
    """Runs a host function; gives what it launches through `library`."""
    found: list[Launch] = []
    launch = library.launch

    def recording(stream: Any, grid: Any, kernel: Any, args: Any, /) -> None:
        found.append((grid, kernel, args))
        launch(stream, grid, kernel, args)

    with mock.patch.object(library, "launch", recording):
        run(*arguments)
    return found


# --- without a GPU ------------------------------------------------------------------------------


def prepare(target: str) -> int:
    """Compiles every kernel of every sample into the cache."""
    for path in samples():
        run, arguments, _ = load(path).case(np.random.default_rng(SEED))
        for _, kernel, args in launches_of(ct, run, fresh(arguments)):
            start = time.perf_counter()
            size = len(cubin_for(kernel, read_arguments(kernel, args).constraints, target))
            spent = time.perf_counter() - start
            print(f"{path.stem:<22} {kernel.__name__:<26} {size:>8,} bytes {spent:6.1f} s")
    return 0


# --- results ------------------------------------------------------------------------------------


def to_gpu(x: Any) -> Any:
    """Arguments with every array as a torch tensor on the GPU."""
    import torch

    if isinstance(x, list | tuple):
        return type(x)(map(to_gpu, x))
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype.kind != "V" and x.dtype.isbuiltin == 1:
        return torch.from_numpy(np.array(x)).cuda()
    raw = torch.from_numpy(np.array(x).view(f"i{x.dtype.itemsize}")).cuda()
    return raw.view(getattr(torch, x.dtype.name))


def back(tensor: Any, like: Any) -> Any:
    """The numbers of a tensor, or of a list of them, as float64."""
    import torch

    if isinstance(tensor, list):
        return [back(t, x) for t, x in zip(tensor, like, strict=True)]
    raw = tensor.view(getattr(torch, f"int{8 * like.dtype.itemsize}")).cpu().numpy()
    return raw.view(like.dtype).astype(np.float64)


def flat(x: Any) -> list[Any]:
    return list(x) if isinstance(x, list) else [x]


def of_bound(found: Any, wanted: Any, bound: Any) -> float:
    """The largest distance, in units of the bound; infinite where a bound of 0 is missed."""
    worst = 0.0
    bounds = bound if isinstance(bound, list) else [bound] * len(flat(found))
    for f, w, b in zip(flat(found), flat(wanted), bounds, strict=True):
        error = np.abs(np.float64(f) - np.float64(w))
        scale = np.broadcast_to(np.float64(b), error.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(error == 0, 0.0, error / scale)
        if np.isnan(ratio).any():
            return float("inf")
        worst = max(worst, float(ratio.max()))
    return worst


def check(path: Path) -> dict[str, Any]:
    """One sample: the GPU against the exact result and against the interpreter."""
    import torch

    run, arguments, expected = load(path).case(np.random.default_rng(SEED))
    interpreted = fresh(arguments)
    launches = launches_of(ct, run, interpreted)
    hits, start = cache.stats.hits, time.perf_counter()
    texts = []
    for _ in range(RUNS):
        tensors = to_gpu(arguments)
        run(*tensors, stream=torch.cuda.current_stream())
        torch.cuda.synchronize()
        results = {at: back(tensors[at], arguments[at]) for at in expected}
        texts.append(b"".join(f.tobytes() for r in results.values() for f in flat(r)))
    exact = max(of_bound(results[at], *expected[at]) for at in expected)
    ours = max(of_bound(results[at], interpreted[at], expected[at][1]) for at in expected)
    same = texts.count(texts[0]) == RUNS
    return {
        "sample": path.stem,
        "kernels": sorted({kernel.__name__ for _, kernel, _ in launches}),
        "error_of_bound": round(exact, 4),
        "from_interpreter_of_bound": round(ours, 4),
        "same_bits": same,
        "cached": cache.stats.hits - hits,
        "seconds": round(time.perf_counter() - start, 2),
        "ok": exact <= 1 and ours <= 2 and same,
    }


def guarded(path: Path) -> dict[str, Any]:
    """A row even if the sample fails: one failure does not hide the others."""
    try:
        return check(path)
    except (TilewrightError, RuntimeError, TypeError, ValueError) as error:
        return {"sample": path.stem, "failed": f"{type(error).__name__}: {error}", "ok": False}


# --- host time ----------------------------------------------------------------------------------


def first_launch(path: Path, library: Any, source: str) -> Callable[[], None]:
    """The first launch of a sample, ready to be repeated, on a GPU."""
    import torch

    run, arguments, _ = load(path, source).case(np.random.default_rng(SEED))
    stream = torch.cuda.current_stream()
    run = functools.partial(run, stream=stream)
    grid, kernel, args = launches_of(library, run, to_gpu(arguments))[0]
    return functools.partial(library.launch, stream, grid, kernel, args)


def their_launches() -> tuple[dict[str, Callable[[], None]], str]:
    """cuTile's launches of the same sources, and why there are not all of them."""
    found: dict[str, Callable[[], None]] = {}
    reasons: list[str] = []
    for path in samples():
        if path.stem not in TIMED:
            continue
        try:
            library = importlib.import_module("cuda.tile")
            source = (ROOT / path).read_text().replace(OUR_IMPORT, THEIR_IMPORT)
            found[path.stem] = first_launch(path, library, source)
        except Exception as error:  # whatever is missing there is told, and ours is measured alone
            reasons += [f"{path.stem}: {type(error).__name__}: {error}".splitlines()[0]]
    return found, "; ".join(reasons)


def time_launches(rounds: int) -> tuple[list[dict[str, Any]], str]:
    theirs, reason = their_launches()
    rows = []
    for path in samples():
        if path.stem not in TIMED:
            continue
        calls = {"ours": first_launch(path, ct, (ROOT / path).read_text())}
        if path.stem in theirs:
            calls["cutile"] = theirs[path.stem]
        times = host_times(calls, driver.synchronize, rounds=rounds, batch=BATCH)
        row: dict[str, Any] = {"launch": path.stem}
        for name, us in times.items():
            row[f"{name}_us"] = round(statistics.median(us), 3)
            row[f"{name}_spread"] = round(spread(us), 4)
        if "cutile" in times:
            pairs = zip(times["ours"], times["cutile"], strict=True)
            row["ratio"] = round(statistics.median(x / y for x, y in pairs), 4)
            row["ok"] = row["ratio"] <= 1
        rows.append({**row, "rounds_us": {k: [round(x, 3) for x in v] for k, v in times.items()}})
    return rows, reason


# --- the command --------------------------------------------------------------------------------


def show(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['sample']:<22} FAILED {row['failed']}"
    return (
        f"{row['sample']:<22} error {row['error_of_bound']:<7} of its bound, from the interpreter "
        f"{row['from_interpreter_of_bound']:<7} {'ok' if row['ok'] else 'WRONG'} "
        f"{row['seconds']:6.1f} s"
    )


def show_launch(row: dict[str, Any]) -> str:
    theirs = f", cuTile's {row['cutile_us']:.2f} us" if "cutile_us" in row else ""
    return f"{row['launch']:<22} launch {row['ours_us']:.2f} us on the host{theirs}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="only fill a cache, no GPU")
    parser.add_argument("--target", default="sm_90", help="of --prepare (default: sm_90)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="a cache that was prepared")
    parser.add_argument("--rounds", type=int, default=40, help="batches of launches")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    folder = args.prepare or args.cache
    if folder is not None:
        os.environ["TILEWRIGHT_CACHE_DIR"] = str(folder.resolve())
    out = args.out.resolve()
    os.chdir(ROOT)  # the samples' sources are found by their relative paths
    if args.prepare:
        return prepare(args.target)
    rows = []
    for path in samples():
        rows.append(guarded(path))
        print(show(rows[-1]), flush=True)
    launches, reason = time_launches(args.rounds)
    for row in launches:
        print(show_launch(row), flush=True)
    if reason:
        print(f"cuTile was not measured: {reason}")
    meta = {
        **machine_facts(),
        "tile_packages": package_versions(("cuda-tile", "nvidia-cuda-tileiras")),
        "target": target_of(0),
        "runs": RUNS,
        "batch": BATCH,
        "rounds": args.rounds,
        "cutile": reason or "measured",
        "gpu_state_after": gpu_state(),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"meta": meta, "rows": rows, "launches": launches}, indent=1) + "\n")
    bad = [r.get("sample") or r["launch"] for r in rows + launches if not r.get("ok", True)]
    print(f"wrote {args.out}" + (f"; not ok: {', '.join(bad)}" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
