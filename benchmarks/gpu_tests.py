"""Runs every test that needs a GPU and stores what came out.

    PYTHONPATH=src python3 benchmarks/gpu_tests.py [--out=FILE] [pytest arguments, such as -n 8]

The file holds the machine, the driver, the versions, the command, the counts, and the name and
message of whatever failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tilewright.profiler.machine import machine_facts

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "benchmarks" / "results" / "h200_gpu_tests.json"


def gpu_test_files() -> list[str]:
    """The test files that carry the marker."""
    files = (ROOT / "tests").rglob("test_*.py")
    return sorted(str(f) for f in files if "mark.gpu(" in f.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        status = pytest.main(
            [*gpu_test_files(), "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *rest]
        )
        suite = next(iter(ElementTree.parse(report).getroot().iter("testsuite")))
    counts = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    counts["passed"] = counts["tests"] - sum(counts[k] for k in ("failures", "errors", "skipped"))
    failed: list[dict[str, Any]] = [
        {"test": f"{case.get('classname')}.{case.get('name')}", "message": bad.get("message")}
        for case in suite.iter("testcase")
        for bad in (*case.findall("failure"), *case.findall("error"))
    ]
    files = [str(Path(f).relative_to(ROOT)) for f in gpu_test_files()]
    result = {"meta": machine_facts(), "files": files, "counts": counts, "failed": failed}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(counts)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
