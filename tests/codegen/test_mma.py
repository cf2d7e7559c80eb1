"""MMA atoms: every row of the table compiles, fragments stay in registers."""

from __future__ import annotations

import pytest
from kernels import Kernel, gmem

from tilewright.arch.mma.atom import MmaAtom
from tilewright.arch.mma.registry import ALL_MMA_ATOMS, mma_atom
from tilewright.codegen.cuda.flight import retired_by_wait
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.ir.core import Func, Value
from tilewright.ir.ops import mma
from tilewright.runtime.sass import opcode_counts
from tilewright.runtime.toolchain import compile_cubin

SMALL = [a for a in ALL_MMA_ATOMS if a.kind != "wgmma"]
WGMMA = [a for a in ALL_MMA_ATOMS if a.kind == "wgmma" and a.shape_mnk[1] in (8, 64)]


def fragments(k: Kernel, atom: MmaAtom, which: str, name: str) -> Value:
    return k.registers(atom.dtype(which).name, atom.num_values(which), name)  # type: ignore[arg-type]


def mma_kernel(atoms: list[MmaAtom], name: str) -> Func:
    k = Kernel(name, x=gmem("u8"))
    for n, atom in enumerate(atoms):
        d, a, b, c = (fragments(k, atom, w, f"{w.lower()}{n}") for w in "DABC")
        for pointer in (a, b, c):
            k.store(pointer, k.const(1, atom.dtype("A").name) if pointer is not c else k.load(c))
        k.do(mma.Mma, d, a, b, c, atom=atom.name)
        k.do(mma.Mma, c, a, b, d, atom=atom.name)
        k.store(k.at(k.x, n), k.cast(k.load(c), "u8"))
    return k.done()


def test_every_warp_atom_compiles() -> None:
    usual = [a for a in SMALL if a.min_arch <= 80]
    text = emit_cuda(mma_kernel(usual, "warp_atoms"), line_info=False)
    cubin = compile_cubin(text, "warp_atoms", "sm_80", allow_spills=True)
    counts = opcode_counts(cubin.cubin)
    assert sum(n for op, n in counts.items() if "MMA" in op) >= len(usual)
    later = [a for a in SMALL if a.min_arch > 80]
    if later:
        text = emit_cuda(mma_kernel(later, "later_atoms"), line_info=False)
        compile_cubin(text, "later_atoms", "sm_90a", allow_spills=True)


def test_an_ampere_mma_is_one_instruction_on_packed_registers() -> None:
    atom = mma_atom("SM80_16x8x16_F32BF16BF16F32_TN")
    func = mma_kernel([atom], "one")
    text = emit_cuda(func, line_info=False)
    assert "mma_m16n8k16_f32_bf16_bf16_f32(d0, a0, b0, c0);" in text
    cubin = compile_cubin(text, "one", "sm_80")
    assert opcode_counts(cubin.cubin)["HMMA.16816.F32.BF16"] == 2
    assert cubin.stack_bytes == 0


def wgmma_kernel(atoms: list[MmaAtom], name: str) -> Func:
    k = Kernel(name, x=gmem("u8"), desc=gmem("u64"))
    k.func.max_threads = 128
    for n, atom in enumerate(atoms):
        d = fragments(k, atom, "D", f"d{n}")
        b = k.load(k.desc, name="b")
        more = k.bool(False)
        if atom.a_source == "smem":
            k.do(mma.WgmmaFence)
            k.do(mma.Wgmma, d, k.load(k.at(k.desc, 1)), b, more, atom=atom.name)
        else:
            a = fragments(k, atom, "A", f"a{n}")
            count = atom.num_values("A")
            for i in range(count):
                k.store(k.at(a, i), k.const(1, atom.dtype("A").name))
            k.do(mma.WgmmaFence)
            k.do(mma.WgmmaRs, d, a, b, more, atom=atom.name)
        k.do(mma.WgmmaCommit)
        k.do(mma.WgmmaWait, pending=0)
        k.store(k.at(k.x, n), k.cast(k.load(d), "u8"))
    return k.done()


