"""`cute.nvgpu.warp`."""

from tilewright.lang.cute.nvgpu.warp import *  # noqa: F403
