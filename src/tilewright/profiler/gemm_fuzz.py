"""Random GEMMs on small integers, where the right answer is one bit pattern.

A case is a problem (sizes, batches, layouts, alignments, C, bias) with a kernel and any config
that the kernel says it can run.  Products of integers from -2 to 2 are exact in f32, so D, rounded
once, must be right bit for bit.  Every operand lies in a buffer of its own, between guard bands
and, where its rows have gaps, among them: D's buffer is compared as a whole, so that a store
outside of D shows as a wrong element does.

    case = draw_case(seed, "sm_90a", largest=200)
    failure = run_case(case)              # '' or what is wrong; in the simulator
    failure = run_case(case, to_gpu)      # the same on a GPU: `to_gpu` brings a flat array there
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.arch.target import Target, target
from tilewright.errors import TilewrightError
from tilewright.library.arrays import host_array
from tilewright.library.configs import SCHEDULES, Sm90GemmConfig
from tilewright.library.cpasync_config import Sm90CpAsyncConfig
from tilewright.library.gemm import PreparedGemm, plan_gemm, pose, prepare_gemm
from tilewright.library.kernels.simt_gemm import SimtGemmConfig
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig
from tilewright.library.kernels.sm90_long_k_gemm import LongKGemmConfig
from tilewright.library.padded_config import PaddedGemmConfig
from tilewright.numeric.convert import storage_dtype
from tilewright.numeric.dtypes import dtype
from tilewright.sim.options import SimOptions

Array = np.ndarray[Any, np.dtype[Any]]

GUARD = 64
"""Elements before and behind every operand."""
POISON = -77.0
TRIES = 1000
"""Draws until a kernel takes one: most of what is drawn, it has to refuse."""
SHARES = {
    "sm90_gemm": 54,
    "sm90_padded_gemm": 8,
    "sm90_cpasync_gemm": 10,
    "sm80_gemm": 10,
    "simt_gemm": 4,
    "sm90_long_k_gemm": 4,
    "": 10,
}
"""How often each kernel is drawn, in percent; '' leaves the choice to the plan."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an operand lies in its flat buffer: shape, strides and offset, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Elements of the buffer."""
        reach = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return self.offset + reach + 1 + GUARD

    def of(self, flat: Any) -> Any:
        """The operand in a buffer, of NumPy or of torch."""
        if isinstance(flat, np.ndarray):
            strides = tuple(s * flat.itemsize for s in self.strides)
            return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides)
        return flat.as_strided(self.shape, self.strides, self.offset)


@dataclass(frozen=True, slots=True)
class FuzzCase:
    """One problem, kernel and config; `seed` makes its numbers."""

    seed: int
    element: str
    out: str
    a: Placed
    b: Placed
    c: Placed | None
    d: Placed
    bias: Placed | None
    alpha: float
    beta: float
    activation: str
    kernel: str
    config: Any
    arch: str

    def __str__(self) -> str:
        m, n, k = *self.d.shape[-2:], self.a.shape[-1]
        extra = [f"beta={self.beta} C{self.c.strides}"] if self.c else []
        extra += ["bias"] * (self.bias is not None) + [self.activation] * bool(self.activation)
        return (
            f"seed {self.seed}: {self.kernel} {m}x{n}x{k} {self.element}->{self.out} "
            f"A{self.a.strides}+{self.a.offset} B{self.b.strides}+{self.b.offset} "
            f"D{self.d.shape}:{self.d.strides}+{self.d.offset} alpha={self.alpha} "
            f"{' '.join(extra)} {self.config!r}"
        )


def draw_case(seed: int, arch: str, largest: int) -> FuzzCase:
    """The case of a seed: M and N up to about `largest`, K to three times that.

    Raises: LookupError if no draw was one that a kernel takes (the chance is next to nothing).
    """
    rng = random.Random(seed)
    on = target(arch)
    kernel = rng.choices(tuple(SHARES), tuple(SHARES.values()))[0]
    for _ in range(TRIES):
        case = _draw(rng, seed, kernel, on, largest)
        if case is not None:
            return case
    raise LookupError(f"seed {seed}: no case in {TRIES} draws")


def run_case(
    case: FuzzCase,
    to_device: Callable[[Array], Any] | None = None,
    options: SimOptions | None = None,
) -> str:
    """'' if the result is right, bit for bit, twice in a row; else what is wrong.

    `options` are those of the simulator, whose findings are faults too.
    """
    try:
        prepared, check = _prepare(case, to_device)
        for turn in ("first", "second"):
            prepared.run(options=options)
            if wrong := check():
                return f"{turn} run: {wrong}\n  {case}"
    except TilewrightError as error:
        return f"{type(error).__name__}: {error}\n  {case}"
    return ""


