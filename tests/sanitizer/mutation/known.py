"""Mutants that no run objects to, and why; the test fails for one that is not listed, or is found.

An *equivalent* mutant does exactly what the kernel does.  The others are wrong, and the checks
cannot see it.
"""

from __future__ import annotations

from dataclasses import dataclass

from mutation.mutants import Site


@dataclass(frozen=True)
class Known:
    """One survivor: the operation, the change, and the function that it is in, or it < its caller.

    `number` counts the places in that function and caller with the same operation and change.
    `schedules`: where it survives, if not everywhere.
    """

    op: str
    change: str
    file: str
    function: str
    number: int
    equivalent: bool
    reason: str
    schedules: tuple[str, ...] = ()

    def covers(self, site: Site, schedule: str) -> bool:
        here = (site.op, site.change, site.file, site.number)
        return (
            here == (self.op, self.change, self.file, self.number)
            and self.function in (site.function, site.function.partition(" < ")[0])
            and (not self.schedules or schedule in self.schedules)
        )


_EVERYONE = "threads that committed no bulk group have none to wait for"
_LEFTOVERS = "the last copies are not read by anyone, and a block that ends waits for them"
_NEVER_STORED = (
    "nobody finds itself to be the last, so that a tile is never stored: every access is in order, "
    "only the numbers are wrong"
)
_SHARED = "every tile of a split K is shared: the condition holds for all"
_SPLITS = ("split K", "atomics", "cluster", "serial")
_LAST_STORES = ("split K", "atomics", "stream-K, atomics")
_STALE_SUMS = (
    "the first part adds what the launch before has left at its place: every access is in order, "
    "only the numbers are wrong, and only from the second launch on"
)
_ARRIVAL = (
    "only reads of the sums come before the arrival, which releases reads by itself, as in the ring"
)
_FIRST_TILE = "the wait before the first tile is for a phase that a fresh barrier has behind it"
_READS = "the threads that have no part read places that exist, and what they read is not used"

KNOWN = (
    Known("if", "always", "sm90_store.py", "tile", 1, True, _EVERYONE),
    Known("if", "always", "sm90_store.py", "finish", 1, True, _EVERYONE),
    Known("copy.cp_async_wait", "deleted", "sm80_gemm.py", "multiply", 3, True, _LEFTOVERS),
    Known("copy.cp_async_wait", "pending + 1", "sm80_gemm.py", "multiply", 3, True, _LEFTOVERS),
    # Blocks that share tiles.
    Known("if", "always", "sm90_gemm.py", "finish_piece", 1, True, _SHARED, _SPLITS),
    Known("if", "always", "workspace.py", "touch", 1, True, "all threads add 0 instead of one"),
    Known("if", "always", "workspace.py", "reset", 1, True, "all threads write 0 instead of one"),
    Known("if", "always", "workspace.py", "wait_for", 1, True, "all threads look instead of one"),
    Known("if", "always", "workspace.py", "count", 1, False, _NEVER_STORED, _LAST_STORES),
    Known("sync.barrier", "deleted", "workspace.py", "sync < told", 2, True,
          "the flag's next write comes behind the barrier of `count`", _LAST_STORES),
    Known("if", "always", "serial.py", "collect", 1, False, _STALE_SUMS),
    Known("arith.cmp", "off by one", "serial.py", "collect", 1, False, _STALE_SUMS),
    Known("sync.threads", "deleted", "sm90_gemm.py", "start", 1, True,
          "the cluster's barrier comes right behind it", ("cluster", "multicast")),
    Known("sync.barrier", "deleted", "cluster.py", "next_tile", 1, False,
          "in the simulator a warpgroup's instructions bring its warps together anyway"),
    Known("fence.acq_rel", "deleted", "cluster.py", "receive", 1, True, _ARRIVAL),
    Known("fence.acq_rel", "narrower", "cluster.py", "receive", 1, True, _ARRIVAL),
    Known("arith.cmp", "off by one", "cluster.py", "wait_until_read", 1, True, _FIRST_TILE),
    Known("if", "always", "cluster.py", "wait_until_read", 1, True, _FIRST_TILE),
    # A block for each tile.
    Known("mbarrier.arrive", "deleted", "pipeline.py", "consumer_release < finish", 1, True,
          "all that is loaded has been loaded", ("warp-specialised", "unspecialised")),
    Known("if", "always", "sm90_gemm.py", "start", 1, False,
          "in the simulator a warpgroup initialises barriers at once, all with the same counts",
          ("unspecialised",)),
    # No TMA, no cluster: the barriers are the block's own.
    Known("fence.mbarrier_init", "deleted", "sm90_cpasync_gemm.py", "sm90_cpasync_gemm_kernel", 1,
          True, "only threads of the block use the barriers, and sync_threads is there for those"),
    # Few outputs, long K.
    Known("sync.threads", "deleted", "sm90_long_k_gemm.py", "add_cluster", 1, True,
          "each thread writes only what it alone has read before"),
    Known("if", "always", "sm90_long_k_gemm.py", "long_k_gemm_kernel", 1, True, _READS),
    Known("if", "always", "sm90_long_k_gemm.py", "add_cluster", 2, True, _READS),
    Known("if", "always", "sm90_long_k_gemm.py", "add_clusters", 4, False, _NEVER_STORED),
)  # fmt: skip
