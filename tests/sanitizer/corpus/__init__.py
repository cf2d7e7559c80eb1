"""Planted faults and their corrected twins, one file per theme; `CASES` is the table."""

from corpus import (
    async_copies,
    block_barriers,
    bulk_copies,
    clusters,
    dependent_launch,
    distributed,
    mbarriers,
    memory,
    tensor_cores,
    tma_loads,
    tma_stores,
    warps,
)
from corpus.case import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "async_copies",
    "block_barriers",
    "bulk_copies",
    "clusters",
    "dependent_launch",
    "distributed",
    "mbarriers",
    "memory",
    "tensor_cores",
    "tma_loads",
    "tma_stores",
    "warps",
]
