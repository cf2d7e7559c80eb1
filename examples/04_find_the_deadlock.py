"""A kernel that would hang on a GPU: the simulator says who waits for what, and where."""

import numpy as np

from tilewright import cute, dsl
from tilewright.errors import SimulationError
from tilewright.utils import SmemAllocator


@cute.kernel
def hang_kernel(x: cute.Tensor):
    tidx = cute.arch.thread_idx()[0]
    ready = SmemAllocator().allocate_array(dsl.Uint64, 1, label="ready")
    if tidx == 0:
        cute.arch.mbarrier_init(ready, 2)  # two arrivals are expected ...
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    if tidx == 0:
        cute.arch.mbarrier_arrive(ready)  # ... but only one ever comes
    cute.arch.mbarrier_wait(ready, 0)
    x[tidx] = dsl.Float32(1.0)


@cute.jit
def hang(x: cute.Tensor):
    hang_kernel(x).launch(grid=1, block=64)


report = ""
try:
    hang(np.zeros(64, np.float32))
except SimulationError as error:
    report = str(error)
print(report)
assert "deadlock" in report
assert "mbarrier_wait(ready, 0)" in report
