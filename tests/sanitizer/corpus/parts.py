"""What the kernels of the corpus share: small buffers, and rings of barriers."""

from __future__ import annotations

from tilewright import cute, dsl
from tilewright.dsl import range_constexpr
from tilewright.utils import SmemAllocator

arch = cute.arch


def shared(shape, kind=dsl.Float32, label="s", align=16):
    """A tensor in shared memory, of a layout, or of a shape of one mode or two (rows first)."""
    if isinstance(shape, tuple) and len(shape) == 2:
        layout = cute.make_layout(shape, stride=(shape[1], 1))
    else:
        layout = shape if isinstance(shape, cute.Layout) else cute.make_layout(shape)
    return SmemAllocator().allocate_tensor(kind, layout, align, label=label)


def barriers(count, arrivals, label="full"):
    """`count` initialised mbarriers; thread 0 initialises them, all wait for that."""
    made = SmemAllocator().allocate_array(dsl.Uint64, count, label=label)
    ready(made, count, arrivals)
    return made


@cute.jit
def ready(made, count, arrivals):
    if arch.thread_idx()[0] == 0:
        for i in range_constexpr(count):
            arch.mbarrier_init(made + i, arrivals)
        arch.mbarrier_init_fence()
    arch.sync_threads()
