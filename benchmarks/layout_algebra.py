"""The layout algebra against NVIDIA's pycute: the conformance vectors, op by op, in one run.

    pip download --no-deps nvidia-cutlass==4.2.0.0 && unzip nvidia_cutlass-*.whl 'pycute/*'
    python benchmarks/layout_algebra.py --pycute DIR [--save benchmarks/results/layout_algebra.json]

Every vector of an operation that both have, on which both answer and the answers are the same
function, is timed in both, interleaved; the figure of a round is the sum over the vectors.  Ours is
timed twice: with its caches, and with every cache taken out.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import platform
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "conformance"
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "conformance")]

import layout_adapter  # noqa: E402

import tilewright.layout as tw  # noqa: E402

MODULES = ("complement", "compose", "coord", "divide", "inverse", "layout", "modes", "multiply")
SKIP = {"max", "rank"}  # builtins in one of the two: nothing of the algebra is timed
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pairs(runner: Any, pycute: Any) -> tuple[dict[str, list[tuple[Call, Call]]], int]:
    """The calls that both can make, with the arguments already built; and how many were left out.

    A vector is left out when one side has no such op, raises, or returns another function.
    """
    ours = {**runner.generic_adapter(tw), **layout_adapter.ADAPTER}
    theirs = runner.pycute_adapter(pycute)
    found: dict[str, list[tuple[Call, Call]]] = defaultdict(list)
    left_out = 0
    for vector in json.loads((SHARED / "layout_vectors.json").read_text()):
        op = vector["op"]
        if not ours.get(op) or not theirs.get(op) or op in SKIP:
            continue
        both = []
        for adapter in (ours, theirs):
            args = [runner.parse(a) if vector.get("parse", True) else a for a in vector["args"]]
            if vector.get("tiler") is not None:
                args.append([None if t is None else runner.parse(t) for t in vector["tiler"]])
            try:
                ready = tuple(runner.to_mod(a, adapter) for a in args)
                call: Call = (adapter[op], ready, vector.get("attrs") or {})
                call[0](*call[1], **call[2])
                passed = runner.run_one(vector, adapter, False)[0]
            except Exception:
                passed = False
            if passed:
                both.append(call)
        if len(both) == 2:
            found[op].append((both[0], both[1]))
        else:
            left_out += 1
    return dict(sorted(found.items())), left_out


def seconds(calls: list[Call], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        for fn, args, attrs in calls:
            fn(*args, **attrs)
    return (time.perf_counter() - start) / repeat


class NoCaches:
    """While this is open, every function of the room runs without its cache."""

    def __enter__(self) -> None:
        self.taken = []
        for name in MODULES:
            module = importlib.import_module(f"tilewright.layout.{name}")
            for attribute, value in list(vars(module).items()):
                if hasattr(value, "cache_clear"):
                    self.taken.append((module, attribute, value))
                    setattr(module, attribute, value.__wrapped__)

    def __exit__(self, *exc: object) -> None:
        for module, attribute, value in self.taken:
            setattr(module, attribute, value)


def measure(calls: dict[str, list[tuple[Call, Call]]], rounds: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for op, both in calls.items():
        ours, theirs = [p[0] for p in both], [p[1] for p in both]
        repeat = max(1, int(0.02 / max(seconds(theirs, 1), 1e-6)))
        samples: dict[str, list[float]] = {"pycute": [], "cached": [], "uncached": []}
        for _ in range(rounds):
            samples["pycute"].append(seconds(theirs, repeat))
            samples["cached"].append(seconds(ours, repeat))
            with NoCaches():
                samples["uncached"].append(seconds(ours, repeat))
        median = {k: statistics.median(v) * 1e6 for k, v in samples.items()}
        table[op] = {
            "vectors": len(both),
            **{f"{k}_us": round(v, 2) for k, v in median.items()},
            "speedup_uncached": round(median["pycute"] / median["uncached"], 2),
        }
    return table


def rank3(rounds: int = 9, repeat: int = 2000) -> float:
    """Microseconds of one uncached composition of two rank-3 layouts."""
    a = tw.Layout((8, 6, 32), (1, 8, 64))
    b = tw.Layout((4, 2, 12), (2, 8, 16))
    with NoCaches():
        best = min(seconds([(tw.composition, (a, b), {})], repeat) for _ in range(rounds))
    return best * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pycute", type=Path, required=True, help="the folder that holds pycute/")
    parser.add_argument("--save", type=Path, help="store the result here as JSON")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    sys.path.insert(0, str(options.pycute))
    runner = load(SHARED / "run_vectors.py")
    calls, left_out = pairs(runner, importlib.import_module("pycute"))
    table = measure(calls, options.rounds)
    print(f"{'op':18s} vectors  pycute us  cached us  uncached us  speed-up (uncached)")
    for op, row in table.items():
        print(
            f"{op:18s} {row['vectors']:7d} {row['pycute_us']:10.1f} {row['cached_us']:10.1f} "
            f"{row['uncached_us']:12.1f} {row['speedup_uncached']:8.2f}"
        )
    total = {k: sum(r[f"{k}_us"] for r in table.values()) for k in ("pycute", "cached", "uncached")}
    result = {
        "command": "python " + " ".join(["benchmarks/layout_algebra.py", *sys.argv[1:]]),
        "python": platform.python_version(),
        "pycute": "nvidia-cutlass 4.2.0.0",
        "rounds": options.rounds,
        "vectors": sum(r["vectors"] for r in table.values()),
        "vectors_left_out": left_out,
        "total_us": {k: round(v, 1) for k, v in total.items()},
        "speedup_cached": round(total["pycute"] / total["cached"], 2),
        "speedup_uncached": round(total["pycute"] / total["uncached"], 2),
        "composition_rank3_uncached_us": round(rank3(), 2),
        "ops": table,
    }
    print(json.dumps({k: v for k, v in result.items() if k != "ops"}, indent=1))
    if options.save:
        options.save.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
