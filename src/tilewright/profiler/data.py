"""Operands for a run: drawn on the host, in the problem's layouts, with a poisoned output."""

from __future__ import annotations

import numpy as np

from tilewright.library.gemm import random_operands
from tilewright.library.problem import GemmProblem
from tilewright.library.reference import Array
from tilewright.profiler.values import Distribution


def draw_operands(
    problem: GemmProblem, how: Distribution, seed: int
) -> tuple[Array, Array, Array | None, Array]:
    """A, B, C (None without beta) and an output full of NaN, or of ones in an integer type."""
    a, b, c, out = random_operands(problem, seed)
    if how != Distribution():
        rng = np.random.default_rng(seed)
        for array in (a, b, c):
            if array is not None:
                array[...] = draw(how, rng, array.shape).astype(array.dtype)
    return a, b, c, out


def draw(how: Distribution, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """float32 values of a distribution.

    >>> rng = np.random.default_rng(0)
    >>> draw(Distribution("sequential", 1.0, 0.5), rng, (2, 2)).tolist()
    [[1.0, 1.5], [2.0, 2.5]]
    >>> set(draw(Distribution("uniform", -1, 1, 0), rng, (99,)).tolist()) <= {-1.0, 0.0, 1.0}
    True
    """
    if how.kind == "gaussian":
        values = how.first + how.second * rng.standard_normal(shape, dtype=np.float32)
    elif how.kind == "uniform":
        values = how.first + (how.second - how.first) * rng.random(shape, dtype=np.float32)
    else:
        count = int(np.prod(shape))
        values = (how.first + how.second * np.arange(count)).reshape(shape)
    if how.scale >= 0:
        values = np.round(values * 2.0**how.scale) / 2.0**how.scale
    return np.asarray(values, dtype=np.float32)
