"""What CuTe DSL code knows as `cutlass`: number types, compile-time words, `range`.

import tilewright.dsl as cutlass
import tilewright.cute as cute
"""

from tilewright.lang.arguments import Constexpr, Rank, const_expr
from tilewright.lang.cute.pointer import AddressSpace
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.ranges import range_ as range
from tilewright.lang.ranges import range_constexpr
from tilewright.lang.values import (
    BFloat16,
    Boolean,
    Float4E2M1FN,
    Float8E4M3FN,
    Float8E5M2,
    Float8E8M0FNU,
    Float16,
    Float32,
    Float64,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    Numeric,
    TFloat32,
    Uint4,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
)
from tilewright.lang.words import choose as select_
from tilewright.lang.words import max, min
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import ComposedLayout

__all__ = [
    "AddressSpace",
    "BFloat16",
    "Boolean",
    "ComposedLayout",
    "Constexpr",
    "Float4E2M1FN",
    "Float8E4M3FN",
    "Float8E5M2",
    "Float8E8M0FNU",
    "Float16",
    "Float32",
    "Float64",
    "Int4",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Layout",
    "Numeric",
    "Rank",
    "TFloat32",
    "Tensor",
    "Uint4",
    "Uint8",
    "Uint16",
    "Uint32",
    "Uint64",
    "const_expr",
    "max",
    "min",
    "range",
    "range_constexpr",
    "select_",
]
