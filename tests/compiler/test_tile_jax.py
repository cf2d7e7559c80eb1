"""`cutile_call`: tile kernels in JAX programs on the CPU."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.compiler import tile_jax
from tilewright.errors import TilewrightError, ToolchainError
from tilewright.tile.jax import InputOutput, OutputPlaceholder, cutile_call

jax = tile_jax.jax
needs_jax = pytest.mark.skipif(jax is None, reason="needs jax (the extra `jax`)")


@ct.kernel
def scale(x, y, c: ct.Constant, n: ct.Constant):
    i = ct.bid(0)
    ct.store(y, i, ct.load(x, i, n) * c)


@ct.kernel
def halve(x, n: ct.Constant):
    i = ct.bid(0)
    ct.store(x, i, ct.load(x, i, n) / 2)


@ct.kernel
def both(x, y1, y2, factor, n: ct.Constant):
    i = ct.bid(0)
    t = ct.load(x, i, n)
    ct.store(y1, i, t + factor)
    ct.store(y2, i, t - factor)


@ct.kernel
def paired(pair: tuple, n: ct.Constant):
    x, y = pair
    ct.store(y, 0, ct.load(x, 0, n))


@ct.kernel
def wrong(x, y):
    ct.store(y, 0, ct.load(x, 0, 3))


def graph(x: Any, c: float, n: int) -> Any:
    grid = (ct.cdiv(x.shape[0], n),)
    out = OutputPlaceholder(x.shape, x.dtype)
    y = cutile_call(grid, scale, (x, out, c, n))
    z = cutile_call(grid, halve, (InputOutput(y), n))
    plus, minus = cutile_call(grid, both, (z, out, out, 0.5, n))
    return y, z, plus * minus


@needs_jax
@pytest.mark.parametrize("compiled", [True, False])
def test_a_graph_of_kernels_is_what_numpy_says(compiled: bool) -> None:
    run = jax.jit(graph, static_argnums=(1, 2)) if compiled else graph
    x = np.arange(10, dtype=np.float32)
    y, z, product = run(jax.numpy.asarray(x), 3.0, 4)
    np.testing.assert_array_equal(y, x * 3)
    np.testing.assert_array_equal(z, x * 1.5)
    np.testing.assert_array_equal(product, (x * 1.5 + 0.5) * (x * 1.5 - 0.5))
    assert isinstance(product, jax.Array)


@needs_jax
def test_what_is_passed_in_stays_as_it_is() -> None:
    x = jax.numpy.ones(4, jax.numpy.bfloat16)
    y = jax.jit(lambda x: cutile_call((1,), halve, (InputOutput(x), 4)))(x)
    assert (x == 1).all()
    assert (y == 0.5).all()
    assert y.dtype == x.dtype


@needs_jax
def test_tuples_are_passed() -> None:
    x = jax.numpy.arange(8)
    y = cutile_call((1,), paired, ((x, OutputPlaceholder(x.shape, x.dtype)), 8))
    np.testing.assert_array_equal(y, x)


@needs_jax
def test_a_fault_in_the_kernel_is_told_at_its_line_while_tracing() -> None:
    x = jax.numpy.ones(4)
    with pytest.raises(ct.TileError) as error:
        jax.jit(lambda x: cutile_call((1,), wrong, (x, OutputPlaceholder((4,), x.dtype))))(x)
    assert "ct.store(y, 0, ct.load(x, 0, 3))" in str(error.value)
    assert "^" in str(error.value)


@needs_jax
@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        (halve, lambda x: (x,), "halve takes 2 arguments, got 1"),
        (halve, lambda x: (np.asarray(x), 4), r"argument 0 (x): expected a jax.Array, Output"),
        (halve, lambda x: (InputOutput(x), x), "argument 1 (n) is annotated ct.Constant"),
        (halve, lambda x: (InputOutput(x), "4"), "argument 1 (n): expected a jax.Array"),
        (print, lambda x: (x,), "cutile_call: expected a @ct.kernel, got <built-in"),
    ],
)
def test_wrong_arguments_are_type_errors(kernel: Any, args: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)) as error:
        cutile_call((1,), kernel, args(jax.numpy.ones(4)))
    assert isinstance(error.value, TilewrightError)


@needs_jax
def test_vmap_and_grad_are_refused() -> None:
    def run(x: Any) -> Any:
        return cutile_call((1,), halve, (InputOutput(x), 4))

    with pytest.raises(NotImplementedError, match="vmap"):
        jax.vmap(run)(jax.numpy.ones((2, 4)))
    with pytest.raises(ValueError, match="JVP"):
        jax.grad(lambda x: run(x).sum())(jax.numpy.ones(4))


@needs_jax
def test_other_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jax.numpy.ones(4)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ct.TileUnsupportedFeatureError, match="JAX computes on gpu") as error:
        cutile_call((1,), halve, (InputOutput(x), 4))
    assert "test_tile_jax.py" in str(error.value)


@needs_jax
def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tile.md").read_text()
    (block,) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    script = tmp_path / "page.py"
    script.write_text(block)
    runpy.run_path(str(script))


def test_without_jax_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_jax, "jax", None)
    with pytest.raises(ToolchainError, match="cutile_call needs the package jax") as error:
        cutile_call((1,), halve, (OutputPlaceholder((4,), np.float32), 4))
    assert "tilewright[jax]" in str(error.value)
