"""What a version of Tile IR, or a GPU, does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.ir.core import Block, Op
from tilewright.ir.ops.tile.base import TileOp, Version
from tilewright.ir.ops.tile.versions import Need, operation_needs
from tilewright.ir.tile_types import NumberType, PointerType, TensorViewType, TileType, ViewType
from tilewright.lang.tile.dtypes import DTYPES
from tilewright.lang.tile.errors import TileUnsupportedFeatureError

FIRST_SM = {
    "f8E4M3FN": 90,
    "f8E5M2": 90,
    "f8E8M0FNU": 100,
    "f4E2M1FN": 100,
    "fnv8E5M3FNU": 107,
}
"""The first GPU for which tileiras has an element type; all have the others."""
_NAMES = {t.tile_ir: t.name for t in DTYPES if t.kind > 1}


def _numbers(op: Op) -> Iterator[NumberType]:
    for v in (*op.operands, *op.results):
        t: object = v.type
        if isinstance(t, ViewType):
            t = t.view
        element = t.element if isinstance(t, TileType | TensorViewType) else None
        if isinstance(element, PointerType):
            element = element.pointee
        if isinstance(element, NumberType):
            yield element


def check_support(body: Block, target: str | None, version: Version) -> None:
    """Raises: TileUnsupportedFeatureError at the first operation that is not there.

    `target` is a GPU such as sm_90; None is any.
    """
    sm = int(target.removeprefix("sm_").rstrip("af")) if target else None
    for op in body.walk():
        if isinstance(op, TileOp):
            _check_version(operation_needs(op), version, op)
        for number in _numbers(op):
            name = _NAMES.get(number.name, number.name)
            _check_version([(number.since, name)], version, op)
            first = FIRST_SM.get(number.name)
            if sm is not None and first is not None and sm < first:
                raise TileUnsupportedFeatureError(
                    f"{name} needs sm_{first} or later, this is {target}", op.loc
                )
        adds = op.attrs.get("mode") == "addf" and any(n.name == "bf16" for n in _numbers(op))
        if adds and sm is not None and sm < 90:
            raise TileUnsupportedFeatureError(
                f"atomic addition of bfloat16 needs sm_90 or later, this is {target}", op.loc
            )


def _check_version(needs: Iterable[Need], version: Version, op: Op) -> None:
    for since, what in needs:
        if since > version:
            raise TileUnsupportedFeatureError(
                f"{what} needs Tile IR {since[0]}.{since[1]} or later, this is "
                f"{version[0]}.{version[1]}",
                op.loc,
            )
