"""What a host function does besides integer arithmetic: build tensor maps, launch kernels."""

from __future__ import annotations

from tilewright.ir.constraints import ANY, GMEM
from tilewright.ir.core import Effect, Op, attr, operand, result, variadic
from tilewright.ir.types import TensorMapType


class MakeTensorMap(Op):
    """A TMA descriptor for the tensor at `base`.

    `geometry` is first the `rank` dimensions in elements, innermost first, then the `rank - 1`
    strides of the outer dimensions in elements.  `label` names the operand in errors.
    `l2_promotion` are the bytes that a miss in the L2 fetches: with 256 instead of 128, GEMMs that
    read each operand once take up to 5 % longer on an H200, and none is faster.
    """

    name = "host.tensormap"
    effect = Effect.READ
    base = operand(GMEM)
    geometry = variadic(ANY)
    rank = attr(int)
    box = attr(tuple)
    swizzle = attr(str, "none", choices=("none", "32B", "64B", "128B"))
    l2_promotion = attr(int, 128, choices=(0, 64, 128, 256))
    oob_nan = attr(bool, False)
    label = attr(str, "")
    result = result(lambda _: TensorMapType())

    def check(self) -> str | None:
        want = 2 * self.rank - 1
        if len(self.geometry) != want:
            return f"rank {self.rank} takes {want} dimensions and strides, got {len(self.geometry)}"
        return None


class Launch(Op):
    """Launches `kernel`: operands are grid (3), block (3), cluster (3), shared bytes, arguments."""

    name = "host.launch"
    effect = Effect.SYNC
    config = variadic(ANY)
    kernel = attr(str)
    pdl = attr(bool, False)
