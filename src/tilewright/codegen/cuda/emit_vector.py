"""Vectors: made, taken apart, permuted and reduced.  They stay expressions of an index."""

from __future__ import annotations

from tilewright.codegen.cuda.emit_arith import define_vec, narrow, repeated, through_f32
from tilewright.codegen.cuda.emitter import Emitter, assignment, emits
from tilewright.codegen.cuda.expr import Expr, Level, binary, call, name, number
from tilewright.codegen.cuda.index_formula import IndexFormula
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
