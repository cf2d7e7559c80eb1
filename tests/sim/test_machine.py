"""What a caller sees of a run: counters, watchers, internal failures."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import SimulationError
from tilewright.ir.ops import copy, memory, sync
from tilewright.numeric.dtypes import F32, U16, U32, U64
from tilewright.sim.build import program_of
from tilewright.sim.machine import Launch, simulate


class Recorder:
    def __init__(self):
        self.accesses, self.syncs = [], []

    def access(self, g, window, kind, address, bounds, size, op, lanes, data):
        assert lanes is None
        assert (data is not None) == (kind == "write")
        assert bounds == (np.min(address), np.max(address))
        space = "smem" if window is g.cta.smem else "gmem"
        self.accesses.append((g.name(), space, kind, size, op.name))

    def sync(self, g, kind, what, op):
        assert what is not None
        self.syncs.append((g.name(), kind, op.name))


def test_watchers_are_told_of_accesses_and_synchronisation(kit):
    k = kit(kit.gmem(F32))
    (x,) = k.args
    s = k.shared(F32, 32)
    k.store(s, k.tid(), k.load(x, k.tid()))
    k.do(sync.SyncThreads)
    k.load(s, 0, count=4)
    seen = Recorder()
    address = k.map(np.zeros(32, np.float32), "x")
    also = Recorder()
    launch = Launch(k.func(), (1, 1, 1), (32, 1, 1), args=(address,))
    simulate(launch, k.memory, watchers=[seen, also])
    who = "block (0, 0, 0), warp 0"
    assert seen.accesses == [
        (who, "gmem", "read", 4, "mem.load"),
        (who, "smem", "write", 4, "mem.store"),
        (who, "smem", "read", 16, "mem.load"),
    ]
    assert seen.syncs == [(who, "arrive", "sync.threads"), (who, "wait", "sync.threads")]
    assert (also.accesses, also.syncs) == (seen.accesses, seen.syncs)


def test_counters(kit):
    k = kit(kit.gmem(F32))
    (x,) = k.args
    k.store(x, k.tid(), k.load(x, k.tid()))
    report = k.run(np.zeros(64, np.float32), block=64)
    want = {"global_read_bytes": 256, "global_written_bytes": 256, "instructions.mem": 8}
    assert want.items() <= report.counters.items()


def test_programs_are_built_once_per_function(kit):
    k = kit()
    func = k.func()
    assert program_of(func) is program_of(func)
    func.body = type(func.body)()
    func.body.ops = k.body.ops[-1:]
    assert program_of(func).body is func.body


def test_runs_are_reproducible(kit):
    def once():
        k = kit(kit.gmem(F32))
        k.load(k.args[0], k.add(k.tid(), 40))
        return k.run(np.zeros(64, np.float32), quiet=True).findings

    assert once() == once()


def test_a_failure_of_the_simulator_names_the_operation_and_the_line(kit):
    k = kit()
    r = k.registers(U16, 3, "odd")
    k.v(memory.CastPointer, r, dtype="u32", align=4)
    with pytest.raises(SimulationError, match=r"executing mem.cast failed: ValueError") as e:
        k.run()
    assert e.value.loc is not None
    assert e.value.loc.file == __file__


def test_setmaxnreg_wants_a_whole_warpgroup(kit):
    k = kit()
    k.if_(
        k.cmp("lt", k.tid(), 64),
        lambda: k.do(sync.SetMaxRegister, count=40, increase=False),
    )
    report = k.run(block=128, quiet=True)
    assert [f.kind for f in report.findings] == ["aligned_divergence"]
    assert "setmaxnreg is executed by 64 threads" in report.findings[0].message


def test_multicast_to_a_cta_that_does_not_exist(kit, tensor_map):
    k = kit(kit.tensormap())
    s, bar = k.shared(U32, 32, 128), k.shared(U64, 1, 8, "full")
    k.do(sync.MBarrierInit, bar, k.u32(1))
    k.do(sync.MBarrierArriveExpectTx, bar, k.u32(128))
    k.do(copy.TmaLoadMulticast, k.args[0], s, bar, k.c(5, U16), 0, 0)
    k.do(sync.MBarrierWait, bar, k.u32(0))
    tensor = tensor_map("f32", k.map(np.zeros((8, 8), np.float32)), (8, 8), (32,), (4, 8))
    report = k.run(tensor, block=1, quiet=True)
    assert [f.kind for f in report.findings] == ["descriptor"]
    assert "mask 0x5 names CTAs beyond the cluster's 1" in report.findings[0].message


def test_shared_addresses_carry_the_rank(kit):
    """Measured on an H200: the rank is in the top byte, and a descriptor must mask it off."""
    k = kit(kit.gmem(U32))
    s = k.shared(U32, 4)
    k.store(k.args[0], k.bid(), k.v(memory.SharedAddress, s))
    got = np.zeros(2, np.uint32)
    k.run(got, grid=2, block=1, cluster=(2, 1, 1))
    assert got.tolist() == [0x400, 0x1000400]
