"""Barriers, fences, warp collectives and special registers."""

from __future__ import annotations

from tilewright.codegen.cuda.emit_copy import issue, plain
from tilewright.codegen.cuda.emit_memory import shared_address
from tilewright.codegen.cuda.emitter import Emitter, emits
from tilewright.codegen.cuda.expr import Expr, call, cast, literal, number
from tilewright.codegen.cuda.prelude import asm, function
from tilewright.codegen.cuda.spelling import ctype
from tilewright.ir.core import Op
from tilewright.ir.ops import sync
from tilewright.ir.types import element_type
from tilewright.numeric.dtypes import BOOL, U32

_ALL_LANES = Expr("0xffffffffu", literal=True)


@emits(sync.SyncThreads)
def sync_threads(em: Emitter, op: sync.SyncThreads) -> None:
    em.statement(op, "__syncthreads();")


@emits(sync.SyncWarp)
def sync_warp(em: Emitter, op: sync.SyncWarp) -> None:
    mask = "" if op.mask == 0xFFFFFFFF else literal(op.mask, U32).text
    em.statement(op, f"__syncwarp({mask});")


def _named_barrier(em: Emitter, op: sync.BarrierSync | sync.BarrierArrive, word: str) -> None:
    helper = f"barrier_{word}"
    body = asm(f"barrier.{word}.aligned %0, %1;", "", '"r"(id), "r"(threads)')
    text = function(f"void {helper}(u32 id, u32 threads)", body)
    issue(em, op, helper, text, *(_plain(em.expr(v)) for v in (op.id, op.count)))


def _plain(e: Expr) -> Expr:
    """An argument whose parameter has a type of its own needs no suffix."""
    return Expr(e.plain, e.level, literal=True) if e.literal and e.plain else e


@emits(sync.BarrierSync)
def barrier_sync(em: Emitter, op: sync.BarrierSync) -> None:
    _named_barrier(em, op, "sync")


@emits(sync.BarrierArrive)
def barrier_arrive(em: Emitter, op: sync.BarrierArrive) -> None:
    _named_barrier(em, op, "arrive")


def _mbarrier(em: Emitter, op: Op, helper: str, instruction: str, parameter: str = "") -> None:
    """An instruction on the mbarrier of operand 0 and, with `parameter`, one number."""
    inputs = '"r"(bar)' + (f', "r"({parameter})' if parameter else "")
    text = function(
        f"void {helper}(u32 bar{f', u32 {parameter}' if parameter else ''})",
        asm(instruction, "", inputs),
    )
    args = [shared_address(em, op.operands[0])]
    args += [_plain(em.expr(v)) for v in op.operands[1:]]
    issue(em, op, helper, text, *args)


@emits(sync.MBarrierInit)
def mbarrier_init(em: Emitter, op: sync.MBarrierInit) -> None:
    _mbarrier(em, op, "mbarrier_init", "mbarrier.init.shared::cta.b64 [%0], %1;", "count")


@emits(sync.MBarrierArrive)
def mbarrier_arrive(em: Emitter, op: sync.MBarrierArrive) -> None:
    # The form that returns a state is the only one on sm_80.
    text = function(
        "void mbarrier_arrive(u32 bar)",
        asm("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}", "", '"r"(bar)'),
    )
    issue(em, op, "mbarrier_arrive", text, shared_address(em, op.barrier))


@emits(sync.MBarrierArriveRemote)
def mbarrier_arrive_remote(em: Emitter, op: sync.MBarrierArriveRemote) -> None:
    # NOTE: `.release.cluster` here costs a MEMBAR.ALL.GPU in every k-block (measured: 28 %).
    _mbarrier(
        em,
        op,
        "mbarrier_arrive_remote",
        "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}",
        "rank",
    )


@emits(sync.MBarrierArriveExpectTx)
def mbarrier_arrive_expect_tx(em: Emitter, op: sync.MBarrierArriveExpectTx) -> None:
    word = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
    _mbarrier(em, op, "mbarrier_arrive_expect_tx", word, "bytes")


@emits(sync.MBarrierExpectTx)
def mbarrier_expect_tx(em: Emitter, op: sync.MBarrierExpectTx) -> None:
    word = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
    _mbarrier(em, op, "mbarrier_expect_tx", word, "bytes")


@emits(sync.MBarrierWait)
def mbarrier_wait(em: Emitter, op: sync.MBarrierWait) -> None:
    # NOTE: no trap in this loop: it would cost the kernel its setmaxnreg budget (C7512).
    # The default is `.acquire.cta`; `.acquire.cluster` adds a CCTL.IVALL: it drops the L1.
    _mbarrier(
        em,
        op,
        "mbarrier_wait",
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra through;\nbra again;\nthrough:\n}",
        "parity",
    )


@emits(sync.MBarrierTryWait)
def mbarrier_try_wait(em: Emitter, op: sync.MBarrierTryWait) -> None:
    body = asm(
        "{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n}",
        '"=r"(done)',
        '"r"(bar), "r"(parity)',
    )
    text = function(
        "bool mbarrier_try_wait(u32 bar, u32 parity)", "u32 done;", body, "return done;"
    )
    helper = em.prelude.use("mbarrier_try_wait", text)
    em.effect_value(op, call(helper, shared_address(em, op.barrier), _plain(em.expr(op.parity))))


@emits(sync.FenceMBarrierInit)
def fence_mbarrier_init(em: Emitter, op: sync.FenceMBarrierInit) -> None:
    plain(em, op, "fence_mbarrier_init", "fence.mbarrier_init.release.cluster;")


