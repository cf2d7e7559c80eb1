"""The laws that rows are checked with, against enumeration."""

from hypothesis import given
from hypothesis import strategies as st

from tilewright.arch.thread_value import is_broadcast, is_compact, mode_offsets, tv_table
from tilewright.layout.layout import Layout

MODES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=4)


@given(MODES)
def test_mode_offsets_is_the_layout_in_order(modes: list[tuple[int, int]]) -> None:
    shape, stride = (tuple(m[i] for m in modes) for i in (0, 1))
    layout = Layout(shape, stride)
    offsets = mode_offsets(shape, stride)
    assert list(offsets) == [layout(i) for i in range(len(offsets))]


@given(MODES)
def test_is_compact_is_a_bijection(modes: list[tuple[int, int]]) -> None:
    shape, stride = (tuple(m[i] for m in modes) for i in (0, 1))
    offsets = sorted(mode_offsets(shape, stride))
    assert is_compact(shape, stride, len(offsets)) == (offsets == list(range(len(offsets))))


def test_tv_table_rows_are_threads() -> None:
    layout = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    table = tv_table(layout)
    assert len(table) == 32
    assert all(table[t][v] == layout((t, v)) for t in range(32) for v in range(4))


def test_broadcast_threads_share_their_row() -> None:
    layout = Layout((128, (8, 2)), (0, (1, 8)))
    assert is_broadcast(layout)
    table = tv_table(layout)
    assert all(row is table[0] for row in table)
