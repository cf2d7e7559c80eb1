"""`cute.nvgpu.cpasync`."""

from tilewright.lang.cute.nvgpu.cpasync import *  # noqa: F403
