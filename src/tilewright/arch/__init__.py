"""What the hardware has: targets, instructions as rows, shared-memory descriptors."""

from tilewright.arch.target import ALL_TARGETS, Target, target

__all__ = ["ALL_TARGETS", "Target", "target"]