def _prepare(
    case: FuzzCase, to_device: Callable[[Array], Any] | None
) -> tuple[PreparedGemm, Callable[[], str]]:
    """The prepared GEMM, and what compares D's whole buffer with what it must hold."""
    rng = np.random.default_rng(case.seed)
    element, out = (storage_dtype(dtype(x)) for x in (case.element, case.out))

    def integers(place: Placed | None, storage: Any) -> Array | None:
        if place is None:
            return None
        drawn: Array = rng.integers(-2, 3, place.size).astype(storage)
        return drawn

    flat_a, flat_b = integers(case.a, element), integers(case.b, element)
    flat_c, flat_bias = integers(case.c, out), integers(case.bias, out)
    flat_d = np.full(case.d.size, POISON).astype(out)
    expected = flat_d.copy()
    case.d.of(expected)[...] = _reference(case, flat_a, flat_b, flat_c, flat_bias).astype(out)
    there = to_device or (lambda flat: flat)
    a, b, c, bias = (
        place.of(there(flat)) if place is not None and flat is not None else None
        for place, flat in (
            (case.a, flat_a),
            (case.b, flat_b),
            (case.c, flat_c),
            (case.bias, flat_bias),
        )
    )
    buffer = there(flat_d)
    prepared = prepare_gemm(
        a,
        b,
        c,
        alpha=case.alpha,
        beta=case.beta,
        bias=bias,
        activation=case.activation,
        out=case.d.of(buffer),
        kernel=case.kernel,
        config=case.config,
    )

    def check() -> str:
        found = host_array(buffer)
        wrong = np.flatnonzero(_bits(found) != _bits(expected))
        if not wrong.size:
            return ""
        at = int(wrong[0])
        where = "in D" if at in case.d.of(np.arange(case.d.size)) else "outside of D"
        return (
            f"{wrong.size} elements of D's buffer are wrong, the first at {at}, {where}: "
            f"{found[at]} instead of {expected[at]}"
        )

    return prepared, check


def _bits(flat: Array) -> Array:
    return flat.view(f"u{flat.itemsize}")


def _reference(
    case: FuzzCase, a: Array | None, b: Array | None, c: Array | None, bias: Array | None
) -> Array:
    """D in f32: every sum is an integer that f32 holds, before it is rounded to D's type."""
    assert a is not None, "A is always there"
    assert b is not None, "B is always there"
    product = case.a.of(a).astype(np.float32) @ case.b.of(b).astype(np.float32)
    result = np.float32(case.alpha) * product
    if c is not None and case.c is not None:
        result = result + np.float32(case.beta) * case.c.of(c).astype(np.float32)
    if bias is not None and case.bias is not None:
        result = result + case.bias.of(bias).astype(np.float32)
    found: Array = np.maximum(result, 0) if case.activation == "relu" else result
    return found


