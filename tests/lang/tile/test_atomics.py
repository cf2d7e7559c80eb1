"""Atomics against NumPy, printing, assertions."""

import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.compiler.tile import interpreting
from tilewright.errors import SimulationError
from tilewright.tileir.interpret.machine import Options

RNG = np.random.default_rng(9)


@ct.kernel
def updated(x, index, values, old, name: ct.Constant):
    i = ct.load(index, 0, 8)
    v = ct.load(values, 0, 8)
    before = ct.static_eval(getattr(ct, "atomic_" + name))(x, i, v)
    ct.store(old, 0, before)


PYTHON = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda _, v: v,
}


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64])
def test_integer_atomics(run, name, kind):
    low = 0 if kind is np.uint32 else -100
    x = RNG.integers(low, 100, 16).astype(kind)
    index = np.array([3, 1, 15, 0, 7, 8, 2, 9], np.int32)
    values = RNG.integers(low, 100, 8).astype(kind)
    before = x.copy()
    x, _, _, old, _ = run(updated, (1,), x, index, values, np.zeros(8, kind), name)
    np.testing.assert_array_equal(old, before[index])
    np.testing.assert_array_equal(x[index], PYTHON[name](before[index], values))


@ct.kernel
def counting(total, seen, x):
    i = ct.bid(0)
    t = ct.load(x, i, 4)
    ct.atomic_add(total, 0, ct.sum(t), memory_order=ct.MemoryOrder.RELAXED)
    ct.atomic_add(seen, ct.full((4,), 0, ct.int32), 1)
    ct.atomic_max(seen, 1, i)


def test_atomics_of_many_blocks(run):
    x = RNG.integers(0, 9, 32).astype(np.float32)
    total, seen, _ = run(counting, (8,), np.zeros(1, np.float32), np.zeros(2, np.int32), x)
    assert total[0] == x.sum()
    np.testing.assert_array_equal(seen, [32, 7])


@ct.kernel
def compared(x, old):
    i = ct.arange(4, dtype=ct.int32)
    ct.store(old, 0, ct.atomic_cas(x, i + 2, 5, i))


def test_compare_and_swap(run):
    x = np.array([5, 5, 5, 1, 5, 2], np.int32)
    x, old = run(compared, (1,), x, np.zeros(4, np.int32))
    np.testing.assert_array_equal(x, [5, 5, 0, 1, 2, 2])
    np.testing.assert_array_equal(old, [5, 1, 5, 2])


@ct.kernel
def views(x, y):
    tiles = x.tiled_view((2, 4))
    tiles.atomic_store_add((ct.bid(0), 0), ct.full((2, 4), 1.5, ct.float32))
    words = y.tiled_view(4)
    words.atomic_store_max(0, ct.full((4,), ct.bid(0), ct.int32))
    words.atomic_store_or(1, ct.full((4,), 1, ct.int32) << ct.bid(0))


def test_atomic_stores_through_views(run):
    x, y = run(views, (3,), np.zeros((5, 4), np.float32), np.zeros(8, np.int32))
    np.testing.assert_array_equal(x, np.full((5, 4), 1.5, np.float32))
    np.testing.assert_array_equal(y, [2] * 4 + [7] * 4)


@ct.kernel
def talking(x, n):
    t = ct.load(x, 0, 2)
    ct.printf("%d:%5.2f%%\n", n, ct.sum(t))
    ct.print("n =", n, f"{n:04d}|{ct.max(t):.1f}", "100%", (1, n), sep="; ", end="!\n")
    print("python's", n > 3, ct.float32)


def test_printing(capsys):
    ct.launch(None, (1,), talking, (np.array([1.5, 2], np.float32), 7))
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "7: 3.50%"
    assert second == "n =; 7; 0007|2.0; 100%; (1, 7)!"
    assert third == "python's 1 float32"


@ct.kernel
def asserting(x):
    t = ct.load(x, 0, 4)
    ct.assert_(t > 0, "all are positive")  # noqa: PT009
    ct.assert_(True)  # noqa: PT009


def test_assertions():
    with interpreting(Options(echo=lambda _: None)):
        ct.launch(None, (1,), asserting, (np.ones(4, np.float32),))
        with pytest.raises(SimulationError, match="all are positive"):
            ct.launch(None, (1,), asserting, (np.array([1, 2, -1, 4], np.float32),))
