from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewright.library.problem import GemmProblem
from tilewright.profiler.data import draw, draw_operands
from tilewright.profiler.values import Distribution

PROBLEM = GemmProblem.packed(6, 10, 4, ab="bf16", d="f16", b_major="K", with_c=True)


def test_operands_have_the_problem_s_shapes_and_layouts() -> None:
    a, b, c, out = draw_operands(PROBLEM, Distribution(), seed=3)
    assert c is not None
    assert [x.shape for x in (a, b, c, out)] == [(6, 4), (4, 10), (6, 10), (6, 10)]
    assert a.flags.c_contiguous
    assert b.flags.f_contiguous
    assert np.isnan(out).all()


def test_a_distribution_keeps_layouts_and_is_repeatable() -> None:
    how = Distribution("uniform", -3, 3, 0)
    first, second = (draw_operands(PROBLEM, how, seed=5) for _ in range(2))
    for x, y in zip(first[:3], second[:3], strict=True):
        assert x is not None
        assert y is not None
        assert x.flags.f_contiguous == (x is first[1])
        values = x.astype(np.float64)
        assert np.array_equal(values, y.astype(np.float64))
        assert np.array_equal(values, np.round(values))
        assert np.abs(values).max() <= 3


@given(st.floats(-5, 5), st.floats(0.1, 5), st.integers(0, 2**31))
def test_moments(first: float, second: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    normal = draw(Distribution("gaussian", first, second), rng, (4000,))
    assert abs(normal.mean() - first) < 0.2 * second
    assert abs(normal.std() - second) < 0.2 * second
    uniform = draw(Distribution("uniform", first, first + second), rng, (500,))
    assert first - 1e-5 <= uniform.min() <= uniform.max() <= first + second + 1e-5
