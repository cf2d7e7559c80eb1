"""What was measured to be fastest: a small table of shapes and configs, shipped with the package.

`benchmarks/gemm.py --sweep=N --picks` writes it anew.  A shape that is not in it gets the cost
model's pick.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tilewright.arch.target import Target
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.problem import GemmProblem

TABLE = Path(__file__).with_name("measured_h200.json")


def key(problem: GemmProblem) -> str:
    """What the table tells problems apart by.

    >>> key(GemmProblem.packed(64, 32, 16, ab="bf16", d="bf16", a_major="M"))
    '64x32x16 MKN'
    """
    batch = f"{problem.batch}x" if problem.batch != 1 else ""
    end = " +" + (problem.activation or "bias") if problem.bias or problem.activation else ""
    return f"{batch}{problem.m}x{problem.n}x{problem.k} {''.join(problem.majors)}{end}"


def as_entry(config: Sm90GemmConfig) -> dict[str, Any]:
    """The fields of a config that are not the default's."""
    plain = asdict(Sm90GemmConfig())
    return {name: value for name, value in asdict(config).items() if value != plain[name]}


@functools.cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    if not TABLE.exists():
        return {}
    found: Mapping[str, Mapping[str, Any]] = json.loads(TABLE.read_text())["picks"]
    return found


def pick(problem: GemmProblem, target: Target) -> Sm90GemmConfig | None:
    """The measured config of a problem; None if it was not measured, or on another GPU."""
    entry = _table().get(key(problem)) if target.sm == 90 and target.sm_count == 132 else None
    if entry is None:
        return None
    fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in entry.items()}
    return replace(Sm90GemmConfig(), **fields)
