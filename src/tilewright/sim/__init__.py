"""The machine that runs verified thread IR on the CPU.  Inside tilewright, import leaf modules."""
