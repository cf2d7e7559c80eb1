"""`utils`: the shared-memory allocator and tile schedulers."""

from tilewright.collective.scheduler import RasterScheduler
from tilewright.lang.cute.smem import SmemAllocator

__all__ = ["RasterScheduler", "SmemAllocator"]
