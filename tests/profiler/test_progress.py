from __future__ import annotations

import io
import time

import pytest

from tilewright.profiler.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wait_for(stream: io.StringIO) -> None:
    deadline = time.monotonic() + 10
    while not stream.getvalue() and time.monotonic() < deadline:
        time.sleep(0.005)


def test_nothing_is_written_about_what_is_quick() -> None:
    stream = Terminal()
    with Progress("simulating", stream, delay=60):
        pass
    assert stream.getvalue() == ""


def test_one_plain_line_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with Progress("simulating", stream, delay=0.01):
        wait_for(stream)
        time.sleep(0.05)
    assert stream.getvalue() == "simulating ...\n"


def test_a_moving_line_on_a_terminal_is_gone_at_the_end() -> None:
    stream = Terminal()
    with Progress("simulating", stream, delay=0.01):
        wait_for(stream)
    assert stream.getvalue().startswith("\r| simulating  0 s")
    assert stream.getvalue().endswith(" \r")


def test_an_error_passes_through() -> None:
    with pytest.raises(ZeroDivisionError), Progress("dividing", Terminal()):
        _ = 1 // 0
