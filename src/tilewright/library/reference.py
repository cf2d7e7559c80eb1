"""The host reference: what every kernel's result is compared with, and how.

The product is taken in float64 of the stored (already rounded) inputs, so that the reference's own
error is far below that of any kernel.  The bound on a kernel's error is the standard one for a
length-K dot product in f32 (Higham, "Accuracy and Stability of Numerical Algorithms", 3.5),
relative to the sum of magnitudes, plus half an ulp of the output type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.numeric.dtypes import DType

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Verification:
    """`worst` is the largest |error| / bound over all elements: the result passes at <= 1.

    `relative` is ||out - ref|| / ||ref|| (Frobenius), `where` the coordinate of the worst element.
    """

    passed: bool
    worst: float
    relative: float
    where: tuple[int, ...]
    message: str

    def __str__(self) -> str:
        return self.message


def gemm_reference(
    a: Array,
    b: Array,
    c: Array | None,
    alpha: float,
    beta: float,
    *,
    bias: Array | None = None,
    activation: str = "",
) -> tuple[Array, Array]:
    """`activation(alpha * a @ b + beta * c + bias)` in float64, and the sum over magnitudes.

    Shapes: a (M,K), b (K,N), c (M,N) or None, bias (N,) or None; each of a, b, c may have a batch
    in front.  With beta = 0, `c` is not read; with alpha = 0 or K = 0, neither `a` nor `b` is.
    """
    batch = max((x.shape[:-2] for x in (a, b)), key=len)
    shape = (*batch, a.shape[-2], b.shape[-1])
    out = np.zeros(shape)
    size = np.zeros(shape)
    if alpha != 0 and a.shape[-1]:
        a64, b64 = a.astype(np.float64), b.astype(np.float64)
        out = alpha * (a64 @ b64)
        size = abs(alpha) * (np.abs(a64) @ np.abs(b64))
    if beta != 0 and c is not None:
        c64 = c.astype(np.float64)
        out, size = out + beta * c64, size + abs(beta * c64)
    if bias is not None:
        bias64 = bias.astype(np.float64)
        out, size = out + bias64, size + np.abs(bias64)
    # No activation is steeper than 1.13, and the functions themselves are good to 2^-20.
    return (ACTIVATIONS[activation](out), 2 * size) if activation else (out, size)


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1.0 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: np.asarray(x * _sigmoid(x)),
}
"""The activations of `collective.epilogue.fusion`, on the host."""


def verify_gemm(out: Array, reference: Array, size: Array, k: int, dtype: DType) -> Verification:
    """Compares every element of `out` with the reference.

    The bound is `(k + 4) * 2^-23 * size + ulp(dtype)/2 * |reference|`: f32 accumulation of k terms
    in any order, truncating as tensor cores do, then one rounding to the output type.  A NaN or
    an infinity where the reference has none never passes.
    """
    if out.size == 0:
        return Verification(True, 0.0, 0.0, (), "nothing to compare: the output is empty")
    got = out.astype(np.float64)
    half_ulp = float(dtype.epsilon) / 2
    tiny = float(dtype.smallest_normal) * half_ulp
    bound = (k + 4) * 2.0**-23 * size + half_ulp * 1.01 * np.abs(reference) + tiny
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got - reference)
        ratio = np.where(np.isfinite(error), error / bound, np.inf)
    same_special = ~np.isfinite(reference) & (
        (got == reference) | (np.isnan(got) & np.isnan(reference))
    )
    ratio = np.where(same_special, 0.0, ratio)
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    worst = float(ratio[where])
    finite = np.isfinite(error)
    norm = float(np.linalg.norm(np.where(finite, reference, 0.0)))
    relative = float(np.linalg.norm(np.where(finite, error, 0.0))) / (norm or 1.0)
    passed = worst <= 1.0
    at = ", ".join(map(str, where))
    message = (
        f"verified: every element within the bound (worst {worst:.2f} of it), "
        f"relative error {relative:.2e}"
        if passed
        else f"WRONG: element ({at}) is {got[where]!r}, expected {reference[where]!r} "
        f"+- {bound[where]:.3g}; relative error {relative:.2e}"
    )
    return Verification(passed, worst, relative, where, message)
