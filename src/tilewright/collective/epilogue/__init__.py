"""Epilogues: from accumulators in registers to the output in global memory."""
