"""`tilewright check`, end to end on small kernel files."""

from __future__ import annotations

import json
import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tilewright import cute
from tilewright.cli.command import main
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.profiler.checker import Checker, Policy, checking
from tilewright.runtime.cache import compile_cached
from tilewright.sim.options import SimOptions

KERNEL = """
import numpy as np
from tilewright import cute, dsl
from tilewright.utils import SmemAllocator

@cute.kernel
def reverse(x: cute.Tensor, y: cute.Tensor, ok: dsl.Constexpr):
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(dsl.Float32, cute.make_layout(64), label="s")
    s[t] = x[t]
    if dsl.const_expr(ok):
        cute.arch.sync_threads()
    y[t] = s[63 - t]{comment}

@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, ok: dsl.Constexpr):
    reverse(x, y, ok).launch(grid={grid}, block=64)

def run(ok):
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    launch(x, y, ok)
    return x, y
"""
FAULTY = "def check_faulty():\n    run(False)\n"
RIGHT = "def check_right():\n    x, y = run(True)\n    assert (y == x[::-1]).all()\n"


@pytest.fixture
def write(tmp_path: Path):
    def make(*parts: str, comment: str = "", grid: int = 1) -> str:
        path = tmp_path / "kernel.py"
        text = KERNEL.replace("{comment}", comment).replace("{grid}", str(grid))
        path.write_text("\n".join([text, *parts]))
        return str(path)

    return make


def test_a_right_kernel_passes(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(RIGHT)]) == 0
    text = capsys.readouterr().out
    assert "kernel.py:17:5  reverse  grid 1  block 64 ." in text
    assert "PASSED" in text
    assert "1 passed in" in text


def test_a_race_is_reported_with_both_lines(write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(FAULTY, RIGHT)
    assert main(["check", path]) == 1
    text = capsys.readouterr().out
    assert "FAILED: race" in text
    assert "1 failed, 1 passed in" in text
    assert f"{path}:13:12  in reverse\n    y[t] = s[63 - t]\n           ^^^^^^^^^" in text
    assert f"{path}:10:5  in reverse\n    s[t] = x[t]" in text
    assert f"reproduce: tilewright check {path} --seed=" in text


def test_json(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(FAULTY), "--json", "--seeds=1"]) == 1
    record = json.loads(capsys.readouterr().out)
    (launch,) = record["launches"]
    assert record["passed"] is launch["passed"] is False
    assert (launch["kernel"], launch["grid"], launch["seed"]) == ("reverse", [1, 1, 1], 0)
    (finding,) = launch["findings"]
    assert finding["kind"] == "race"
    lines = {a["loc"]["line"] for a in finding["accesses"]} | {finding["loc"]["line"]}
    assert lines == {10, 13}


def test_without_race_checks_it_passes(write) -> None:
    assert main(["check", write(FAULTY), "--no-races", "--seeds=1"]) == 0


def test_exploration(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(FAULTY), "--explore=20"]) == 1
    assert "schedule=" in capsys.readouterr().out
    assert main(["check", write(RIGHT), "--explore=20"]) == 0


def test_module_level_launches_and_main(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write("run(True)\nrun(True)\n")]) == 0
    assert "2 passed" in capsys.readouterr().out
    assert main(["check", write("def main():\n    run(True)\n")]) == 0


def test_suppressions_need_a_reason(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(FAULTY), "--allow=race@reverse: shown in a talk"]) == 0
    text = capsys.readouterr().out
    assert "1 finding suppressed" in text
    assert "shown in a talk" in text
    path = write(FAULTY, comment="  # tilewright: allow race: the reader tolerates both")
    assert main(["check", path]) == 0
    assert "the reader tolerates both" in capsys.readouterr().out
    assert main(["check", write(FAULTY, comment="  # tilewright: allow race")]) == 2
    assert "of race at kernel.py:13 gives no reason" in capsys.readouterr().err


