"""Matrix multiply-accumulate: one helper for each atom row, which holds the PTX."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.arch.mma.atom import MmaAtom, Operand, RegisterFile
from tilewright.arch.mma.registry import mma_atom
from tilewright.codegen.cuda.emit_copy import plain
from tilewright.codegen.cuda.emitter import Emitter, emits
from tilewright.codegen.cuda.expr import binary, call
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.codegen.cuda.spelling import ctype
from tilewright.ir.ops import memory, mma
from tilewright.numeric.dtypes import DType

_CTYPE = {"unsigned": "u32", "unsigned short": "u16", "unsigned long long": "u64"}


def _word(file: RegisterFile) -> str:
    return _CTYPE.get(file.ctype, file.ctype)


def _constraints(file: RegisterFile, array: str, mark: str = "") -> list[str]:
    return [f'"{mark}{file.constraint}"({array}[{i}])' for i in range(file.count)]


def _registers(count: int, first: int) -> list[str]:
    return [f"%{first + i}" for i in range(count)]


def wrapped(items: Sequence[str], width: int = 92) -> list[str]:
    """The items joined by commas, in lines of at most `width` characters."""
    lines, line = [], ""
    for n, item in enumerate(items):
        piece = item + ("" if n + 1 == len(items) else ",")
        if line and len(line) + 1 + len(piece) > width:
            lines.append(line)
            line = piece
        else:
            line = f"{line} {piece}" if line else piece
    return [*lines, line] if line else lines


def _asm_lines(
    ptx: Sequence[str], outputs: Sequence[str], inputs: Sequence[str], end: str = ""
) -> list[str]:
    """An asm statement with many operands, over several lines."""
    lines = ["asm volatile("]
    for n, row in enumerate(ptx):
        newline = "\\n" if n + 1 < len(ptx) else ""
        pieces = _broken(row) if len(row) > 88 else [row]
        pieces[-1] += newline
        lines += [f'  "{piece}"' for piece in pieces]
    for mark, items in ((":", outputs), (":", inputs)):
        rows = wrapped(list(items))
        lines += [f"  {mark} {rows[0]}" if rows else f"  {mark}", *(f"    {r}" for r in rows[1:])]
    lines[-1] += f"{end});"
    return lines


def _broken(row: str) -> list[str]:
    """A long line of PTX in pieces that the C compiler joins again."""
    pieces, piece = [], ""
    for word in row.split(" "):
        if piece and len(piece) + len(word) > 86:
            pieces.append(piece + " ")
            piece = word
        else:
            piece = f"{piece} {word}" if piece else word
    return [*pieces, piece]


def _helper_name(atom: MmaAtom) -> str:
    """`mma_m16n8k16_f32_bf16_bf16_f32`, `wgmma_m64n256k16_f32_bf16_bf16_rs`."""
    words = [
        w for w in atom.ptx.split(".") if w not in ("sync", "aligned", "mma_async", "row", "col")
    ]
    if atom.kind == "wgmma":
        words += ["rs"] if atom.a_source == "rmem" else []
        if (atom.a_major, atom.b_major) != ("K", "K"):
            words.append(f"{atom.a_major}_{atom.b_major}".lower())
    return "_".join(words).replace("::", "_")


def _unpack(file: RegisterFile, t: DType, word: str, const: bool) -> tuple[str, str]:
    """A helper's parameter for a register operand, and the statement that types it, if any."""
    c, qualifier = _word(file), "const " if const else ""
    if c == ctype(t):
        return f"{qualifier}{c}* {word}", ""
    return f"{qualifier}void* {word}_", f"{qualifier}{c}* {word} = ({qualifier}{c}*){word}_;"


def _mma_helper(em: Emitter, atom: MmaAtom) -> str:
    files: list[RegisterFile] = [atom.registers(w) for w in _OPERANDS]
    numbers, first = [], 0
    for file in files:
        numbers.append(_registers(file.count, first))
        first += file.count
    parameters, typed = [], []
    for operand, file in zip(_OPERANDS, files, strict=True):
        word = operand.lower()
        parameter, statement = _unpack(file, atom.dtype(operand), word, word != "d")
        parameters.append(parameter)
        typed += [statement] if statement else []
    inputs = [c for w, f in zip("abc", files[1:], strict=True) for c in _constraints(f, w)]
    body = _asm_lines([atom.instruction(*numbers)], _constraints(files[0], "d", "="), inputs)
    helper = _helper_name(atom)
    return em.prelude.use(
        helper, function(f"void {helper}({', '.join(parameters)})", *typed, *body)
    )


_OPERANDS: tuple[Operand, ...] = ("D", "A", "B", "C")


