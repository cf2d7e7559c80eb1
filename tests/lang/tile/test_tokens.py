"""Each rule of `tokens` and `simplify`, on what a kernel is captured to."""

import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.compiler.tile import module_of
from tilewright.errors import SimulationError
from tilewright.ir.ops.tile.control import For, If
from tilewright.ir.ops.tile.memory import (
    AtomicRMWTko,
    JoinTokens,
    LoadPtrTko,
    MakeToken,
    PrintTko,
)
from tilewright.ir.ops.tile.module import Assume, GetTileBlockId
from tilewright.ir.ops.tile.shape import Constant
from tilewright.ir.ops.tile.views import LoadViewTko, MakePartitionView, StoreViewTko
from tilewright.tile import compilation
from tilewright.tileir.interpret.machine import Options, interpret
from tilewright.tileir.verify import verify

V1 = compilation.CallingConvention.cutile_python_v1()


def captured(kernel, arrays=2, scalars=0):
    array = compilation.ArrayConstraint(
        ct.float32,
        1,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1],
    )
    number = compilation.ScalarConstraint(ct.int32)
    signature = compilation.KernelSignature([array] * arrays + [number] * scalars, V1, "k")
    return module_of(kernel, [signature])


def ops(module, *kinds):
    return [op for op in module.walk() if isinstance(op, kinds)]


def before(token):
    """All operations that a token comes after, through joins."""
    if token is None:
        return set()
    owner = token.owner
    if isinstance(owner, JoinTokens):
        return set().union(*map(before, owner.tokens))
    return {owner}


@ct.kernel
def unshared(x, y):
    t = ct.load(x, 0, 4) + ct.load(x, 1, 4)
    ct.store(y, 0, t)


def test_unshared_arrays_need_no_order():
    module = captured(unshared)
    assert not ops(module, JoinTokens, MakeToken)
    assert all(op.token is None for op in ops(module, LoadViewTko, StoreViewTko))


@ct.kernel
def stores(x):
    a = ct.load(x, 0, 4)
    b = ct.load(x, 1, 4)
    ct.store(x, 0, a + b)
    c = ct.load(x, 1, 4)
    d = ct.load(x, 2, 4)
    ct.store(x, 1, c + d)


def test_load_waits_for_the_store_and_store_for_all_since():
    module = captured(stores, 1)
    a, b, c, d = ops(module, LoadViewTko)
    first, second = ops(module, StoreViewTko)
    assert a.token is None
    assert b.token is None
    assert before(first.token) == {a, b}
    assert before(c.token) == before(d.token) == {first}
    assert before(second.token) == {first, c, d}


@ct.kernel
def fences(x, y):
    t = ct.load(x, 0, 4)
    old = ct.atomic_add(y, 0, 1.0)
    ct.store(x, 1, t + old)
    ct.atomic_add(y, 0, 1.0, memory_order=ct.MemoryOrder.RELAXED)


def test_acquire_and_release_order_every_array():
    module = captured(fences)
    (load,) = ops(module, LoadViewTko)
    (store,) = ops(module, StoreViewTko)
    first, last = ops(module, AtomicRMWTko)
    assert before(first.token) == {load}
    assert before(store.token) == {first, load}
    assert before(last.token) == {first}


@ct.kernel
def looping(x, n):
    for i in range(n):
        ct.store(x, i, ct.load(x, i + 1, 4))
    ct.store(x, 0, ct.load(x, 0, 4))


def test_loops_hand_tokens_on():
    module = captured(looping, 1, 1)
    (loop,) = ops(module, For)
    load, after = ops(module, LoadViewTko)
    _, store = ops(module, StoreViewTko)
    assert len(loop.results) == 2
    assert load.token in loop.body.args
    assert after.token in loop.results
    assert before(store.token) == {loop, after}


@ct.kernel
def branching(x, n):
    if n > 0:
        ct.store(x, 0, ct.zeros((4,), ct.float32))
    ct.store(x, 0, ct.load(x, 0, 4) + 1)


def test_branches_hand_tokens_out():
    module = captured(branching, 1, 1)
    (branch,) = ops(module, If)
    (load,) = ops(module, LoadViewTko)
    assert len(branch.results) == 2
    assert before(load.token) == {branch}


@ct.kernel
def printing(x):
    ct.print("one")
    ct.store(x, 0, ct.load(x, 0, 4))
    ct.print("two")


def test_prints_are_ordered_among_themselves():
    module = captured(printing, 1)
    one, two = ops(module, PrintTko)
    assert before(two.token) == {one}
    assert one.token is None


@pytest.mark.parametrize("kernel", [stores, looping, branching])
def test_without_its_tokens_a_kernel_is_found_out(kernel):
    scalars = 0 if kernel is stores else 1
    module = captured(kernel, 1, scalars)
    for op in ops(module, LoadViewTko, StoreViewTko):
        if op.token is not None:
            op.operands = op.operands[:-1]
            op.segments = (*op.segments[:-1], 0)
    verify(module)
    args = [np.zeros(16, np.float32), 16, 1, *([3] * scalars)]
    with pytest.raises(SimulationError, match="unordered"):
        interpret(module, "k", (1, 1, 1), args, options=Options(adversarial=True))


# --- simplify -----------------------------------------------------------------------------------


@ct.kernel
def repeated(x, y):
    for i in range(3):
        a = ct.load(x, ct.bid(0) + i, 4)
        b = ct.load(x, ct.bid(0) + i, 4)
        ct.store(y, ct.bid(0) + i, a + b * 2.0)
    ct.load(x, 7, 4)
    ct.gather(x, ct.arange(8, dtype=ct.int32))
    unused = ct.sum(ct.load(x, 8, 4))
    if ct.bid(0) > 3:
        unused = unused + 1


def test_what_is_equal_is_computed_once_and_what_is_unused_never():
    module = captured(repeated)
    assert len(ops(module, GetTileBlockId)) == 1
    assert len(ops(module, LoadViewTko)) == 2
    assert len(ops(module, MakePartitionView)) == 2
    assert not ops(module, LoadPtrTko, If)
    constants = [op.value.bits for op in ops(module, Constant)]
    assert len(constants) == len(set(constants))
    assert len(ops(module, Assume)) == 2