def _draw(rng: random.Random, seed: int, kernel: str, on: Target, largest: int) -> FuzzCase | None:
    """A case, or None where the kernel does not take what was drawn."""
    long_k = kernel == "sm90_long_k_gemm"
    step = 8 if kernel in ("sm90_gemm", "sm90_long_k_gemm") and rng.random() < 0.9 else 1

    def size(most: int) -> int:
        return max(-(-int(most * rng.random() ** 2) // step) * step, step)

    m, n, k = size(largest), size(largest), size(3 * largest)
    if long_k:
        m, n, k = size(20), size(20), 4096 + 32 * rng.randrange(16)
    batch = rng.choice((0, 0, 0, 1, 2, 3))
    element = rng.choice(("f16", "bf16"))
    out = rng.choice((element,) * 5 + ("f32",))
    swap = rng.random() < 0.2
    c = _place(rng, batch, m, n, step, True) if rng.random() < 0.25 else None
    case = FuzzCase(
        seed=seed,
        element=element,
        out=out,
        a=_place(rng, batch, m, k, step, True, long_k or None),
        b=_place(rng, batch, k, n, step, True, False if long_k else None),
        c=c,
        d=_place(rng, batch, m, n, step, False),
        bias=Placed((n,), (1,), GUARD) if rng.random() < 0.2 else None,
        alpha=rng.choice((1.0, 1.0, 2.0, -1.0)),
        beta=rng.choice((1.0, -2.0)) if c else 0.0,
        activation="relu" if rng.random() < 0.2 else "",
        kernel=kernel,
        config=_draw_config(rng, kernel, swap, on),
        arch=on.name,
    )
    return case if _is_taken(case, on) else None


def _is_taken(case: FuzzCase, on: Target) -> bool:
    """Whether the kernel says that it can run the case."""
    element, out = (storage_dtype(dtype(x)) for x in (case.element, case.out))
    a, b = (place.of(np.zeros(place.size, element)) for place in (case.a, case.b))
    c = case.c.of(np.zeros(case.c.size, out)) if case.c else None
    d = case.d.of(np.zeros(case.d.size, out))
    bias = case.bias.of(np.zeros(case.bias.size, out)) if case.bias else None
    try:
        request = pose(
            a,
            b,
            c,
            alpha=case.alpha,
            beta=case.beta,
            bias=bias,
            activation=case.activation,
            out=d,
            out_dtype=None,
        )
        plan_gemm(request, on, case.kernel, case.config)
    except TilewrightError:
        return False
    return True


def _place(
    rng: random.Random,
    batch: int,
    rows: int,
    columns: int,
    step: int,
    may_repeat: bool,
    row_major: bool | None = None,
) -> Placed:
    """A matrix, or `batch` of them, with rows or columns contiguous and gaps of any size.

    Offset and gaps are multiples of `step`; a batch may be the same matrix again.
    """
    by_rows = rng.random() < 0.5 if row_major is None else row_major
    outer, inner = (rows, columns) if by_rows else (columns, rows)
    pitch = inner + step * rng.choice((0, 0, 1, 3))
    pitch = -(-pitch // step) * step
    strides = (pitch, 1) if by_rows else (1, pitch)
    offset = GUARD + step * rng.choice((0, 0, 1, 5))
    if not batch:
        return Placed((rows, columns), strides, offset)
    apart = outer * pitch + step * rng.choice((0, 2))
    apart = 0 if may_repeat and rng.random() < 0.2 else apart
    return Placed((batch, rows, columns), (apart, *strides), offset)


def _draw_config(rng: random.Random, kernel: str, swap: bool, on: Target) -> Any:
    """Any config of a kernel, whether it takes the problem or not; None leaves the choice to it."""
    few = rng.choice((1, 2, 3, 5, on.sm_count))
    match kernel:
        case "sm90_gemm":
            return _draw_sm90(rng, swap, few)
        case "sm90_padded_gemm":
            copies = rng.choice(("A", "B", "AB", "AB"))
            return PaddedGemmConfig(_draw_sm90(rng, swap, few), copies)
        case "sm90_cpasync_gemm":
            stages = rng.choice((2, 3, 4, 6))
            return Sm90CpAsyncConfig(
                tile_shape_mnk=(rng.choice((128, 256)), rng.choice((16, 32, 64, 128, 256)), 64),
                num_stages=stages,
                in_flight=rng.randrange(stages - 1),
                a_bytes=rng.choice((2, 4, 8, 16)),
                b_bytes=rng.choice((2, 4, 8, 16)),
                epilogue=rng.choice(("tma", "direct")),
                store_buffers=rng.choice((1, 2)),
                swap_operands=swap,
                max_ctas=few,
            )
        case "sm80_gemm":
            return Sm80GemmConfig(
                tile_shape_mnk=(rng.choice((32, 64, 128)), rng.choice((32, 64, 128)), 64),
                num_stages=rng.choice((2, 3, 4)),
                warps=rng.choice(((1, 1), (2, 1), (2, 2), (1, 4))),
                raster=rng.choice((1, 3, 8)),
                a_bytes=rng.choice((2, 4, 8, 16)),
                b_bytes=rng.choice((2, 4, 8, 16)),
                swap_operands=swap,
            )
        case "simt_gemm":
            tile = rng.choice((64, 128)), rng.choice((64, 128)), rng.choice((8, 16))
            return SimtGemmConfig(tile, rng.choice((1, 8)))
        case "sm90_long_k_gemm":
            return LongKGemmConfig(rng.choice((4, 8)), rng.choice((1, 2, 4, 8)), rng.randint(1, 6))
        case _:
            return None


def _draw_sm90(rng: random.Random, swap: bool, few: int) -> Sm90GemmConfig:
    schedule = rng.choice(SCHEDULES)
    base = 128 if schedule == "cooperative" else 64
    stays = schedule in ("cooperative", "pingpong")
    blocks = rng.choice((1, 1, 1, 2) if stays else (1, 2, 3, 4))
    config = Sm90GemmConfig(
        tile_shape_mnk=(
            base * rng.choice((1, 1, 2)),
            rng.choice((16, 32, 64, 128, 192, 256, 8 * rng.randint(2, 32))),
            rng.choice((64, 64, 128)),
        ),
        num_stages=rng.randint(2, 6),
        raster=rng.choice((1, 2, 8, 16)),
        raster_along=rng.choice("MN"),
        store_boxes=rng.choice((1, 1, 2, 3, 4)),
        store_buffers=rng.choice((1, 1, 2)),
        schedule=schedule,
        epilogue=rng.choice(("tma", "tma", "direct")),
        swap_operands=swap,
        max_ctas=few,
        blocks_per_sm=blocks,
    )
    shared = rng.random()
    if shared < 0.25:
        reduction = rng.choice(("parallel", "fast"))
        waves = rng.choice((1, 2))
        return replace(config, scheduler="stream_k", stream_waves=waves, reduction=reduction)
    if shared < 0.5:
        reduction = rng.choice(("parallel", "fast", "serial", "cluster"))
        return replace(config, split_k=rng.choice((2, 2, 3, 4)), reduction=reduction)
    if shared < 0.6:
        return replace(config, cluster_shape_mn=rng.choice(((2, 1), (1, 2), (2, 2))))
    return config