def test_the_grid_can_be_cut(write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(RIGHT, grid=100)
    assert main(["check", path, "--ctas=3"]) == 0
    assert "grid 3  block 64  (of 100)" in capsys.readouterr().out
    assert main(["check", path, "--grid=2"]) == 0
    assert "grid 2  block 64  (of 100)" in capsys.readouterr().out


def test_results_of_a_cut_grid_are_not_judged(write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("run(True)\nassert False, 'half is missing'\n", grid=4)
    assert main(["check", path, "--ctas=2"]) == 0
    assert "blocks were left out, so its results are not whole" in capsys.readouterr().out


def test_too_large_is_refused_with_an_estimate(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(RIGHT, grid=1000), "--limit=0.0001"]) == 2
    text = capsys.readouterr().out
    assert "REFUSED" in text
    assert "refused: check reverse: 1,000 blocks of (64, 1, 1) threads, 3 runs would take" in text
    assert "hint: check fewer blocks with --ctas or a smaller problem with --grid" in text


def test_a_file_that_stops(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write("run(True)\nassert False, 'wrong sum'\n")]) == 1
    assert "stopped: AssertionError: wrong sum (line 26)" in capsys.readouterr().out
    assert main(["check", write("run(True)\n1 / 0\n")]) == 2
    assert "stopped: ZeroDivisionError: division by zero (line 26)" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", ["json", "svg"])
def test_timeline(write, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"timeline.{suffix}"
    assert main(["check", write(RIGHT), f"--timeline={out}"]) == 0
    if suffix == "json":
        trace = json.loads(out.read_text())
        assert trace["otherData"]["timing"] == "modelled, not measured"
        assert any(event["ph"] == "X" for event in trace["traceEvents"])
    else:
        assert "modelled, not measured" in out.read_text()
        assert ET.fromstring(out.read_text()).tag.endswith("svg")


def test_roofline(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(RIGHT), "--roofline"]) == 0
    text = capsys.readouterr().out
    assert "roofline of reverse (modelled, one SM)" in text
    assert "bound by global memory" in text


