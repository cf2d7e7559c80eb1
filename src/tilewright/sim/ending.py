"""What must be true when threads exit."""

from __future__ import annotations

from tilewright.sim.copies import INTO_SHARED, finish_all_copies, unread_store
from tilewright.sim.group import Group


def leave(g: Group) -> None:
    """The threads of `g` exit; with the last one its block ends."""
    cta, run = g.cta, g.run
    for lane, thread in enumerate(g.threads.tolist()):
        store = unread_store(cta, thread)
        if store is not None:
            g.report(
                "in_flight",
                "the thread exits before its bulk store has read shared memory, which the next "
                "block may overwrite",
                store.op,
                lane,
                hint="commit the store and wait for it (tma.wait) before the kernel ends",
            )
    if run.watch is not None:
        run.watch.exit(g)
    cta.exit(g)
    if cta.live:
        return
    finish_all_copies(cta)
    for w, pipe in cta.pipes.items():
        lost = [entry for group in (*pipe.groups, pipe.open) for entry in group]
        if lost:
            g.report(
                "in_flight",
                f"warpgroup {w} exits with {len(lost)} wgmmas in flight; their results are lost",
                lost[0].op,
                0,
            )
    for pending in cta.cluster.pending:
        if pending.cta is cta and pending.what in INTO_SHARED:
            run.log.add(
                "in_flight",
                f"{cta.name} exits while {pending.what} into its shared memory is in flight: "
                "nobody waited for it",
                place=pending.op,
                loc=pending.op.loc,
                agent=cta.name,
            )
