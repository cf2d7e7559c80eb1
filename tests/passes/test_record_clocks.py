"""Where record operations go, and that the kernel around them stays what it was."""

from __future__ import annotations

import pytest

from tilewright.errors import VerifyError
from tilewright.ir.core import Func, Op
from tilewright.ir.ops import record
from tilewright.ir.parser import parse_func
from tilewright.ir.printer import print_func
from tilewright.ir.verify import verify_func
from tilewright.passes.record_clocks import Site, record_clocks

HEAD = """
kernel @f(%x: ptr<f32, gmem, 16>, %n: u32, %d: u64, %yes: bool) {
  %bar = mem.alloc_shared() {dtype='u64', count=2, align=16, label='bar', offset=0} : ptr<u64, smem, 16>
  %s = mem.alloc_shared() {dtype='f32', count=64, align=16, label='s', offset=16} : ptr<f32, smem, 16>
  %acc = mem.alloc_registers() {dtype='f32', count=64, label='acc'} : ptr<f32, rmem, 16>
  %one = arith.constant() {value=1.0, dtype='f32'} : f32
  %i = arith.constant() {value=3, dtype='i32'} : i32
"""  # noqa: E501
WGMMA = "wgmma.mma(%acc, %d, %d, %yes) {atom='sm90_wgmma_m64n128k16_f32_bf16_bf16_ss'}\n"


def kernel(body: str) -> Func:
    func = parse_func(f"{HEAD}{body}\n  return()\n}}")
    verify_func(func)
    return func


def sites(body: str) -> list[tuple[str, str, int]]:
    _, found = record_clocks(kernel(body), 1, 8)
    assert [s.op for s in (found[0], found[-1])] == ["start", "exit"]
    return [(s.op, s.kind, s.count) for s in found[1:-1]]


def names(func: Func) -> list[str]:
    return [op.name for op in func.body.walk()]


def without_records(func: Func) -> list[str]:
    kept: list[Op] = []
    clocks = {op.operands[2].owner for op in func.body.walk() if isinstance(op, record.RecordSpan)}
    for op in func.body.walk():
        if not isinstance(op, record.RecordStart | record.RecordSpan) and op not in clocks:
            kept.append(op)
    return [op.name for op in kept]


def test_waits_are_events_each() -> None:
    assert sites(
        "mbarrier.wait(%bar, %n)\nsync.threads()\nsync.barrier(%n, %n)\ncluster.wait()\n"
        "copy.cp_async_wait() {pending=1}\ntma.wait() {pending=0, read=True}\n"
    ) == [
        ("mbarrier.wait", "wait", 1),
        ("sync.threads", "wait", 1),
        ("sync.barrier", "wait", 1),
        ("cluster.wait", "wait", 1),
        ("copy.cp_async_wait", "wait", 1),
        ("tma.wait", "wait", 1),
    ]


def test_arrivals_and_fences_are_none() -> None:
    assert sites("mbarrier.arrive(%bar)\nfence.proxy_async() {space='shared'}\n") == []


def test_a_group_of_wgmmas_is_one_event_with_nothing_in_between() -> None:
    func, found = record_clocks(
        kernel(f"wgmma.fence()\n{WGMMA * 3}wgmma.commit()\nwgmma.wait() {{pending=1}}"), 1, 8
    )
    assert [(s.op, s.count, s.pending) for s in found[1:-1]] == [
        ("wgmma.mma", 3, 0),
        ("wgmma.wait", 1, 1),
    ]
    order = [n for n in names(func) if n.startswith(("wgmma", "special", "record.span"))]
    assert order[2:-2] == [
        *("special", "wgmma.fence", "wgmma.mma", "wgmma.mma", "wgmma.mma", "wgmma.commit"),
        *("record.span", "special", "wgmma.wait", "record.span"),
    ]


def test_runs_of_stores_end_at_what_synchronises() -> None:
    """Rule RUN."""
    store = "%p{0} = mem.offset(%s, %i) : ptr<f32, smem, 4>\nmem.store(%p{0}, %one)\n"
    body = store.format(0) + store.format(1) + "sync.warp() {mask=4294967295}\n" + store.format(2)
    assert sites(body) == [("mem.store", "shared", 2), ("mem.store", "shared", 1)]


def test_guarded_stores_are_stores() -> None:
    """Rule GUARD: and a branch that also waits is none."""
    store = "if(%yes) ({{\n{extra}mem.store(%x, %one)\nyield()\n}}, {{\nyield()\n}})\n"
    assert sites(store.format(extra="") * 2) == [("mem.store", "global", 2)]
    mixed = store.format(extra="sync.warp() {mask=4294967295}\n")
    assert sites(mixed * 2) == [("mem.store", "global", 1)] * 2


def test_register_stores_are_arithmetic() -> None:
    assert sites("mem.store(%acc, %one)\n") == []


def test_the_original_is_untouched_and_the_copy_adds_only_records() -> None:
    func = kernel(f"sync.threads()\n{WGMMA}wgmma.commit()\nmem.store(%x, %one)")
    before = print_func(func)
    made, _ = record_clocks(func, 2, 16)
    assert print_func(func) == before
    assert without_records(made) == names(func)
    assert [v.name for v in made.args] == [*(v.name for v in func.args), "records"]


def test_text_round_trip() -> None:
    made, _ = record_clocks(kernel("mbarrier.wait(%bar, %n)"), 2, 16)
    text = print_func(made)
    assert "record.start(%records) {blocks=2, slots=16} : u32" in text
    assert print_func(parse_func(text)) == text


def test_sites_know_their_line() -> None:
    body = kernel("sync.threads()")
    _, found = record_clocks(body, 1, 8)
    wait = next(op for op in body.body.walk() if op.name == "sync.threads")
    assert found[1] == Site(1, "sync.threads", "wait", 1, wait.loc)


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({"blocks": 1, "slots": 12}, "slots must be a power of two of at least 4, got 12"),
        ({"blocks": 1, "slots": 2}, "slots must be a power of two of at least 4, got 2"),
    ],
)
def test_slots_are_a_power_of_two(attrs: dict[str, int], text: str) -> None:
    made, _ = record_clocks(kernel(""), 1, 8)
    start = next(op for op in made.body.walk() if isinstance(op, record.RecordStart))
    start.attrs.update(attrs)
    with pytest.raises(VerifyError, match=text):
        verify_func(made)


def test_sites_fit_a_tag() -> None:
    made, _ = record_clocks(kernel(""), 1, 8)
    span = next(op for op in made.body.walk() if isinstance(op, record.RecordSpan))
    span.attrs["site"] = 1 << 15
    with pytest.raises(VerifyError, match="site must be 0 to 32767, got 32768"):
        verify_func(made)
