"""What regions carry: tensors, pointers, and objects that change only in part."""

import pytest
from evaluator import check_dominance

from tilewright.errors import TypeMismatchError
from tilewright.ir.core import Block, Func, Module, Value
from tilewright.ir.ops import control, memory
from tilewright.ir.types import PtrType, ScalarType, Space, VecType
from tilewright.lang import trace
from tilewright.lang.carried import Mismatch, Places, map_leaves, pair_leaves, same_leaf
from tilewright.lang.control import captured
from tilewright.lang.launch import run_body
from tilewright.lang.trace import Trace
from tilewright.lang.values import Float32, Int32, from_ir
from tilewright.layout.layout import make_layout
from tilewright.numeric.dtypes import F32, I32


class Pointer:
    """A base and a compile-time offset, as `cute.Pointer`."""

    def __init__(self, base, offset=0):
        self.base, self.offset = base, offset

    def __add__(self, n):
        if isinstance(n, int):
            return Pointer(self.base, self.offset + n)
        return Pointer(trace.value(memory.Offset, self.base, n.ir_value()), self.offset)

    def __tw_values__(self):
        return [self.base]

    def __tw_with_values__(self, values):
        return Pointer(values[0], self.offset)


class Foldable(Pointer):
    def __add__(self, n):
        moved = super().__add__(n)
        return Foldable(moved.base, moved.offset)

    def __tw_with_values__(self, values):
        return Foldable(values[0], self.offset)

    def __tw_general__(self):
        if self.offset == 0:
            return self
        offset = Int32(self.offset).ir_value()
        return Foldable(trace.value(memory.Offset, self.base, offset), 0)


def traced(fn, *types):
    block = Block(types, [f"v{i}" for i in range(len(types))])
    made = Trace(Func("test", block), Module())
    with trace.tracing(made):
        args = [from_ir(v) if isinstance(v.type, ScalarType) else v for v in block.args]
        result = run_body(captured(fn), args, {})
    check_dominance(block)
    return block, result


GLOBAL = PtrType(F32, Space.GMEM, 16)
NUMBER = ScalarType(I32)


def test_pointers_of_different_alignment():
    def f(base, n):
        p = Pointer(base)
        if n > 0:
            p = p + n
        for _ in range(n):
            p = p + n
        return p

    block, result = traced(f, GLOBAL, NUMBER)
    assert result.base.type == PtrType(F32, Space.GMEM, 4)
    casts = [op for op in block.walk() if isinstance(op, memory.CastPointer)]
    assert [op.align for op in casts] == [4]


def test_pointers_of_different_offsets():
    def f(base, n):
        p = Pointer(base)
        if n > 0:
            p = p + 4
        return p

    with pytest.raises(TypeMismatchError, match="p is a Pointer after the first branch"):
        traced(f, GLOBAL, NUMBER)


def test_offsets_that_can_be_folded():
    def f(base, n):
        p = Foldable(base)
        if n > 0:
            p = p + 4
        q = Foldable(base)
        for _ in range(n):
            q = q + 1
        return p, q

    block, (p, q) = traced(f, GLOBAL, NUMBER)
    assert (p.offset, q.offset) == (0, 0)
    (loop,) = [op for op in block.walk() if isinstance(op, control.For)]
    assert [str(v.type) for v in loop.inits] == ["ptr<f32, gmem, 4>"]
    assert q.base is loop.results[0]


def test_registers_cannot_be_chosen_at_run_time():
    def f(a, b, n):
        x = a
        if n > 0:
            x = b
        return x

    registers = PtrType(F32, Space.RMEM, 16)
    with pytest.raises(TypeMismatchError, match=r"x is a run-time ptr<f32, rmem, 16> after"):
        traced(f, registers, registers, NUMBER)

    def g(a, n):
        x = a
        for _ in range(n):
            y = x
            x = y
        return x

    block, result = traced(g, registers, NUMBER)
    assert result is block.args[0]


def test_vectors():
    def f(v, w, n):
        total = v
        for _ in range(n):
            total = w
        return total

    _, result = traced(f, VecType(F32, 4), VecType(F32, 4), NUMBER)
    assert result.type == VecType(F32, 4)
    assert result.name == "total"

    with pytest.raises(TypeMismatchError, match="total is a run-time vec<f32, 4> before the loop"):
        traced(f, VecType(F32, 4), VecType(F32, 8), NUMBER)


def test_layouts_are_compile_time_except_for_run_time_leaves():
    def f(n, m):
        layout = make_layout((4, n), stride=(1, 4))
        if n > m:
            layout = make_layout((4, m), stride=(1, 4))
        return layout

    _, layout = traced(f, NUMBER, NUMBER)
    assert layout.shape[0] == 4
    assert isinstance(layout.shape[1].raw, Value)

    def g(n):
        layout = make_layout(4)
        if n > 0:
            layout = make_layout(8)
        return layout

    with pytest.raises(TypeMismatchError) as e:
        traced(g, NUMBER)
    assert "layout.shape is int 8 after the first branch" in e.value.message.replace(
        "_shape", "shape"
    )


def test_pairs_of_leaves():
    class Box:
        def __init__(self, n):
            self.n = n

    def leaves(a, b):
        return [(p.path, p.a, p.b) for p in pair_leaves(a, b)]

    assert leaves((1, "x", [2]), (1.0, "x", [3])) == [((0,), 1, 1.0), ((2, 0), 2, 3)]
    assert leaves({"k": 1.5}, {"k": True}) == [((("key", "k"),), 1.5, True)]
    assert leaves(Box(1), Box(2)) == [((("attr", "n"),), 1, 2)]
    for a, b in ((1, "x"), ((1,), (1, 2)), (None, 0), ("a", "b"), (make_layout(4), make_layout(5))):
        with pytest.raises(Mismatch):
            pair_leaves(a, b)


def test_same_leaf():
    assert same_leaf(1, 1)
    assert same_leaf(float("nan"), float("nan"))
    assert not same_leaf(1, 1.0)
    assert not same_leaf(True, 1)
    assert same_leaf(Int32(3), Int32(3))
    assert not same_leaf(Int32(3), Float32(3))


def test_places_restore_what_they_held():
    class Node:
        __slots__ = ("items", "next")

    node = Node()
    node.items = [1, {"k": 2}]
    node.next = node
    places = Places([(node, 3, "s")])
    assert [type(x) for x in places.objects] == [Node, list, dict]
    node.items[1]["k"] = 5
    node.items.append(4)
    node.next = None
    places.restore()
    assert node.items == [1, {"k": 2}]
    assert node.next is node


def test_map_leaves_keeps_what_does_not_change():
    value = (1, [2, "x"], {"k": (None, 3)})
    assert map_leaves(value, lambda _, leaf: leaf) is value
    assert map_leaves(value, lambda _, leaf: leaf * 2) == (2, [4, "x"], {"k": (None, 6)})
