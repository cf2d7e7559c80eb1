"""`cute.nvgpu.warpgroup`."""

from tilewright.lang.cute.nvgpu.warpgroup import *  # noqa: F403
