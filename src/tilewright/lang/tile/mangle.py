"""The name of a compiled kernel: its function's name and its signature, and back.

    vadd_Kt1_A1f32_1i16t1_p16_I1024
    |    |   |     |      |   constant 1024
    |    |   |     |      base address divisible by 16
    |    |   |     axes in mask 1: extent divisible by 16, stride 1
    |    |   array of rank 1 of float32
    |    calling convention
    function

Axes with the same facts share a mask, in hexadecimal: bit i is axis i.  The facts: `s` extent,
`i` its divisor, `t` stride, `v` its divisor, `l` its lower bound; of the whole array: `p` the
divisor of its base address, `g` an alias group, `i` it may overlap itself, `w` 64-bit indices, `u`
unsigned ones.  Negative numbers begin with an underscore.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from tilewright.lang.tile.dtypes import DTYPES, DType, int32, int64, uint32
from tilewright.lang.tile.signature import (
    HOOKS,
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    KernelSignature,
    ListConstraint,
    ScalarConstraint,
    TupleConstraint,
    alias_groups_of,
)

_CODES: dict[DType, str] = {
    **{t: t.name.replace("uint", "u").replace("int", "i") for t in DTYPES if t.is_int},
    **{t: t.tile_ir for t in DTYPES if t.tile_ir in ("f16", "f32", "f64", "bf16", "tf32")},
    DTYPES[0]: "b8",
    **{t: f"f8{suffix}" for t, suffix in zip(DTYPES[14:17], ("m3fn", "m2", "m0fnu"), strict=True)},
}
_TYPES = {code: dtype for dtype, code in _CODES.items()}


def _number(n: int) -> str:
    return f"_{-n}" if n < 0 else str(n)


def _dtype(dtype: DType) -> str:
    if dtype not in _CODES:
        raise ValueError(f"{dtype} has no code in a mangled name")
    return _CODES[dtype]


def _array(a: ArrayConstraint, groups: dict[str, int]) -> str:
    masks: dict[str, int] = {}
    for letter, values, silent in (
        ("s", a.shape_constant, None),
        ("i", a.shape_divisible_by, 1),
        ("t", a.stride_constant, None),
        ("v", a.stride_divisible_by, 1),
        ("l", a.stride_lower_bound_incl, None),
    ):
        for axis, n in enumerate(values):
            if n is not None and n != silent:
                fact = letter + _number(n)
                masks[fact] = masks.get(fact, 0) | 1 << axis
    by_mask: dict[int, str] = {}
    for fact, mask in masks.items():
        by_mask[mask] = by_mask.get(mask, "") + fact
    text = f"{a.ndim}{_dtype(a.dtype)}"
    text += "".join(f"_{mask:x}{by_mask[mask]}" for mask in sorted(by_mask))
    extras = f"p{a.base_addr_divisible_by}" if a.base_addr_divisible_by != 1 else ""
    extras += "".join(f"g{n:x}" for n in sorted(groups[g] for g in a.alias_groups))
    extras += "i" if a.may_alias_internally else ""
    extras += {uint32: "u", int64: "w"}.get(a.index_dtype, "")
    return text + (f"_{extras}" if extras else "")


def _constraint(c: Any, groups: dict[str, int]) -> str:
    if isinstance(c, ArrayConstraint):
        return "A" + _array(c, groups)
    if isinstance(c, ListConstraint):
        own = "".join(f"g{n:x}" for n in sorted(groups[g] for g in c.alias_groups))
        return f"L{own}{'i' if c.elements_may_alias else ''}{_constraint(c.element, groups)}"
    if isinstance(c, TupleConstraint):
        return f"T{len(c.items)}" + "".join(_constraint(item, groups) for item in c.items)
    if isinstance(c, ScalarConstraint):
        return f"S{_dtype(c.dtype)}"
    if isinstance(c, ConstantConstraint):
        if isinstance(c.value, bool):
            return f"B{int(c.value)}"
        if isinstance(c.value, int):
            return f"I{_number(c.value)}"
        if isinstance(c.value, float):
            return "F" + struct.pack(">d", c.value).hex()
    raise ValueError(f"{c!r} has no code in a mangled name")


def mangle_kernel_name(function_name: str, kernel_signature: KernelSignature) -> str:
    """The entry's name of a function compiled for a signature.

    >>> v1 = CallingConvention.cutile_python_v1()
    >>> mangle_kernel_name("scale", KernelSignature([ScalarConstraint(int32), -3, 0.5], v1))
    'scale_Kt1_Si32_I_3_F3fe0000000000000'
    """
    groups: dict[str, int] = {}
    for _, names in alias_groups_of(kernel_signature.parameters):
        for name in names:
            groups.setdefault(name, len(groups))
    parts = [_constraint(p, groups) for p in kernel_signature.parameters]
    code = kernel_signature.calling_convention.code
    return "_".join([f"{function_name}_K{code}", *parts])


HOOKS["mangle"] = mangle_kernel_name


class _Reader:
    """Reads a mangled name from left to right."""

    def __init__(self, symbol: str, at: int) -> None:
        self.symbol = symbol
        self.at = at

    def take(self, pattern: str) -> str | None:
        match = re.compile(pattern).match(self.symbol, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]

    def need(self, pattern: str, what: str) -> str:
        found = self.take(pattern)
        if found is None:
            raise ValueError(
                f"{self.symbol!r} is no mangled kernel name: expected {what} at character {self.at}"
            )
        return found

    def number(self) -> int:
        text = self.need("_?[0-9]+", "a number")
        return -int(text[1:]) if text.startswith("_") else int(text)

    def dtype(self) -> DType:
        text = self.need("[a-z][a-z0-9]*", "an element type")
        if text not in _TYPES:
            raise ValueError(f"{self.symbol!r} is no mangled kernel name: no element type {text!r}")
        return _TYPES[text]

    def groups(self) -> list[str]:
        found = []
        while self.take("g"):
            found.append(f"group{int(self.need('[0-9a-f]+', 'an alias group'), 16)}")
        return found

    def constraint(self) -> Any:
        letter = self.need("[ALTSBIF]", "a parameter")
        if letter == "A":
            return self.array()
        if letter == "L":
            groups, alias = self.groups(), self.take("i") is not None
            self.need("A", "an array")
            return ListConstraint(self.array(), alias_groups=groups, elements_may_alias=alias)
        if letter == "T":
            return TupleConstraint([self.constraint() for _ in range(self.number())])
        if letter == "S":
            return ScalarConstraint(self.dtype())
        if letter == "B":
            return ConstantConstraint(self.need("[01]", "0 or 1") == "1")
        if letter == "I":
            return ConstantConstraint(self.number())
        pattern = bytes.fromhex(self.need("[0-9a-f]{16}", "16 hexadecimal digits"))
        return ConstantConstraint(struct.unpack(">d", pattern)[0])

    def array(self) -> ArrayConstraint:
        rank = int(self.need("[0-9]+", "a rank"))
        dtype = self.dtype()
        facts: dict[str, list[Any]] = {
            "s": [None] * rank,
            "i": [1] * rank,
            "t": [None] * rank,
            "v": [1] * rank,
            "l": [None] * rank,
        }
        while (text := self.take("_[0-9a-f]+(?=[sitvl])")) is not None:
            mask = int(text[1:], 16)
            if not mask or mask >> rank:
                raise ValueError(f"{self.symbol!r}: mask {text[1:]} does not fit rank {rank}")
            for letter, values in facts.items():
                if self.take(letter):
                    n = self.number()
                    for axis in range(rank):
                        if mask >> axis & 1:
                            values[axis] = n
        base, groups, alias, index = 1, [], False, int32
        if self.take("_(?=[pgiuw])"):
            base = self.number() if self.take("p") else 1
            groups, alias = self.groups(), self.take("i") is not None
            index = {"u": uint32, "w": int64}.get(self.take("[uw]") or "", int32)
        return ArrayConstraint(
            dtype,
            rank,
            index_dtype=index,
            stride_lower_bound_incl=facts["l"],
            alias_groups=groups,
            may_alias_internally=alias,
            stride_constant=facts["t"],
            shape_constant=facts["s"],
            stride_divisible_by=facts["v"],
            shape_divisible_by=facts["i"],
            base_addr_divisible_by=base,
        )


def demangle_kernel_name(symbol: str) -> tuple[str, KernelSignature]:
    """The function's name and the signature of an entry's name.

    Alias groups come back as group0, group1...
    Raises: ValueError for anything but a name that `mangle_kernel_name` made.

    >>> name, signature = demangle_kernel_name("vadd_Kt1_A1f32_1i16t1_p16_I1024")
    >>> name, signature.parameters[0].stride_constant, signature.parameters[1].value
    ('vadd', (1,), 1024)
    """
    at = symbol.rfind("_K")
    if at < 0:
        raise ValueError(f"{symbol!r} is no mangled kernel name: there is no _K in it")
    reader = _Reader(symbol, at + 2)
    convention = CallingConvention.from_code(reader.need("[^_]+", "a calling convention"))
    parameters = []
    while reader.at < len(symbol):
        reader.need("_", "an underscore")
        parameters.append(reader.constraint())
    return symbol[:at], KernelSignature(parameters, convention, symbol)
