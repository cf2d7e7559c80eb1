"""The race detector: happens-before by vector clocks over shadow memory."""
