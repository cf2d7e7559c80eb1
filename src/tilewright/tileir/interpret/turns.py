"""Blocks that wait for each other: they take turns, one at a time.

Blocks run one after another, which is enough unless one spins until another has written.  A block
that may spin therefore runs in a thread of its own and hands its turn over now and then; only one
thread runs at any moment, so that nothing else changes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from tilewright.ir.core import Block, Op
from tilewright.ir.ops.tile import control, memory, views

Pause = Callable[[], None]
Job = Callable[[Pause], bool]
"""Runs a block; called with what hands over the turn; whether the others may go on."""


class _Cancelled(BaseException):
    """Unwinds a block that nobody will resume."""


class _Turn:
    """One block in its thread."""

    def __init__(self, job: Job) -> None:
        self.go = threading.Semaphore(0)
        self.back = threading.Semaphore(0)
        self.done = False
        self.cancelled = False
        self.go_on = True
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(job,), daemon=True)

    def _run(self, job: Job) -> None:
        self.go.acquire()
        try:
            if not self.cancelled:
                self.go_on = job(self.pause)
        except _Cancelled:
            self.go_on = False
        except BaseException as error:  # handed to whoever runs the launch
            self.error = error
        self.done = True
        self.back.release()

    def pause(self) -> None:
        self.back.release()
        self.go.acquire()
        if self.cancelled:
            raise _Cancelled

    def resume(self) -> None:
        """Lets the block run until it pauses or ends."""
        if not self.thread.is_alive():
            self.thread.start()
        self.go.release()
        self.back.acquire()
        if self.done:
            self.thread.join()

    def cancel(self) -> None:
        if not self.done:
            self.cancelled = True
            self.resume()


def take_turns(jobs: Iterable[Job]) -> None:
    """Runs all jobs to their end; a job that has not begun goes before those that paused.

    A job that returns False ends the others.  Raises: what a job raises, once the rest is unwound.
    """
    waiting: deque[_Turn] = deque()
    fresh = iter(jobs)
    try:
        while True:
            job = next(fresh, None)
            if job is not None:
                turn = _Turn(job)
            elif waiting:
                turn = waiting.popleft()
            else:
                return
            waiting.append(turn)
            turn.resume()
            if turn.done:
                waiting.remove(turn)
                if turn.error is not None:
                    raise turn.error
                if not turn.go_on:
                    return
    finally:
        for turn in waiting:
            turn.cancel()


def may_spin(body: Block) -> bool:
    """Whether a block may wait for another: a `loop` that reads what another may write."""
    return any(isinstance(op, control.Loop) and spins(op) for op in body.walk())


def spins(loop: Op) -> bool:
    """Whether a loop holds an atomic operation or a load that is not weak."""
    return any(_is_strong(op) for region in loop.regions for op in region.walk())


def _is_strong(op: Op) -> bool:
    if isinstance(op, memory.AtomicRMWTko | memory.AtomicCASTko):
        return True
    if isinstance(op, memory.LoadPtrTko | views.LoadViewTko):
        return op.memory_ordering_semantics != "weak"
    return False
