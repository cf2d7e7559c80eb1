"""The conformance page of the docs, counted afresh.

python tests/conformance/report.py > docs/layout_conformance.md
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [
        str(Path(__file__).parent),
        str(Path(__file__).resolve().parents[2] / "src"),
    ]

from layout_vectors import (
    DIFFERENT,
    DIFFERENT_ATOMS,
    VECTORS,
    adapter,
    by_op,
    load_runner,
    outcome,
)

HEAD = """# Conformance of the layout algebra

Made by `python tests/conformance/report.py > docs/layout_conformance.md`; a test compares.

The vectors are NVIDIA's own unit tests and documents, with results read by running the C++ headers
(`layout_vectors.json`). A vector passes when the result has the same shape and strides (strides of
size-1 modes aside), or the same values where only the function is common ground, and when it keeps
the post-conditions of NVIDIA's tests. Instructions and tiles (`mma_traits`, `copy_traits`,
`smem_layout_atom`, `tiled_*`) are in the table too.

Where the four implementations of NVIDIA disagree with one another, `docs/algebra.md` says which
convention is ours, and why.
"""


def page() -> str:
    """The whole page, as Markdown."""
    runner = load_runner()
    ours = adapter(runner)
    known = {**DIFFERENT, **DIFFERENT_ATOMS}
    rows = []
    reasons: dict[str, list[str]] = {}
    count = {"vectors": 0, "passed": 0, "unsupported": 0}
    for op, vectors in by_op(everything=True).items():
        count["vectors"] += len(vectors)
        if not ours.get(op):
            count["unsupported"] += len(vectors)
            rows.append(f"| {op} | {len(vectors)} | 0 | not in the adapter |")
            continue
        differ = []
        for vector in vectors:
            if outcome(vector, runner, ours)[0]:
                continue
            reason = known.get(vector["id"], "NOT LISTED")
            reasons.setdefault(reason, []).append(f"`{vector['id']}` {op}")
            differ.append(list(reasons).index(reason) + 1)
        passed = len(vectors) - len(differ)
        count["passed"] += passed
        marks = ", ".join(f"{differ.count(n)} × [{n}]" for n in sorted(set(differ)))
        rows.append(f"| {op} | {len(vectors)} | {passed} | {marks or '–'} |")
    differences = count["vectors"] - count["passed"] - count["unsupported"]
    lines = [
        HEAD,
        f"**{count['passed']} of {count['vectors']} vectors pass; {differences} differ, "
        f"{count['unsupported']} are of operations that the adapter lacks.**",
        "",
        "| op | vectors | passed | differences |",
        "|---|---|---|---|",
        *rows,
        "",
        "## The differences",
        "",
    ]
    for n, (reason, where) in enumerate(reasons.items(), 1):
        lines.append(f"{n}. {reason}: {', '.join(where)}.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if not VECTORS.exists():
        sys.exit(f"no conformance vectors at {VECTORS}")
    print(page(), end="")
