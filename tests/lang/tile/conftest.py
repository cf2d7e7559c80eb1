"""Running tile kernels in tests: by the interpreter, in program order and in adversarial ones."""

import dataclasses
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import tilewright.tile as ct
from tilewright.compiler.tile import interpreting
from tilewright.ir.core import Block
from tilewright.ir.ops.tile.module import Entry
from tilewright.ir.tile_debug import DILoc
from tilewright.tileir.bytecode.reader import read_bytecode
from tilewright.tileir.bytecode.writer import write_bytecode
from tilewright.tileir.interpret.machine import Options
from tilewright.tileir.printer import print_text
from tilewright.tileir.reader import parse
from tilewright.tileir.verify import verify

_BESIDE = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "tileirdisasm"
DISASSEMBLER = str(_BESIDE) if _BESIDE.exists() else shutil.which("tileirdisasm")
_entries: list[Entry] = []


def checked(module: Block) -> None:
    """Text and bytecode of a captured module are read back; NVIDIA's reader gets it in the end."""
    text = print_text(module)
    again = parse(text)
    verify(again)
    assert print_text(again) == text
    read = read_bytecode(write_bytecode(module))
    verify(read)
    _entries.extend(op for op in read.ops if isinstance(op, Entry))
    _entries.extend(op for m in read.ops for r in m.regions for op in r.ops if type(op) is Entry)


@pytest.fixture(scope="session", autouse=True)
def disassembled(tmp_path_factory):
    """NVIDIA's tileirdisasm, where it is installed, accepts every kernel of the session."""
    yield
    if DISASSEMBLER is None or not _entries:
        return
    top = Block()
    for number, entry in enumerate(_entries):
        name = entry.attrs["sym_name"] = f"{entry.sym_name}_{number}"
        for op in (entry, *entry.body.walk()):
            if isinstance(op.location, DILoc):
                scope = dataclasses.replace(op.location.scope, linkage=name)
                op.location = DILoc(op.location.loc, scope)
        top.ops.append(entry)
    file = tmp_path_factory.mktemp("tile") / "kernels.tileirbc"
    file.write_bytes(write_bytecode(top))
    done = subprocess.run([DISASSEMBLER, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    assert done.stdout.count("entry @") == len(_entries)


def _copy(x):
    if isinstance(x, np.ndarray):
        return x.copy()
    if isinstance(x, list | tuple):
        return type(x)(map(_copy, x))
    return x


def _same(a, b) -> None:
    if isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, list | tuple):
        for x, y in zip(a, b, strict=True):
            _same(x, y)


@pytest.fixture
def run():
    """Launches a kernel: program order gives what adversarial orders give, and no finding."""

    def go(kernel, grid, *args, orders=2):
        copies = [_copy(args) for _ in range(orders)]
        ct.launch(None, grid, kernel, args)
        for seed, copy in enumerate(copies):
            options = Options(adversarial=True, seed=seed, echo=lambda _: None)
            with interpreting(options):
                ct.launch(None, grid, kernel, copy)
            _same(args, copy)
        for program in kernel.programs.values():
            checked(program.module)
        return args

    return go


@pytest.fixture
def refused():
    """What the capture of a kernel on some float32 vector says, as its error."""

    def go(kernel, kind, *args):
        given = args or (np.zeros(16, np.float32),)
        with pytest.raises(kind) as caught:
            ct.launch(None, (1,), kernel, given)
        return str(caught.value)

    return go