def test_every_kind_of_wgmma_compiles() -> None:
    text = emit_cuda(wgmma_kernel(WGMMA, "wgmmas"), line_info=False)
    compiled = compile_cubin(text, "wgmmas", "sm_90a")
    counts = opcode_counts(compiled.cubin)
    assert sum(n for op, n in counts.items() if "GMMA" in op) == len(WGMMA)
    assert compiled.stack_bytes == 0


@pytest.mark.parametrize("n", [192, 256])
def test_wide_accumulators_are_tied_whole(n: int) -> None:
    atom = mma_atom(f"SM90_64x{n}x16_F32BF16BF16_SS_KK")
    text = emit_cuda(wgmma_kernel([atom], "wide"), line_info=False)
    assert f"wgmma_wait(float (&d)[{n // 2}])" in text
    assert "  wgmma_wait<0>(d0);\n" in text
    assert compile_cubin(text, "wide", "sm_90a").stack_bytes == 0


# ---- which accumulators a wait completes


class Flight(Kernel):
    def __init__(self) -> None:
        super().__init__("flight", desc=gmem("u64"), n=gmem("i32"))
        self.func.max_threads = 128
        self.waits: list[mma.WgmmaWait] = []
        self.b_desc = self.load(self.desc, name="b")

    def issue(self, *accumulators: Value) -> None:
        for acc in accumulators:
            self.do(
                mma.Wgmma,
                acc,
                self.b_desc,
                self.b_desc,
                self.bool(True),
                atom="SM90_64x64x16_F32BF16BF16_SS_KK",
            )
        self.do(mma.WgmmaCommit)

    def wait(self, pending: int) -> None:
        op = self.do(mma.WgmmaWait, pending=pending)
        assert isinstance(op, mma.WgmmaWait)
        self.waits.append(op)

    def retired(self) -> list[tuple[Value, ...]]:
        found = retired_by_wait(self.done())
        return [found[w] for w in self.waits]


def test_a_mainloop_ties_only_after_the_loop() -> None:
    k = Flight()
    acc = k.registers("f32", 64, "acc")
    with k.loop(k.i32(0), k.load(k.n), iv="k"):
        k.issue(k.at(acc, 0))
        k.issue(k.at(acc, 32))
        k.wait(1)
    k.wait(0)
    assert k.retired() == [(), (acc,)]


def test_attention_ties_the_scores_while_the_output_flies() -> None:
    k = Flight()
    scores, output = k.registers("f32", 32, "scores"), k.registers("f32", 32, "output")
    with k.loop(k.i32(0), k.load(k.n), iv="j"):
        k.issue(scores)
        k.issue(output)
        k.wait(1)
        k.wait(0)
    assert k.retired() == [(scores,), (output,)]


def test_branches_are_joined_and_several_arrays_tied() -> None:
    k = Flight()
    a, b = k.registers("f32", 32, "one"), k.registers("f32", 32, "two")
    go = k.cmp(k.load(k.n), "gt", k.i32(0))
    k.branch(go, lambda: k.issue(a), lambda: k.issue(b))
    k.wait(0)
    k.wait(0)
    assert k.retired() == [(a, b), ()]
    text = emit_cuda(k.func, line_info=False)
    assert "wgmma_wait<0>(one);\n  wgmma_keep(two);\n  wgmma_wait<0>();" in text


def test_a_loop_that_never_waits_ends() -> None:
    k = Flight()
    accumulators = [k.registers("f32", 32, f"a{n}") for n in range(3)]
    with k.loop(k.i32(0), k.load(k.n), iv="j"):
        for acc in accumulators:
            k.issue(acc)
    k.wait(0)
    assert k.retired() == [tuple(accumulators)]
