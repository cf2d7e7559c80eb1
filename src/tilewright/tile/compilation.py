"""Ahead-of-time compilation: signatures, calling conventions, export."""

from tilewright.compiler.tile_export import export_kernel
from tilewright.lang.tile.mangle import demangle_kernel_name, mangle_kernel_name
from tilewright.lang.tile.signature import (
    ArrayConstraint,
    CallingConvention,
    ConstantConstraint,
    ConstantValue,
    KernelSignature,
    ListConstraint,
    ParameterConstraint,
    ScalarConstraint,
    TupleConstraint,
)

__all__ = [
    "ArrayConstraint",
    "CallingConvention",
    "ConstantConstraint",
    "ConstantValue",
    "KernelSignature",
    "ListConstraint",
    "ParameterConstraint",
    "ScalarConstraint",
    "TupleConstraint",
    "demangle_kernel_name",
    "export_kernel",
    "mangle_kernel_name",
]