@emits(sync.FenceProxyAsync)
def fence_proxy_async(em: Emitter, op: sync.FenceProxyAsync) -> None:
    suffix, name = (".shared::cta", "_shared") if op.space == "shared" else ("", "")
    plain(em, op, f"fence_proxy_async{name}", f"fence.proxy.async{suffix};")


@emits(sync.FenceAcqRel)
def fence_acq_rel(em: Emitter, op: sync.FenceAcqRel) -> None:
    plain(em, op, f"fence_acq_rel_{op.scope}", f"fence.acq_rel.{op.scope};")


@emits(sync.ClusterArrive)
def cluster_arrive(em: Emitter, op: sync.ClusterArrive) -> None:
    relaxed = op.relaxed
    plain(
        em,
        op,
        "cluster_arrive" + ("_relaxed" if relaxed else ""),
        f"barrier.cluster.arrive{'.relaxed' if relaxed else ''}.aligned;",
    )


@emits(sync.ClusterWait)
def cluster_wait(em: Emitter, op: sync.ClusterWait) -> None:
    plain(em, op, "cluster_wait", "barrier.cluster.wait.aligned;")


@emits(sync.SetMaxRegister)
def set_max_register(em: Emitter, op: sync.SetMaxRegister) -> None:
    word = "inc" if op.increase else "dec"
    helper = f"setmaxnreg_{word}"
    body = asm(f"setmaxnreg.{word}.sync.aligned.u32 %0;", "", '"n"(count)')
    em.prelude.use(helper, "template <int count> " + function(f"void {helper}()", body))
    em.statement(op, f"{helper}<{op.count}>();")


@emits(sync.ElectOne)
def elect_one(em: Emitter, op: sync.ElectOne) -> None:
    body = asm(
        "{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}",
        '"=r"(chosen)',
        "",
        memory=False,
    )
    helper = em.prelude.use(
        "elect_one", function("bool elect_one()", "u32 chosen;", body, "return chosen;")
    )
    em.effect_value(op, Expr(f"{helper}()"))


_SHUFFLE = {
    "idx": "__shfl_sync",
    "up": "__shfl_up_sync",
    "down": "__shfl_down_sync",
    "bfly": "__shfl_xor_sync",
}


@emits(sync.WarpShuffle)
def warp_shuffle(em: Emitter, op: sync.WarpShuffle) -> None:
    a, lane = em.expr(op.a), _plain(em.expr(op.lane))
    args = [_ALL_LANES, a, lane] + ([number(op.width)] if op.width != 32 else [])
    shuffled = call(_SHUFFLE[op.mode], *args)
    t = element_type(op.a.type)
    # There are shuffles of 32 and 64 bits: narrower values travel as int.
    narrow = t.bits < 32
    em.effect_value(op, cast(ctype(t), shuffled) if narrow else shuffled)


@emits(sync.WarpVote)
def warp_vote(em: Emitter, op: sync.WarpVote) -> None:
    word = call(f"__{op.mode}_sync", _ALL_LANES, em.expr(op.a))
    em.effect_value(op, cast(ctype(BOOL), word) if op.mode != "ballot" else word)


@emits(sync.WarpUniform)
def warp_uniform(em: Emitter, op: sync.WarpUniform) -> None:
    a = em.expr(op.a)
    t = element_type(op.a.type)
    shuffled = call("__shfl_sync", _ALL_LANES, Expr(a.short, reads=a.reads), number(0))
    em.effect_value(op, cast(ctype(t), shuffled) if t.bits < 32 else shuffled)


_AXIS = "xyz"
_BUILTIN = {
    "thread_idx": ("threadIdx", "thread"),
    "block_idx": ("blockIdx", "block"),
    "block_dim": ("blockDim", "threads"),
    "grid_dim": ("gridDim", "blocks"),
}
_REGISTER = {
    "cluster_dim": "cluster_nctaid",
    "block_in_cluster": "cluster_ctaid",
    "cluster_rank": "cluster_ctarank",
    "lane": "laneid",
    "smid": "smid",
}


@emits(sync.Special)
def special(em: Emitter, op: sync.Special) -> None:
    axis = _AXIS[op.axis]
    known = _BUILTIN.get(op.register)
    if known:
        builtin, hint = known
        em.define(op.result, cast("int", Expr(f"{builtin}.{axis}")), f"{hint}_{axis}")
        return
    if op.register == "clock":
        em.materialise(op.result, Expr("clock64()"), "now")
        return
    register = _REGISTER[op.register]
    if op.register in ("cluster_dim", "block_in_cluster"):
        register += f".{axis}"
    helper = f"read_{op.register}" + (f"_{axis}" if "." in register else "")
    body = asm(f"mov.u32 %0, %%{register};", '"=r"(r)', "", memory=False, volatile=False)
    em.prelude.use(helper, function(f"int {helper}()", f"int r; {body}", "return r;"))
    em.define(op.result, Expr(f"{helper}()"), op.register)


@emits(sync.GridDependencyWait)
def grid_wait(em: Emitter, op: sync.GridDependencyWait) -> None:
    plain(em, op, "grid_wait", "griddepcontrol.wait;")


@emits(sync.GridDependencyLaunch)
def grid_launch(em: Emitter, op: sync.GridDependencyLaunch) -> None:
    plain(em, op, "grid_launch_dependents", "griddepcontrol.launch_dependents;")
