"""`cute.nvgpu`: the operations of NVIDIA GPUs from which atoms are made."""

from tilewright.lang.cute.nvgpu import *  # noqa: F403
