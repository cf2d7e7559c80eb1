"""The operations that a target has, their names, and the filter that chooses among them.

An operation is a kernel of the library with element types and layouts, as CUTLASS counts them.
The list is not kept anywhere: each kernel is asked about each combination.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tilewright.arch.target import Target
from tilewright.errors import TilewrightError
from tilewright.library import registry
from tilewright.library.problem import GemmProblem

_INPUTS = ("f16", "bf16", "f32", "e4m3", "e5m2", "i8")
_OUTPUTS = ("f16", "bf16", "f32", "i32")
_MAJOR = {
    ("A", "row"): "K",
    ("A", "column"): "M",
    ("B", "row"): "N",
    ("B", "column"): "K",
    ("D", "row"): "N",
    ("D", "column"): "M",
}
_LETTER = {"row": "t", "column": "n"}
_NOMINAL = 1024
"""Sizes at which a kernel is asked what it can do: no operand is ragged or misaligned."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A kernel with the types and layouts of its operands.  C is of D's type and layout."""

    kernel: str
    ab: str
    d: str
    a_layout: str
    b_layout: str
    d_layout: str

    def problem(self, m: int, n: int, k: int, *, with_c: bool = False) -> GemmProblem:
        """This operation's problem of a size, stored without gaps."""
        return GemmProblem.packed(
            m,
            n,
            k,
            ab=self.ab,
            d=self.d,
            a_major=_MAJOR["A", self.a_layout],
            b_major=_MAJOR["B", self.b_layout],
            d_major=_MAJOR["D", self.d_layout],
            with_c=with_c,
        )

    def name(self, config: Any) -> str:
        """The name, in CUTLASS's order: types of A, B, accumulator, D; tile, cluster, stages,
        layouts of A, B, D (`t` row, `n` column).
        """
        parts = ["tilewright", self.kernel, self.ab, self.ab, "f32", self.d]
        facts = config_facts(config)
        if facts["cta_m"]:
            parts.append("x".join(facts[f"cta_{x}"] for x in "mnk"))
        if facts["cluster_m"]:
            parts.append("x".join(facts[f"cluster_{x}"] for x in "mnk"))
        if facts["stages"]:
            parts.append(facts["stages"])
        parts.append("".join(_LETTER[x] for x in (self.a_layout, self.b_layout, self.d_layout)))
        return "_".join(parts)


def config_facts(config: Any) -> dict[str, str]:
    """The columns `cta_m` to `stages` of a kernel's config; empty where it has no such thing."""
    tile = getattr(config, "tile_shape_mnk", ("", "", ""))
    cluster = getattr(config, "cluster_shape_mnk", (1, 1, 1) if tile[0] else ("", "", ""))
    facts = {f"cta_{x}": str(size) for x, size in zip("mnk", tile, strict=True)}
    facts |= {f"cluster_{x}": str(size) for x, size in zip("mnk", cluster, strict=True)}
    return facts | {"stages": str(getattr(config, "num_stages", ""))}


@functools.cache
def operations(target: Target) -> tuple[Operation, ...]:
    """Every operation of the library on `target`, best kernel first."""
    return tuple(op for op in _candidates() if _exists(op, target))


def nominal_name(operation: Operation, target: Target) -> str:
    """The operation's name with the config that it has at friendly sizes."""
    return operation.name(_nominal_config(operation, target))


def matches(name: str, kernels: str) -> bool:
    """Whether a `--kernels` filter takes `name`: a comma is or, `*` separates parts in order.

    >>> matches("sm90_gemm_bf16_bf16", "simt,sm90*bf16"), matches("sm90_gemm_f16", "f16*sm90")
    (True, False)
    """
    alternatives = [part.strip() for part in kernels.split(",") if part.strip()]
    return not alternatives or any(
        re.search(".*".join(map(re.escape, part.split("*"))), name) for part in alternatives
    )


def require_match(found: int, filters: str, kernels: str, known: Iterable[str]) -> None:
    """Raises: TilewrightError if `found` is 0, with the filter, near names and how many exist."""
    if found:
        return
    names = list(known)
    near = nearest(kernels, names) if kernels else ()
    raise TilewrightError(
        f"no operation matches {filters}; {len(names)} operations exist on this target",
        details={"nearest": "\n            ".join(near)} if near else {},
        hint="`tilewright profile --mode=enumerate` lists them all",
    )


def nearest(kernels: str, names: list[str], count: int = 3) -> tuple[str, ...]:
    """The names most like a filter that takes none.

    >>> nearest("sm9*bf61", ["sm90_gemm_bf16_bf16", "sm90_gemm_f32_f32", "simt_gemm_f32"], 1)
    ('sm90_gemm_bf16_bf16',)
    """
    words = [word for word in re.split(r"[*,_\s]+", kernels.lower()) if word]

    def score(name: str) -> float:
        parts = [*name.split("_"), name]
        return sum(
            max(difflib.SequenceMatcher(None, word, part).ratio() for part in parts)
            for word in words
        )

    return tuple(sorted(names, key=score, reverse=True)[:count])


def _candidates() -> Iterator[Operation]:
    for kernel in registry.KERNELS:
        for ab in _INPUTS:
            for d in _OUTPUTS:
                for a_layout in ("row", "column"):
                    for b_layout in ("column", "row"):
                        for d_layout in ("row", "column"):
                            yield Operation(kernel, ab, d, a_layout, b_layout, d_layout)


def _exists(operation: Operation, target: Target) -> bool:
    module = registry.KERNELS[operation.kernel]
    problem = operation.problem(_NOMINAL, _NOMINAL, _NOMINAL)
    config = module.default_config(problem, target)
    return module.can_implement(problem, target, config) is None


def _nominal_config(operation: Operation, target: Target) -> Any:
    problem = operation.problem(_NOMINAL, _NOMINAL, _NOMINAL)
    return registry.KERNELS[operation.kernel].default_config(problem, target)