@pytest.mark.parametrize(
    ("parts", "words", "message"),
    [
        ((), [], "check: {path} launches nothing\n  hint: launch at module level"),
        (("def check_it(n):\n    run(n)\n",), [], "check: check_it needs the argument n"),
        ((RIGHT,), ["--seeds=0"], "--seeds: '0', expected 1 or more"),
        ((RIGHT,), ["--grid=1,2,3,4"], "--grid: '1,2,3,4', expected one to three extents"),
        ((RIGHT,), ["--allow=race"], "suppression 'race': expected kind@place: reason"),
        ((RIGHT,), ["--allow=rice@x: y"], "suppression 'rice@x: y': rice is not a kind of finding"),
        ((RIGHT,), ["--timeline=x.png"], "--timeline: x.png ends in .png, expected .json or .svg"),
        ((RIGHT,), ["--limit=-1"], "--limit: '-1', expected a positive number of seconds"),
    ],
)
def test_bad_input(write, parts, words, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(*parts)
    assert main(["check", path, *words]) == 2
    assert capsys.readouterr().err.startswith(f"tilewright: {message.format(path=path)}")


def test_no_such_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nowhere.py"]) == 2
    assert capsys.readouterr().err.startswith("tilewright: check: nowhere.py is not a file")


CONFLICT = """
@cute.kernel
def transpose_kernel(x: cute.Tensor, y: cute.Tensor):
    t = cute.arch.thread_idx()[0]
    s = SmemAllocator().allocate_tensor(dsl.Float32, cute.make_layout(1024), label="s")
    for i in dsl.range_constexpr(32):
        s[i * 32 + t] = x[i * 32 + t]
    cute.arch.sync_threads()
    for i in dsl.range_constexpr(32):
        y[i * 32 + t] = s[t * 32 + i]

@cute.jit
def transpose(x: cute.Tensor, y: cute.Tensor):
    transpose_kernel(x, y).launch(grid=1, block=32)

def check_transpose():
    whole = np.arange(1032, dtype=np.float32)
    at = -whole.ctypes.data % 32 // 4
    room = np.zeros(1032, np.float32)
    to = -room.ctypes.data % 32 // 4
    transpose(whole[at : at + 1024], room[to : to + 1024])
"""


def test_costs_are_printed_with_their_lines(write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(CONFLICT)
    assert main(["check", file, "--costs"]) == 0
    text = capsys.readouterr().out
    assert "costs of transpose_kernel: 5 lines waste time" in text
    assert (
        "  mem.load, 4-byte read: 32-way bank conflict: 32 requests take 1,024 cycles instead "
        "of 32\n" in text
    )
    assert "y[i * 32 + t] = s[t * 32 + i]" in text


def test_costs_in_json(write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", write(CONFLICT), "--costs", "--json", "--no-races", "--seeds=1"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["launches"]
    cost, *narrow = one["costs"]
    assert {c["kind"] for c in narrow} == {"non_vectorised"}
    assert (cost["kind"], cost["count"], cost["actual"]) == ("bank_conflict", 32, 1024)
    assert cost["text"].startswith("32-way bank conflict: 32 requests take 1,024 cycles")
    assert cost["loc"]["function"] == "transpose_kernel"
    assert (one["counters"]["sectors"], one["counters"]["sectors_ideal"]) == (256, 256)


def test_no_costs(write, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = CONFLICT.replace("s[t * 32 + i]", "s[i * 32 + t]")
    quiet = quiet.replace("range_constexpr(32)", "range_constexpr(1)")
    assert main(["check", write(quiet), "--costs"]) == 0
    text = capsys.readouterr().out
    assert (
        "costs of transpose_kernel: no bank conflicts, wasted sectors, needless barriers, narrow "
        "copies\n"
    ) in text


def test_resources(
    write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Registers by estimate, and by ptxas once the kernel has been compiled."""
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    file = write(CONFLICT)

    def seen() -> tuple[str, dict]:
        assert main(["check", file, "--costs", "--seeds=1"]) == 0
        text = capsys.readouterr().out
        assert main(["check", file, "--costs", "--seeds=1", "--json"]) == 0
        (one,) = json.loads(capsys.readouterr().out)["launches"]
        return text, one["resources"]

    text, used = seen()
    estimate = used["registers_estimate"]
    assert f"resources of transpose_kernel: about {estimate} registers per thread, most" in text
    assert "4,096 bytes of shared memory (s 4,096)" in text
    assert (used["shared_bytes"], used["ptxas"]) == (4096, None)
    compile_kernels_of(file)
    text, used = seen()
    exact = used["ptxas"]["registers"]
    assert f"about {estimate} registers per thread (ptxas: {exact}), most" in text


def compile_kernels_of(file: str) -> None:
    """As a GPU's machine would, at the first launch."""
    checker = Checker(Policy(SimOptions(raise_on_findings=False)))
    with checking(checker):
        scope = runpy.run_path(file)
        scope["check_transpose"]()
    (one,) = checker.launches
    compile_cached(emit_cuda(one.func), one.kernel, "sm_90a")


LIBRARY = """
import numpy as np
import tilewright.collective.epilogue.direct as direct
from tilewright import cute, dsl
from tilewright.library.gemm import gemm
from tilewright.library.kernels.sm80_gemm import Sm80GemmConfig

@cute.kernel
def mine(y: cute.Tensor):
    t = cute.arch.thread_idx()[0]
    acc = cute.make_rmem_tensor(2, dsl.Float32)
    cute.autovec_copy(acc, cute.local_tile(y, (2,), (t,)))  # USER

@cute.jit
def launch(y: cute.Tensor):
    mine(y).launch(grid=1, block=4)

def check_mine():
    launch(np.zeros(8, np.float32))

def multiply():
    a = np.zeros((64, 64), np.float16)
    return gemm(a, a, kernel="sm80_gemm", config=Sm80GemmConfig(raster=7))  # LAUNCH

def check_gemm():
    multiply()
"""


def test_a_finding_in_library_code_shows_the_user_s_calls_first(
    write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(write())
    path.write_text(LIBRARY)
    line = next(n for n, t in enumerate(LIBRARY.splitlines(), 1) if t.endswith("# USER"))
    assert main(["check", str(path), "--json"]) == 1
    (mine, gemm) = json.loads(capsys.readouterr().out)["launches"]
    assert not gemm["findings"]
    assert main(["check", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    (start,) = [n for n, text in enumerate(lines) if text.startswith("uninitialised: ")]
    places = [text for text in lines[start:] if text.startswith("  ") and ".py:" in text]
    assert places[0].startswith(f"  {path}:{line}:"), places
    assert mine["findings"][0]["kind"] == "uninitialised"


def test_a_finding_in_a_library_kernel_shows_who_launched_it(
    write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel's barriers are broken here: `sync_threads` does nothing."""
    path = Path(write())
    # A config that no other test compiles: broken programs are kept like all others.
    broken = LIBRARY.replace("raster=7", "raster=13")
    path.write_text(broken.replace("def check_mine", "def mine_is_not_checked"))
    monkeypatch.setattr(cute.arch, "sync_threads", lambda: None)
    line = next(n for n, t in enumerate(LIBRARY.splitlines(), 1) if t.endswith("# LAUNCH"))
    assert main(["check", str(path), "--seeds=1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  in a kernel of the library, launched by")
    assert lines[at + 1].startswith(f"  {path}:{line}:1  in multiply")
    assert "return gemm(a, a" in lines[at + 2]
    assert any(text.endswith("in check_gemm") for text in lines[at:])
