"""Vectors: made, taken apart, permuted and reduced.  They stay expressions of an index."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.cuda.emit_arith import define_vec, narrow, repeated, through_f32
from tilewright.codegen.cuda.emitter import Emitter, assignment, emits
from tilewright.codegen.cuda.expr import Expr, Level, binary, call, name, number
from tilewright.codegen.cuda.operands import plus, times
from tilewright.codegen.cuda.spelling import ctype
from tilewright.ir.ops import arith
from tilewright.ir.types import element_type


@emits(arith.Splat)
def splat(em: Emitter, op: arith.Splat) -> None:
    a = em.simple(em.expr(op.a), element_type(op.a.type))
    define_vec(em, op.result, repeated(a).element, [repeated(a)], free=True)


@emits(arith.Extract)
def extract(em: Emitter, op: arith.Extract) -> None:
    em.define(op.result, em.vec(op.vector).element(number(op.index)))


@emits(arith.Pack)
def pack(em: Emitter, op: arith.Pack) -> None:
    elements = [em.expr(v) for v in op.elements]
    t = element_type(op.elements[0].type)
    if all(e.text == elements[0].text for e in elements):
        one = repeated(em.simple(elements[0], t))
        define_vec(em, op.result, one.element, [one], free=True)
        return
    # Names and elements of arrays may be written again; anything more becomes an array if the
    # vector has several uses.
    free = all(e.level is Level.PRIMARY and "(" not in e.text for e in elements)
    define_vec(
        em,
        op.result,
        lambda i: elements[int(i.text)],
        [repeated(e) for e in elements],
        symbolic=False,
        pointwise=False,
        free=free,
    )


@emits(arith.Shuffle)
def shuffle(em: Emitter, op: arith.Shuffle) -> None:
    source = em.vec(op.vector)
    index = IndexFormula.of(op.indices)
    if op.indices == tuple(range(source.count)):
        em.define(op.result, source)
        return

    def element(i: Expr) -> Expr:
        if i.literal:
            return source.element(number(op.indices[int(i.text)]))
        assert index is not None, "only asked for symbolic indices if there is a formula"
        return source.element(index(i))

    define_vec(
        em,
        op.result,
        element,
        [source],
        symbolic=index is not None,
        pointwise=False,
        free=True,
    )


@emits(arith.Reduce)
def reduce(em: Emitter, op: arith.Reduce) -> None:
    t = element_type(op.vector.type)
    vec = em.vec(op.vector)
    if em.facts.uses.get(op.result, 0) == 0:
        return
    symbol = {"add": "+", "mul": "*"}.get(op.kind)
    word = op.kind if not t.is_float else f"f{op.kind}" + ("" if t.name == "f64" else "f")

    def step(a: Expr, b: Expr) -> Expr:
        return binary(symbol, a, b) if symbol else call(word, a, b)

    combine = through_f32(em, t, lambda a, b: narrow(step(a, b), t))
    if not vec.symbolic or vec.count <= 4:
        running = vec.element(number(0))
        for n in range(1, vec.count):
            running = combine(running, vec.element(number(n)))
        em.define(op.result, running)
        return
    total = name(em.names.fresh(op.result.name), mutable=False)
    em.out.line(f"{ctype(t)} {total.text} = {vec.element(number(0)).short};")
    with em.element_loop(1, vec.count) as i:
        em.out.line(assignment(total.text, combine(total, vec.element(i))))
    em.set(op.result, total)


class IndexFormula:
    """`indices[i]` as arithmetic on `i`: digits of a mixed radix, each with a stride.

    >>> IndexFormula.of((4, 5, 6, 7))(name("i")).text
    '4 + i'
    >>> IndexFormula.of((0, 1, 8, 9))(name("i")).text
    'i % 2 + i / 2 * 8'
    >>> IndexFormula.of((0, 1, 3)) is None
    True
    """

    def __init__(self, start: int, digits: Sequence[tuple[int, int]]) -> None:
        self.start = start
        self.digits = digits

    @staticmethod
    def of(indices: Sequence[int]) -> IndexFormula | None:
        digits: list[tuple[int, int]] = []
        level = list(indices)
        while len(level) > 1:
            step = level[1] - level[0]
            run = 1
            while run < len(level) and level[run] == level[0] + step * run:
                run += 1
            blocks, rest = divmod(len(level), run)
            if rest or any(
                level[b * run + r] != level[b * run] + step * r
                for b in range(blocks)
                for r in range(run)
            ):
                return None
            digits.append((run, step))
            level = level[::run]
        return IndexFormula(indices[0], digits)

    def __call__(self, i: Expr) -> Expr:
        total = number(self.start)
        weight = 1
        for n, (size, step) in enumerate(self.digits):
            digit = i if weight == 1 else binary("/", i, number(weight))
            if n + 1 < len(self.digits):
                digit = binary("%", digit, number(size))
            weight *= size
            if step:
                total = plus(total, times(digit, step))
        return total
