"""TMA descriptors: what a tensor map says, the rules it must keep, and its encoding.

Every rule is in bytes, whatever the element type.  Source: PTX ISA "Tensor Map", CUDA driver API
`cuTensorMapEncodeTiled`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

from tilewright.errors import LaunchError
from tilewright.numeric.dtypes import dtype
from tilewright.runtime import cuda_api
from tilewright.runtime.driver import check, require_gpu

Swizzle = Literal["none", "32B", "64B", "128B"]
Interleave = Literal["none", "16B", "32B"]
L2Promotion = Literal["none", "64B", "128B", "256B"]
OobFill = Literal["zero", "nan"]

# TMA moves bits, so a type that it does not know travels as an unsigned integer of its width.
# Only the fill of out-of-bounds elements with NaN depends on the type.
_DATA_TYPES = {
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "f32": "FLOAT32",
    "tf32": "TFLOAT32",
    "f64": "FLOAT64",
    "i32": "INT32",
    "i64": "INT64",
    "u16": "UINT16",
    "i16": "UINT16",
    "u32": "UINT32",
    "u64": "UINT64",
    **dict.fromkeys(("u8", "i8", "bool", "e4m3", "e5m2", "e8m0"), "UINT8"),
}
_SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_CACHED_MAPS = 1024


@dataclass(frozen=True, slots=True)
class TensorMapSpec:
    """A tensor in global memory and the box that one TMA instruction moves; no address.

    Shapes: `dims`, `box`, `element_strides` have `rank` entries, innermost first; the innermost
            dimension is contiguous, so `strides_bytes` has `rank - 1`.
    Units:  `dims` and `box` in elements, `strides_bytes` in bytes.
    """

    dtype_name: str
    rank: int
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: Swizzle = "none"
    interleave: Interleave = "none"
    l2_promotion: L2Promotion = "128B"
    oob_fill: OobFill = "zero"

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * self.rank)

    @property
    def element_bytes(self) -> int:
        return dtype(self.dtype_name).storage_bits // 8

    @property
    def box_bytes(self) -> int:
        """Bytes that one load writes to shared memory and adds to the barrier's transaction."""
        count = self.element_bytes
        for extent, step in zip(self.box, self.element_strides, strict=True):
            count *= -(-extent // step)
        return count

    def validate(self, base_address: int, operand_name: str) -> None:
        """Return if the driver and the TMA unit accept this map at `base_address`.

        Raises: LaunchError naming the operand, what is needed and what it has.

        >>> TensorMapSpec("bf16", 2, (511, 64), (1022,), (64, 64)).validate(4096, "A")
        Traceback (most recent call last):
        tilewright.errors.LaunchError: operand A: TMA needs strides that are multiples of 16 \
bytes, stride of dimension 1 is 1022 bytes (1022 % 16 = 14)
          hint: pad the rows to 1024 bytes, or use a kernel without TMA
        """
        rule = _Rules(self, operand_name)
        rule.check_kinds()
        rule.check_ranks()
        rule.check_extents()
        rule.check_address(base_address)
        rule.check_strides()
        rule.check_inner_box()


@dataclass(frozen=True, slots=True)
class _Rules:
    spec: TensorMapSpec
    operand: str

    def refuse(self, need: str, actual: str, hint: str = "") -> LaunchError:
        return LaunchError(f"operand {self.operand}: TMA needs {need}, {actual}", hint=hint)

    def check_kinds(self) -> None:
        spec = self.spec
        choices = (
            ("element type", spec.dtype_name, tuple(_DATA_TYPES)),
            ("swizzle", spec.swizzle, ("none", "32B", "64B", "128B")),
            ("interleave", spec.interleave, ("none", "16B", "32B")),
            ("L2 promotion", spec.l2_promotion, ("none", "64B", "128B", "256B")),
            ("out-of-bounds fill", spec.oob_fill, ("zero", "nan")),
        )
        for what, value, allowed in choices:
            if value not in allowed:
                raise self.refuse(f"a known {what} ({', '.join(allowed)})", f"got {value!r}")
        if spec.oob_fill == "nan" and not _DATA_TYPES[spec.dtype_name].endswith(
            ("FLOAT16", "FLOAT32", "FLOAT64")
        ):
            raise self.refuse(
                "a floating-point type to fill with NaN", f"the element type is {spec.dtype_name}"
            )

    def check_ranks(self) -> None:
        spec = self.spec
        least = 1 if spec.interleave == "none" else 3
        if not least <= spec.rank <= 5:
            raise self.refuse(f"a rank from {least} to 5", f"the rank is {spec.rank}")
        lengths = (
            ("dims", spec.dims, spec.rank),
            ("strides_bytes", spec.strides_bytes, spec.rank - 1),
            ("box", spec.box, spec.rank),
            ("element_strides", spec.element_strides, spec.rank),
        )
        for what, values, expected in lengths:
            if len(values) != expected:
                raise self.refuse(
                    f"{expected} {what} at rank {spec.rank}", f"there are {len(values)}"
                )

    def check_extents(self) -> None:
        limits = (
            ("dims", "dimension", self.spec.dims, 1 << 32),
            ("box", "box dimension", self.spec.box, 256),
            ("element_strides", "element stride", self.spec.element_strides, 8),
        )
        for what, each, values, most in limits:
            for index, value in enumerate(values):
                if not 1 <= value <= most:
                    raise self.refuse(
                        f"{what} from 1 to {most}", f"{each} {index} is {value}",
                        "an empty tensor needs no launch" if what == "dims" and value == 0 else "",
                    )  # fmt: skip

    def check_address(self, base: int) -> None:
        need = 32 if self.spec.interleave == "32B" else 16
        if base % need:
            raise self.refuse(
                f"a base address that is a multiple of {need} bytes",
                f"{base:#x} is {base % need} past one",
                "start the operand at an aligned element, or use a kernel without TMA",
            )

    def check_strides(self) -> None:
        need = 32 if self.spec.interleave == "32B" else 16
        for index, stride in enumerate(self.spec.strides_bytes, start=1):
            what = f"stride of dimension {index} is {stride} bytes"
            if not 0 <= stride < 1 << 40:
                raise self.refuse("strides from 0 to 2^40 - 1 bytes", what)
            if stride % need:
                raise self.refuse(
                    f"strides that are multiples of {need} bytes",
                    f"{what} ({stride} % {need} = {stride % need})",
                    f"pad the rows to {stride + -stride % need} bytes, or use a kernel without TMA",
                )

    def check_inner_box(self) -> None:
        spec = self.spec
        if spec.interleave == "32B" and spec.swizzle != "32B":
            raise self.refuse("swizzle 32B with interleave 32B", f"the swizzle is {spec.swizzle}")
        if spec.interleave != "none":
            return
        inner = spec.box[0] * spec.element_bytes
        what = f"it is {inner} bytes ({spec.box[0]} x {spec.dtype_name})"
        if inner % 16:
            raise self.refuse("an inner box that is a multiple of 16 bytes", what)
        span = _SPANS[spec.swizzle]
        if span and inner > span:
            raise self.refuse(
                f"an inner box of at most {span} bytes for swizzle {spec.swizzle}", what
            )


@dataclass(frozen=True, slots=True)
class TensorMap:
    """An encoded descriptor; `address` points at its 128 bytes on the host, as a kernel parameter
    of kind `tensormap` needs, for as long as this object lives."""

    spec: TensorMapSpec
    pointer: int
    address: int
    opaque: Any


@functools.lru_cache(maxsize=_CACHED_MAPS)
def encode(spec: TensorMapSpec, pointer: int, operand_name: str = "tensor") -> TensorMap:
    """The descriptor of `spec` at `pointer`, encoded once for as long as the cache remembers it.

    Raises: LaunchError if a rule is broken, or if the driver refuses all the same.
    """
    spec.validate(pointer, operand_name)
    require_gpu()
    api = cuda_api.driver
    result = api.cuTensorMapEncodeTiled(
        getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_DATA_TYPES[spec.dtype_name]}"),
        spec.rank,
        pointer,
        [api.cuuint64_t(extent) for extent in spec.dims],
        # NOTE: a tensor of rank 1 has none, but the driver refuses a null pointer.
        [api.cuuint64_t(stride) for stride in spec.strides_bytes or (16,)],
        [api.cuuint32_t(extent) for extent in spec.box],
        [api.cuuint32_t(step) for step in spec.element_strides],
        _choice(api.CUtensorMapInterleave, "INTERLEAVE", spec.interleave),
        _choice(api.CUtensorMapSwizzle, "SWIZZLE", spec.swizzle),
        _choice(
            api.CUtensorMapL2promotion,
            "L2_PROMOTION",
            spec.l2_promotion if spec.l2_promotion == "none" else f"L2_{spec.l2_promotion}",
        ),
        _choice(
            api.CUtensorMapFloatOOBfill,
            "FLOAT_OOB_FILL",
            "none" if spec.oob_fill == "zero" else "nan_request_zero_fma",
        ),
    )
    opaque = check(result, f"cuTensorMapEncodeTiled for operand {operand_name}")
    return TensorMap(spec, pointer, int(opaque.getPtr()), opaque)


def _choice(enum: Any, group: str, value: str) -> Any:
    return getattr(enum, f"CU_TENSOR_MAP_{group}_{value.upper()}")
