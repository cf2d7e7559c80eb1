"""Building blocks of kernels, in our own DSL: pipelines and tile schedulers."""
