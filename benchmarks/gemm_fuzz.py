"""Random GEMMs on a GPU, bit for bit: any layout, kernel, schedule, scheduler, cluster, epilogue.

    PYTHONPATH=src python3 benchmarks/gemm_fuzz.py [--cases=2000] [--first=0] [--out=FILE]

See `tilewright.profiler.gemm_fuzz`.  Each case is compiled, so that the cases are dealt out to
processes, two fewer than there are cores.  The seeds of failures are printed and stored; the exit
status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tilewright.profiler.gemm_fuzz import draw_case, run_case
from tilewright.profiler.machine import gpu_state, machine_facts

DEFAULT_OUT = Path(__file__).parent / "results" / "h200_gemm_fuzz.json"
LARGEST = 700


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args()
    start = time.perf_counter()
    seeds = range(args.first, args.first + args.cases)
    workers = max((os.cpu_count() or 2) - 2, 1)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=fresh) as pool:
        results = list(pool.map(run_seed, seeds, chunksize=8))
    failures = [text for _, text in results if text]
    for text in failures:
        print(text, flush=True)
    record = {
        "meta": {**machine_facts(), "gpu_state": gpu_state()},
        "first": args.first,
        "cases": args.cases,
        "kernels": dict(Counter(kernel for kernel, _ in results)),
        "failed": len(failures),
        "failures": failures,
        "seconds": round(time.perf_counter() - start, 1),
    }
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{args.cases} cases, {len(failures)} failed, {record['seconds']} s; wrote {args.out}")
    return 1 if failures else 0


def run_seed(seed: int) -> tuple[str, str]:
    """The kernel of a case, and what is wrong with it."""
    case = draw_case(seed, "sm_90a", LARGEST)
    try:
        return case.kernel or "chosen by the plan", run_case(case, upload)
    except Exception as error:  # whatever it is: the other cases go on
        return case.kernel, f"{type(error).__name__}: {error}\n  {case}"


def upload(flat: Any) -> Any:
    """A flat array on the GPU, bits untouched."""
    types = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
    bits = torch.from_numpy(flat.view(np.int16 if flat.itemsize == 2 else np.int32))
    return bits.cuda().view(types[flat.dtype.name])


if __name__ == "__main__":
    sys.exit(main())
