"""Memory of our own on the GPU, and launches of the simulator that are replayed in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SCRIPT = """
import numpy as np
from tilewright.runtime.device_buffer import DeviceBuffer, device_buffers
data = np.arange(100, dtype=np.uint8)
with device_buffers([(100, 0x12345), (0, 7)]) as (buffer, empty):
    print(buffer.address % 4096 == 0x345, empty.address % 4096)
    buffer.write(data)
    back = np.zeros(100, np.uint8)
    buffer.read(back)
    buffer.clear()
    empty.write(back[:0]), empty.read(back[:0]), empty.clear()
    zero = np.ones(100, np.uint8)
    buffer.read(zero)
    print((back == data).all(), zero.any())
"""


def test_bytes_go_and_come_back(run_fake: Callable) -> None:
    run = run_fake(SCRIPT)
    assert run.output == ["True 7", "True False"]
    assert [r["bytes"] for r in run.named("up")] == [100], "nothing to copy, no call"
    made, freed = run.named("alloc"), run.named("free")
    assert {r["address"] for r in made} == {r["address"] for r in freed}


def test_a_full_gpu_says_what_to_do(run_fake: Callable) -> None:
    script = (
        "from tilewright.errors import LaunchError\n"
        "from tilewright.runtime.device_buffer import DeviceBuffer\n"
        "try: DeviceBuffer(1 << 20)\n"
        "except LaunchError as e: print(e.message)\n"
    )
    assert run_fake(script, fail="cuMemAlloc=1").output == [
        "cuMemAlloc failed: CUDA_ERROR_INVALID_VALUE (invalid argument)"
    ]


LAUNCH = """
from types import SimpleNamespace
import numpy as np
from tilewright.compiler import gpu_launch
gpu_launch.compile_cached = lambda *a, **k: SimpleNamespace(compiled=SimpleNamespace(cubin=b"ELF"))
from tilewright.compiler.gpu_launch import replay
from tilewright.compiler.record import instrument, replayed
from tilewright.errors import LaunchError
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Func
from tilewright.ir.ops import control, memory, sync
from tilewright.ir.types import PtrType, ScalarType, Space, TensorMapType
from tilewright.numeric.dtypes import F32, I32
from tilewright.sim.machine import Launch, TensorMap
from tilewright.sim.memory import GlobalMemory
pointer = PtrType(F32, Space.GMEM, 4)
body = Block([pointer, TensorMapType(), ScalarType(I32), pointer], ["x", "map", "n", "none"])
b = Builder(body)
b.emit(sync.SyncThreads)
b.emit(control.Return)
func = Func("k", body)
memory = GlobalMemory()
x, y = np.arange(64, dtype=np.uint8), np.arange(4096, dtype=np.int32).view(np.uint8)
at = memory.map(x, "x", 0x7F0), memory.map(y, "y", 0)
map = TensorMap("f32", at[1] + 256, (32, 16), (512,), (32, 8), l2_promotion=128)
launch = Launch(func, (3, 1, 1), (64, 1, 1), args=(at[0] + 8, map, 7, 0))
"""
PLAIN = """
before = memory.contents()
replay(launch, memory)
print(all((w.data == b).all() for w, b in zip(memory.windows, before)))
wrong = Launch(func, (3, 1, 1), (64, 1, 1), args=(12345, map, 7, 0))
try: replay(wrong, memory)
except LaunchError as e: print(e.message)
"""
RECORD = """
made = instrument(launch, 2, 7)
found = replayed(made, memory, warm=2)
print(found.device, found.clock_ghz, found.events, found.blocks, found.dropped)
"""


def word(record: dict[str, Any], index: int, size: int = 8) -> int:
    """Parameter `index` of a launch."""
    return int.from_bytes(bytes.fromhex(record["params"][index])[:size], "little")


def test_replay_moves_buffers_and_addresses(run_fake: Callable) -> None:
    run = run_fake(LAUNCH + PLAIN, params="8 8 4 8")
    assert run.output[0] == "True"
    assert run.output[1].startswith("replay k: x points into no buffer (")
    assert run.output[1].endswith("bytes before the start of x (64 bytes))")
    (launch,) = run.named("launch")
    assert (launch["grid"], launch["block"]) == ([3, 1, 1], [64, 1, 1])
    x, y = (r["address"] for r in run.named("up")[:2])
    assert (x % 4096, y % 4096) == (0x7F0, 0)
    assert (word(launch, 0), word(launch, 2, 4), word(launch, 3)) == (x + 8, 7, 0)
    encoded = run.named("encode")[0]
    assert encoded["address"] == y + 256
    assert (encoded["dims"], encoded["strides"]) == ([32, 16], [512])


def test_the_record_buffer_is_cleared_before_each_run(run_fake: Callable) -> None:
    run = run_fake(LAUNCH + RECORD, params="8 8 4 8 8")
    assert run.output == ["Paper GPU 0 1.98 () () 0"]
    launches, fills = run.named("launch"), run.named("fill")
    assert len(launches) == 3, "two warm runs, and the one that counts"
    # 2 blocks of 64 threads with 8 entries of 16 bytes.
    assert [f["bytes"] for f in fills] == [2 * 64 * 8 * 16] * 3
    assert {word(r, 4) for r in launches} == {f["address"] for f in fills}
    made, freed = run.named("alloc"), run.named("free")
    assert sorted(r["address"] for r in made) == sorted(r["address"] for r in freed)
