"""Building blocks of kernels, in our own DSL: pipelines, schedulers, mainloops, epilogues."""
