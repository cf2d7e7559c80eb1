"""`cute.arch`: thread indices, barriers, fences, shuffles: what the instruction set offers."""

from tilewright.lang.cute.arch import *  # noqa: F403
