"""How the conformance runner asks for our instruction rows: `ATOMS`, merged into `ADAPTER`.

CuTe names an atom by a C++ type, with template arguments; our rows have plain names.
"""

from __future__ import annotations

import re
from typing import Any

from tilewright.arch.copy.registry import copy_atom
from tilewright.arch.element import CBF16, CF16, CTF32, E2M3, E3M2, UE4M3, Element
from tilewright.arch.mma.atom import Major, MmaAtom
from tilewright.arch.mma.registry import mma_atom
from tilewright.arch.mma.sm80 import ptx_type
from tilewright.arch.mma.sm100 import umma_atom
from tilewright.arch.smem import smem_layout_atom, stage_count
from tilewright.arch.swizzle_mode import swizzle_mode
from tilewright.layout.multiply import tile_to_shape
from tilewright.layout.swizzle import ComposedLayout
from tilewright.numeric.dtypes import (
    BF16,
    E2M1,
    E4M3,
    E5M2,
    E8M0,
    F16,
    F32,
    F64,
    I8,
    I32,
    TF32,
    U8,
    DType,
    dtype,
)

_CPP: dict[str, Element] = {
    "half_t": F16,
    "bfloat16_t": BF16,
    "tfloat32_t": TF32,
    "float": F32,
    "double": F64,
    "int8_t": I8,
    "uint8_t": U8,
    "int32_t": I32,
    "int": I32,
    "float_e4m3_t": E4M3,
    "float_e5m2_t": E5M2,
    "float_e3m2_t": E3M2,
    "float_e2m3_t": E2M3,
    "float_e2m1_t": E2M1,
    "float_ue8m0_t": E8M0,
    "float_ue4m3_t": UE4M3,
    "complex<half_t>": CF16,
    "complex<bfloat16_t>": CBF16,
    "complex<tfloat32_t>": CTF32,
}
_SPANS = {"INTER": 16, "SW32": 32, "SW64": 64, "SW128": 128}
_BITS = {"uint8_t": 8, "uint16_t": 16, "uint32_t": 32, "uint64_t": 64, "uint128_t": 128}


def _element(name: str) -> Element:
    return _CPP[re.sub(r"^(cute::|cutlass::)+", "", name)]


def _major(name: str) -> Major:
    return "K" if name.endswith("K") else "MN"


def _template(name: str) -> tuple[str, list[str]]:
    """A C++ type's name without namespaces, and its template arguments."""
    base, _, rest = name.partition("<")
    arguments, depth, word = [], 0, ""
    for letter in rest[:-1]:
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and not depth:
            arguments.append(word.strip())
            word = ""
        else:
            word += letter
    return base, [*arguments, word.strip()] if word else arguments


def _wgmma_name(base: str, arguments: list[str]) -> str:
    """SM90_64x8x16_F32F16F16_SS<Major::K,Major::MN>; fp8, tf32 and integers end in _TN."""
    match = re.fullmatch(r"(.*_(?:SS|RS))(_TN)?(_SATURATE)?", base)
    assert match is not None, base
    letters = "KK"
    if not match[2]:
        a, b = (_major(x) for x in arguments[:2])
        letters = ("K" if a == "K" else "M") + ("K" if b == "K" else "N")
    return f"{match[1]}_{letters}{match[3] or ''}"


def _umma(base: str, arguments: list[str]) -> MmaAtom:
    if "INTERLEAVED" in base:
        types, rest, scale = (F32, CTF32, CTF32), arguments, None
    else:
        a, b, c = (_element(x) for x in arguments[:3])
        types, rest, scale = (c, a, b), arguments[3:], None
    if "MXF" in base:
        scale_type, rest = _element(rest[0]), rest[1:]
    m, n, rest = int(rest[0]), int(rest[1]), rest[2:]
    if "MXF" in base and "F8F6F4" not in base:
        scale, rest = (int(rest[0]), scale_type), rest[1:]
    majors: tuple[Major, Major] = (
        (_major(rest[0]), _major(rest[1])) if len(rest) > 1 else ("K", "K")
    )
    return umma_atom(base, types, m, n, majors, scale)


def our_mma(name: str) -> MmaAtom:
    """The row of CuTe's MMA operation `name`."""
    base, arguments = _template(name)
    base = base.replace("SM90::GMMA::SPARSE::GMMA_", "SM90_SPARSE_").split("::")[-1]
    if base == "UniversalFMA":
        element = _element(arguments[0])
        assert isinstance(element, DType)
        return mma_atom(f"UniversalFMA_{element.name.upper()}")
    if re.search(r"^SM90_.*_(SS|RS)(_|$)", base):
        return mma_atom(_wgmma_name(base, arguments))
    if base.startswith(("SM100_MMA", "SM103_")):
        return _umma(base, arguments)
    if base.startswith("SM120"):
        words = [ptx_type(_element(x)).upper() for x in arguments[:3]]
        typed = base.replace("_TN", f"_{words[2]}{words[0]}{words[1]}{words[2]}_TN")
        if len(arguments) > 3:
            typed += f"{arguments[4]}_{_element(arguments[3]).name.upper()}"
        return mma_atom(typed)
    return mma_atom(base)


def _mma_traits(name: str) -> dict[str, Any]:
    atom = our_mma(name)
    return {
        "Shape_MNK": atom.shape_mnk,
        "ThrID": atom.thr_id,
        "ALayout": atom.layout_a,
        "BLayout": atom.layout_b,
        "CLayout": atom.layout_c,
        "bits": list(atom.operand_bits),
    }


def our_copy_name(name: str) -> str:
    """Our name of CuTe's copy operation `name`: a type argument becomes its width."""
    base, arguments = _template(name)
    if not arguments:
        return base
    word = arguments[0].split("::")[-1]
    bits = _BITS[word] if word in _BITS else _element(word).bits
    return f"{base}_{bits}b"


def _copy_traits(name: str) -> dict[str, Any]:
    atom = copy_atom(our_copy_name(name))
    return {
        "ThrID": atom.thr_id,
        "SrcLayout": atom.src_layout,
        "DstLayout": atom.dst_layout,
        "RefLayout": atom.ref_layout,
    }


def _dtype(cpp: str) -> DType:
    return dtype(_element(cpp).name)


def _smem_layout_atom(_unit: str, major: str, mode: str, cpp: str) -> ComposedLayout:
    """GMMA and UMMA share the atoms.  CuTe prints their swizzle in bytes, ours is in elements."""
    atom = smem_layout_atom(_major(major), _SPANS[mode], _dtype(cpp))
    return ComposedLayout(swizzle_mode(_SPANS[mode]).on_bytes, 0, atom.outer)


def _smem_tile(major: str, mode: str, cpp: str, shape: str) -> Any:
    extents = tuple(int(x) for x in re.findall(r"\d+", shape))
    tile = tile_to_shape(smem_layout_atom(_major(major), _SPANS[mode], _dtype(cpp)), extents)
    # Without swizzle CuTe drops the identity in front.
    return tile.outer if mode == "INTER" else tile


ATOMS: dict[str, Any] = {
    "mma_traits": _mma_traits,
    "copy_traits": _copy_traits,
    "smem_layout_atom": _smem_layout_atom,
    "gmma_smem_tile_pi": _smem_tile,
    "sm90_stage_count": stage_count,
}
