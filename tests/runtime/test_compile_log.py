"""Logs of NVRTC and ptxas, as they were seen, become values."""

from tilewright.errors import Loc
from tilewright.runtime.compile_log import (
    Diagnostic,
    KernelResources,
    parse_errors,
    parse_resources,
    parse_warnings,
    ptx_place,
)

LOG = """\
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : (C7517) wgmma.wait_group is injected in around line 5 by compiler in function 'k'
ptxas info    : (C7517) wgmma.wait_group is injected in around line 5 by compiler in function 'k'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'big' for 'sm_90a'
ptxas info    : Function properties for big
ptxas         .     1632 bytes stack frame, 2392 bytes spill stores, 2896 bytes spill loads
ptxas info    : Function properties for helper
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 1640 bytes cumulative stack size
ptxas info    : Compiling entry function 'add' for 'sm_90a'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 128 bytes smem, 364 bytes cmem[0]
"""
PTX = """\
.version 9.5
\t.loc\t1 41 0
add.f32 %f1, %f2, %f3;
\t.loc\t2 77 9, function_name $L__info_string0, inlined_at 1 43 1
wgmma.wait_group.sync.aligned 0;
\t.file\t1 "/home/me/gemm.py"
\t.file\t2 "/home/me/mainloop.py"
"""


def test_resources_are_per_entry_and_include_called_functions() -> None:
    assert parse_resources(LOG) == {
        "big": KernelResources(32, 2396, 2908, 0, 1632),
        "add": KernelResources(10, 0, 0, 128, 0),
    }
    assert parse_resources("") == {}


def test_each_warning_once_with_the_python_line() -> None:
    first, second = parse_warnings(LOG, PTX)
    assert (first.code, first.file) == ("C7510", "")
    assert (second.code, second.file, second.line) == ("C7517", "/home/me/mainloop.py", 77)
    assert second.loc() == Loc("/home/me/mainloop.py", 77)
    assert first.loc() is None


def test_front_end_errors_cite_the_file_of_the_line_directive() -> None:
    log = "\n".join(
        [
            'a (1)/gemm.py(41): error: identifier "x" is undefined',
            "  a[0] = x;",
            '/k.cu(2): catastrophic error: could not open source file "cuda_fp16.h"',
            "2 errors detected",
        ]
    )
    assert parse_errors(log) == (
        Diagnostic('error: identifier "x" is undefined', "", "a (1)/gemm.py", 41),
        Diagnostic('catastrophic error: could not open source file "cuda_fp16.h"', "", "/k.cu", 2),
    )


def test_ptxas_errors_are_led_back_to_python() -> None:
    log = "ptxas application ptx input, line 3; error   : Unknown modifier '.bar'"
    assert parse_errors(log, PTX) == (
        Diagnostic("ptxas: Unknown modifier '.bar'", "", "/home/me/gemm.py", 41),
    )


def test_errors_without_a_place() -> None:
    assert parse_errors("nvrtc: error: unrecognized option --x found") == (
        Diagnostic("unrecognized option --x found"),
    )
    assert parse_errors(" ptxas error   : Entry function 'k' uses too much shared data") == (
        Diagnostic("Entry function 'k' uses too much shared data"),
    )


def test_a_ptx_line_before_any_mark_has_no_place() -> None:
    assert ptx_place(PTX, 1) == ("", 0)
    assert ptx_place("", 7) == ("", 0)
