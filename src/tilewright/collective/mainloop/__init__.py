"""Main loops: from operands in global memory to accumulators in registers."""
