"""Thread IR to CUDA C++: see `kernel.emit_cuda`."""
