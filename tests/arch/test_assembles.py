"""Every row's PTX text and register types, judged by the assembler itself: NVRTC, no GPU needed."""

import pytest

from tilewright.arch.copy.atom import CopyAtom
from tilewright.arch.copy.registry import ALL_COPY_ATOMS
from tilewright.arch.mma.atom import MmaAtom, RegisterFile
from tilewright.arch.mma.registry import ALL_MMA_ATOMS, every_mma_atom
from tilewright.runtime import cuda_api
from tilewright.runtime.toolchain import compile_unchecked


@pytest.fixture(autouse=True)
def needs_nvrtc() -> None:
    if cuda_api.nvrtc is None:
        pytest.skip(f"the cuda extra is not installed: {cuda_api.BINDINGS_MISSING}")
    try:
        cuda_api.nvrtc.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")


def mma_kernel(atom: MmaAtom, index: int) -> str:
    """A kernel of one instruction, its operands read from memory and its result written back."""
    wgmma = atom.kind == "wgmma"
    files: dict[str, RegisterFile] = {which: atom.registers(which) for which in ("D", "A", "B")}
    if not wgmma:
        files["C"] = atom.registers("C")
    names: dict[str, list[str]] = {}
    lines, outs, ins, parameters, number = [], [], [], [], 0
    for which, file in files.items():
        names[which] = [f"%{number + i}" for i in range(file.count)]
        number += file.count
        parameters.append(f"{file.ctype}* {which}")
        lines.append(f"  {file.ctype} {which}_[{file.count}];")
        lines += [f"  {which}_[{i}] = {which}[{i}];" for i in range(file.count)]
        sign = ("+" if wgmma else "=") if which == "D" else ""
        bound = [f'"{sign}{file.constraint}"({which}_[{i}])' for i in range(file.count)]
        (outs if which == "D" else ins).extend(bound)
    text = atom.instruction(names["D"], names["A"], names["B"], names.get("C", ["p"]))
    if wgmma:
        ins.append('"r"(scale)')
        text = f"{{ .reg .pred p; setp.ne.b32 p, %{number}, 0; {text} }}"
    lines.append(f'  asm volatile("{text}" : {", ".join(outs)} : {", ".join(ins)});')
    if wgmma:
        lines.append('  asm volatile("wgmma.commit_group.sync.aligned;");')
        lines.append('  asm volatile("wgmma.wait_group.sync.aligned 0;");')
    lines += [f"  D[{i}] = D_[{i}];" for i in range(files["D"].count)]
    head = f'extern "C" __global__ void k{index}({", ".join(parameters)}, int scale) {{'
    return "\n".join([head, *lines, "}"])


def copy_kernel(atom: CopyAtom, index: int) -> str:
    regs = "{" + ", ".join(f"%{i}" for i in range(atom.num_matrices)) + "}"
    fields = {"regs": regs, "address": f"%{atom.num_matrices}", "src_size": "%0", "rank": 2}
    far = atom.kind == "cp_async" or atom.name.startswith("SM90_BULK_COPY_G2S")
    fields |= {"dst": "%0", "src": "%1" if far else "%0", "tensormap": "%1", "bytes": "16"}
    if atom.name.startswith(("SM90_BULK_REDUCE", "SM90_BULK_COPY_S2G")):
        fields["dst"] = "%1"
    fields |= {"type": "b32" if atom.name.endswith(("AND", "OR")) else "u32"}
    words = atom.access_bits // 32
    fields |= {"value": "{" + ", ".join(["%0"] * words) + "}" if words > 1 else "%0"}
    fields |= {"coords": "%0, %0", "barrier": "%0", "mask": "%2", "hint": "", "hinted": ""}
    text = atom.ptx.format(**fields)
    r = [f"r[{i}]" for i in range(atom.num_matrices)]
    if atom.kind == "ldmatrix":
        binds = ", ".join(f'"=r"({x})' for x in r) + ' : "r"(address)'
    elif atom.kind == "stmatrix":
        binds = ": " + ", ".join(f'"r"({x})' for x in r) + ', "r"(address)'
    else:
        binds = ': "r"(address), "l"(far), "h"(mask)'
    return (
        f'extern "C" __global__ void k{index}(unsigned* r, unsigned address, '
        f'unsigned long long far, unsigned short mask) {{ asm volatile("{text}" : {binds}); }}'
    )


def assemble(kernels: list[str], target: str) -> None:
    compile_unchecked("\n".join(kernels), "atoms", target)


@pytest.mark.parametrize("arch", [80, 89])
def test_warp_and_thread_atoms(arch: int) -> None:
    archs = {75, 80} if arch == 80 else {arch}
    atoms = [a for a in every_mma_atom() if a.has_emitter and a.min_arch in archs]
    assert atoms
    assemble([mma_kernel(a, i) for i, a in enumerate(atoms)], f"sm_{arch}")


def test_hopper_atoms() -> None:
    """Every form of wgmma at its smallest N, and the largest N of three accumulators."""
    largest = {"SM90_64x256x16_F32BF16BF16_RS_KN", "SM90_64x256x16_F16F16F16_SS_MN"}
    largest |= {"SM90_64x256x32_S32U8S8_SS_KK"}
    of_hopper = [a for a in ALL_MMA_ATOMS if a.min_arch == 90]
    atoms = [a for a in of_hopper if a.shape_mnk[1] == 8 or a.name in largest]
    assemble([mma_kernel(a, i) for i, a in enumerate(atoms)], "sm_90a")


def test_copy_atoms() -> None:
    atoms = [a for a in ALL_COPY_ATOMS if a.ptx]
    assemble([copy_kernel(a, i) for i, a in enumerate(atoms)], "sm_90a")
