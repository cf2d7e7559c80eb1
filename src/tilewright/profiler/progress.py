"""A line on stderr that says what is going on, once it takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

_DELAY_S = 1.0
_FRAMES = "|/-\\"


class Progress:
    """Shows `text` and the seconds gone by while the `with` block runs.

    On a terminal: one line that moves, and is gone at the end.  Elsewhere: one plain line, once.
    Nothing at all is written if the block takes less than `delay` seconds.

    >>> with Progress("simulating"):
    ...     result = 1 + 1
    """

    def __init__(self, text: str, stream: TextIO | None = None, delay: float = _DELAY_S) -> None:
        self.text = text
        self.stream = stream if stream is not None else sys.stderr
        self.delay = delay
        self.moving = self.stream.isatty()
        self.shown = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._start = 0.0

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if self.moving and self.shown:
            self.stream.write("\r" + " " * self.shown + "\r")
            self.stream.flush()

    def _show(self) -> None:
        frame = 0
        pause = self.delay
        while not self._done.wait(pause):
            seconds = time.monotonic() - self._start
            if self.moving:
                line = f"{_FRAMES[frame % len(_FRAMES)]} {self.text}  {seconds:.0f} s"
                self.stream.write("\r" + line)
            else:
                line = f"{self.text} ..."
                self.stream.write(line + "\n")
            self.stream.flush()
            self.shown = max(self.shown, len(line))
            if not self.moving:
                return
            frame, pause = frame + 1, 0.2
