"""`cute.gemm`: ``d = a * b + c`` on fragments, unrolled into one operation per instruction."""

from __future__ import annotations

from typing import Any

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import arith, memory, mma
from tilewright.lang import trace
from tilewright.lang.cute.arch_sync import condition_value
from tilewright.lang.cute.atom import MmaAtom
from tilewright.lang.cute.copy import with_registers
from tilewright.lang.cute.descriptor import Descriptor
from tilewright.lang.cute.located import located
from tilewright.lang.cute.pointer import AddressSpace, Pointer
from tilewright.lang.cute.tensor import Tensor
from tilewright.lang.cute.transfer import is_contiguous
from tilewright.lang.values import describe
from tilewright.layout.int_tuple import fmt
from tilewright.layout.layout import Layout, make_layout
from tilewright.layout.modes import rank, size

_ONE = Layout(1, 0)


@located
def gemm(atom: Any, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    """``d = a * b + c`` with the instructions of `atom`.

    Shapes: a (V,M,K), b (V,N,K), c and d (V,M,N); K may be left out, and all but V.
    For warpgroup instructions `d` is `c`, updated in place, and the ACCUMULATE field says whether
    the old value counts.
    Raises: LayoutError where extents differ, naming the dimension; TypeMismatchError for operands
            that the instruction does not take.
    """
    if not isinstance(atom, MmaAtom):
        raise TypeMismatchError(
            f"gemm: expected an MMA atom or tiled MMA first, got {describe(atom)}",
            loc=trace.loc(),
            hint="cute.gemm(tiled_mma, d, a, b, c)",
        )
    for name, t in (("d", d), ("a", a), ("b", b), ("c", c)):
        if not isinstance(t, Tensor):
            raise TypeMismatchError(
                f"gemm: expected a Tensor as {name}, got {describe(t)}", loc=trace.loc()
            )
    d, a, b, c = _vmnk(d, a, b, c)
    _check_extents(d, a, b, c)
    for which, t in (("D", d), ("A", a), ("B", b), ("C", c)):
        _check_operand(atom, which, t)
    if atom.row.kind == "fma":
        _fma(d, a, b, c)
    elif atom.row.kind == "mma":
        _mma(atom, d, a, b, c)
    else:
        _wgmma(atom, d, a, b, c)


def _vmnk(d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All operands as (V, rows, columns)."""
    ranks = tuple(rank(t.layout) for t in (d, a, b, c))
    if ranks == (3, 3, 3, 3):
        return d, a, b, c
    if ranks == (3, 2, 2, 3):
        return d, _appended(a, 1), _appended(b, 1), c
    if ranks == (1, 1, 1, 1):
        return _appended(d, 2), _appended(a, 2), _appended(b, 2), _appended(c, 2)
    if ranks == (2, 2, 2, 2):
        prepended = [Tensor(t.iterator, make_layout(_ONE, *t.layout)) for t in (d, a, b, c)]
        return prepended[0], prepended[1], prepended[2], prepended[3]
    shown = ", ".join(f"{n} {fmt(t.shape)}" for n, t in zip("dabc", (d, a, b, c), strict=True))
    raise LayoutError(
        f"gemm: the ranks of the operands do not fit together: {shown}",
        loc=trace.loc(),
        hint="expected a (V,M,K), b (V,N,K), c and d (V,M,N)",
    )


def _appended(t: Tensor, count: int) -> Tensor:
    modes = list(t.layout) if type(t.shape) is tuple else [t.layout]
    if count == 2 and len(modes) == 1 and type(t.shape) is tuple and type(t.shape[0]) is tuple:
        modes = [modes[0]]
    return Tensor(t.iterator, make_layout(*modes, *([_ONE] * count)))


def _check_extents(d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    pairs = (
        ("M", ("a", a, 1), ("c", c, 1)),
        ("N", ("b", b, 1), ("c", c, 2)),
        ("K", ("a", a, 2), ("b", b, 2)),
        ("M", ("d", d, 1), ("c", c, 1)),
        ("N", ("d", d, 2), ("c", c, 2)),
    )
    for axis, (p, x, i), (q, y, j) in pairs:
        m, n = size(x.layout, [i]), size(y.layout, [j])
        if type(m) is not int or type(n) is not int:
            raise LayoutError(
                f"gemm: {axis} is known only at run time ({fmt(x.shape)} of {p}); an MMA needs a "
                f"compile-time {axis}",
                loc=trace.loc(),
            )
        if m != n:
            raise LayoutError(
                f"gemm: {axis} differs: {m} in {p} {fmt(x.shape)}, {n} in {q} {fmt(y.shape)}",
                loc=trace.loc(),
            )


def _check_operand(atom: MmaAtom, which: Any, t: Tensor) -> None:
    row = atom.row
    wanted = row.dtype(which)
    name = which.lower()
    if row.source(which) == "smem":
        if not isinstance(t.iterator, Descriptor):
            raise TypeMismatchError(
                f"gemm: {row.name} reads {name} from shared memory by descriptor, got {t}",
                loc=trace.loc(),
                hint=f"pass tiled_mma.make_fragment_{which}(thr_mma.partition_{which}(tensor))",
            )
        return
    p = t.iterator
    if not isinstance(p, Pointer) or p.memspace is not AddressSpace.rmem:
        raise TypeMismatchError(
            f"gemm: {row.name} takes {name} in registers, got {t}",
            loc=trace.loc(),
            hint=f"make them with tiled_mma.make_fragment_{which} and copy into them",
        )
    same = p.element is wanted or {p.element.name, wanted.name} == {"f32", "tf32"}
    if not same:
        raise TypeMismatchError(
            f"gemm: {row.name} takes {wanted} for {name}, the fragment holds {p.element}",
            loc=trace.loc(),
        )
    if size(t.layout, [0]) != row.num_values(which):
        raise LayoutError(
            f"gemm: {row.name} takes {row.num_values(which)} values of {name} per thread, the "
            f"fragment has {fmt(t.shape)}",
            loc=trace.loc(),
        )


def _extents(d: Tensor, a: Tensor) -> tuple[int, int, int]:
    return size(d.layout, [1]), size(d.layout, [2]), size(a.layout, [2])


def _fma(d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    """All products of one k at once: three vectors of M x N elements."""
    m, n, k = _extents(d, a)
    grid = [(i, j) for j in range(n) for i in range(m)]
    acc = _pick(c, [(i, j) for i, j in grid])
    for x in range(k):
        left = _pick(a, [(i, x) for i, _ in grid])
        right = _pick(b, [(j, x) for _, j in grid])
        acc = trace.value(arith.Fma, left, right, acc)
    trace.emit(memory.Scatter, d.iterator.base, acc, indices=_indices(d, grid))


def _indices(t: Tensor, places: list[tuple[int, int]]) -> tuple[int, ...]:
    rows, columns, start = t.layout[1], t.layout[2], t.iterator.static
    return tuple(start + rows(i) + columns(j) for i, j in places)


def _pick(t: Tensor, places: list[tuple[int, int]]) -> Value:
    return trace.value(memory.Gather, t.iterator.base, indices=_indices(t, places))


def _mma(atom: MmaAtom, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    m, n, k = _extents(d, a)
    for x in range(k):
        source = c if x == 0 else d
        for i in range(m):
            # Back and forth, so that neighbouring instructions share a fragment of b.
            for j in range(n) if i % 2 == 0 else reversed(range(n)):
                parts = (d[None, i, j], a[None, i, x], b[None, j, x], source[None, i, j])
                _mma_sync(atom, *parts)


def _mma_sync(atom: MmaAtom, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    def with_a(pa: Value) -> None:
        with_registers(_leaf(b), lambda pb: with_b(pa, pb), write=False)

    def with_b(pa: Value, pb: Value) -> None:
        with_registers(_leaf(c), lambda pc: with_c(pa, pb, pc), write=False)

    def with_c(pa: Value, pb: Value, pc: Value) -> None:
        def act(pd: Value) -> None:
            trace.emit(mma.Mma, pd, pa, pb, pc, atom=atom.row.name)

        with_registers(_leaf(d), act, write=True)

    with_registers(_leaf(a), with_a, write=False)


def _leaf(t: Tensor) -> Tensor:
    """A fragment of one instruction without the wrapping mode."""
    return Tensor(t.iterator, t.layout[0])


def _wgmma(atom: MmaAtom, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    same = d.iterator.base is c.iterator.base and d.iterator.static == c.iterator.static
    if not same or d.layout != c.layout:
        raise TypeMismatchError(
            f"gemm: {atom.row.name} accumulates in place, d and c must be the same tensor",
            details={"d": d, "c": c},
            loc=trace.loc(),
            hint="cute.gemm(tiled_mma, acc, a, b, acc)",
        )
    if not is_contiguous(d.layout[0]):
        raise LayoutError(
            f"gemm: the accumulators of one wgmma must be consecutive registers, got {d.layout}",
            loc=trace.loc(),
            hint="make them with tiled_mma.make_fragment_C",
        )
    m, n, k = _extents(d, a)
    accumulate = condition_value(atom.accumulate)
    always = accumulate
    if k > 1:
        always = condition_value(True)
    for x in range(k):
        # Only the first K step of the call may overwrite.
        flag = accumulate if x == 0 else always
        for j in range(n):
            for i in range(m):
                acc = d.iterator + (d.layout[1](i) + d.layout[2](j))
                right = b[0, j, x].encoded()
                if atom.row.a_source == "smem":
                    left = a[0, i, x].encoded()
                    trace.emit(mma.Wgmma, acc.value(), left, right, flag, atom=atom.row.name)
                else:
                    _wgmma_rs(atom, acc.value(), _leaf(a[None, i, x]), right, flag)


def _wgmma_rs(atom: MmaAtom, acc: Value, a: Tensor, right: Value, flag: Value) -> None:
    if not is_contiguous(a.layout):
        raise LayoutError(
            f"gemm: the A registers of one wgmma must be consecutive, got {a.layout}",
            loc=trace.loc(),
            hint="make them with tiled_mma.make_fragment_A: wgmma reads them asynchronously",
        )
    trace.emit(mma.WgmmaRs, acc, a.iterator.value(), right, flag, atom=atom.row.name)