@emits(mma.Mma)
def mma_sync(em: Emitter, op: mma.Mma) -> None:
    atom = mma_atom(op.atom)
    places = [em.place(v) for v in (op.d, op.a, op.b, op.c)]
    if atom.kind == "fma" and atom.d_dtype.bits >= 32:
        d, a, b, c = (p.value() for p in places)
        word = {"f32": "fmaf", "f64": "fma"}.get(atom.d_dtype.name)
        value = call(word, a, b, c) if word else binary("+", binary("*", a, b), c)
        em.statement(op, f"{d.text} = {value.text};")
        return
    helper = _mma_helper(em, atom)
    em.statement(op, call(helper, *(p.pointer() for p in places)).text + ";")


def _wgmma_helper(em: Emitter, atom: MmaAtom) -> str:
    d_file, a_file = atom.registers("D"), atom.registers("A")
    d = _registers(d_file.count, 0)
    a = _registers(a_file.count, d_file.count)
    b, accumulate = (f"%{d_file.count + a_file.count + i}" for i in range(2))
    parameter, typed = _unpack(d_file, atom.d_dtype, "d", False)
    statements = [typed] if typed else []
    if atom.a_source == "rmem":
        a_parameter, typed = _unpack(a_file, atom.a_dtype, "a", True)
        statements += [typed] if typed else []
        a_inputs = _constraints(a_file, "a")
    else:
        a_parameter, a_inputs = "u64 a", ['"l"(a)']
    ptx = [
        "{",
        ".reg .pred p;",
        f"setp.ne.b32 p, {accumulate}, 0;",
        atom.instruction(d, a, [b], ["p"]),
        "}",
    ]
    inputs = [*a_inputs, '"l"(b)', '"r"((int)accumulate)']
    statements += _asm_lines(ptx, _constraints(d_file, "d", "+"), inputs)
    helper = _helper_name(atom)
    signature = f"void {helper}({parameter}, {a_parameter}, u64 b, bool accumulate)"
    return em.prelude.use(helper, function(signature, *statements))


@emits(mma.Wgmma)
def wgmma(em: Emitter, op: mma.Wgmma) -> None:
    helper = _wgmma_helper(em, mma_atom(op.atom))
    args = [em.place(op.d).pointer(), em.expr(op.a), em.expr(op.b), em.expr(op.accumulate)]
    em.statement(op, call(helper, *args).text + ";")


@emits(mma.WgmmaRs)
def wgmma_rs(em: Emitter, op: mma.WgmmaRs) -> None:
    helper = _wgmma_helper(em, mma_atom(op.atom))
    args = [em.place(op.d).pointer(), em.place(op.a).pointer()]
    args += [em.expr(op.b), em.expr(op.accumulate)]
    em.statement(op, call(helper, *args).text + ";")


@emits(mma.WgmmaFence)
def wgmma_fence(em: Emitter, op: mma.WgmmaFence) -> None:
    plain(em, op, "wgmma_fence", "wgmma.fence.sync.aligned;")


@emits(mma.WgmmaCommit)
def wgmma_commit(em: Emitter, op: mma.WgmmaCommit) -> None:
    plain(em, op, "wgmma_commit", "wgmma.commit_group.sync.aligned;")


@emits(mma.WgmmaWait)
def wgmma_wait(em: Emitter, op: mma.WgmmaWait) -> None:
    """The wait, tied to the accumulators that it completes, so that no read moves above it."""
    arrays = em.retired.get(op, ())
    first = ""
    for value in arrays:
        alloc = value.owner
        assert isinstance(alloc, memory.AllocRegisters), "flight follows register arrays"
        text = em.place(value).base.text
        t = em.place(value).type.dtype
        if not first:
            first = text
            _tied(em, "wgmma_wait", "wgmma.wait_group.sync.aligned %0;", t, alloc.count)
            em.statement(op, f"wgmma_wait<{op.pending}>({text});")
        else:
            _tied(em, "wgmma_keep", "", t, alloc.count)
            em.statement(op, f"wgmma_keep({text});")
    if not arrays:
        body = asm("wgmma.wait_group.sync.aligned %0;", "", '"n"(pending)')
        text = "template <int pending> " + function("void wgmma_wait()", body)
        em.prelude.use("wgmma_wait()", text)
        em.statement(op, f"wgmma_wait<{op.pending}>();")


def _tied(em: Emitter, helper: str, instruction: str, t: DType, count: int) -> None:
    """An overload of `helper` whose asm updates all registers of an array of `count` elements."""
    constraint = "f" if t.name == "f32" else "r"
    words = count * t.storage_bits // 32
    typed = [] if t.storage_bits == 32 else ["u32* r = (u32*)d;"]
    array = "r" if typed else "d"
    outputs = [f'"+{constraint}"({array}[{i}])' for i in range(words)]
    inputs = ['"n"(pending)'] if instruction else []
    ptx = [instruction.replace("%0", f"%{words}")]
    body = _asm_lines(ptx, outputs, inputs, ' : "memory"')
    template = "template <int pending> " if instruction else ""
    text = template + function(f"void {helper}({ctype(t)} (&d)[{count}])", *typed, *body)
    em.prelude.use(f"{helper} {ctype(t)}{count}", text)
