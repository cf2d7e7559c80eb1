from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.profiler import values
from tilewright.profiler.values import Distribution, OperandPattern

entries = st.one_of(
    st.integers(-50, 500).map(lambda n: (str(n), [n])),
    st.tuples(st.integers(-20, 20), st.integers(0, 40), st.integers(1, 9)).map(
        lambda t: (f"{t[0]}:{t[0] + t[1]}:{t[2]}", list(range(t[0], t[0] + t[1] + 1, t[2])))
    ),
    st.tuples(st.integers(-20, 20), st.integers(0, 40)).map(
        lambda t: (f"{t[0]}:{t[0] + t[1]}", list(range(t[0], t[0] + t[1] + 1)))
    ),
)


@given(st.lists(entries, min_size=1, max_size=6))
def test_integers_are_the_union_in_order(items: list[tuple[str, list[int]]]) -> None:
    text = ",".join(item for item, _ in items)
    assert values.integers(text, "--m") == tuple(n for _, found in items for n in found)


@given(st.text(alphabet="0123456789:,-x ", max_size=12))
def test_integers_never_fail_otherwise(text: str) -> None:
    with contextlib.suppress(TilewrightError):
        found = values.integers(text, "--m")
        assert found
        assert all(isinstance(n, int) for n in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "--m: 'a' is not an integer or a range, expected 256 or start:end[:step]"),
        ("1:2:3:4", "--m: '1:2:3:4' is not an integer or a range, expected 256 or start:end[:st"),
        ("8,,9", "--m: '8,,9' has an empty entry"),
        ("9:8", "--m: range '9:8' is empty, expected start <= end and a step of 1 or more"),
        ("1:9:0", "--m: range '1:9:0' is empty, expected start <= end and a step of 1 or more"),
        ("0:999999", "--m: range '0:999999' has 1,000,000 values, the limit is 100,000"),
    ],
)
def test_bad_integers(text: str, message: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        values.integers(text, "--m")
    assert caught.value.message.startswith(message)


def test_sizes_and_counts() -> None:
    assert values.sizes("0,5", "--m") == (0, 5)
    with pytest.raises(TilewrightError, match="--m: -1, expected 0 or more"):
        values.sizes("-1", "--m")
    with pytest.raises(TilewrightError, match="--stages: 0, expected 1 or more"):
        values.counts("2,0", "--stages")


def test_numbers() -> None:
    assert values.numbers("1,-0.5,2e3", "--alpha") == (1.0, -0.5, 2000.0)
    with pytest.raises(TilewrightError, match="--alpha: 'x' is not a number"):
        values.numbers("x", "--alpha")
    with pytest.raises(TilewrightError, match="--alpha: 'nan', expected a finite number"):
        values.numbers("nan", "--alpha")


@given(
    st.lists(
        st.tuples(st.sampled_from(["f16", "bf16", "f32", "*"]), st.sampled_from("tn*")),
        min_size=1,
        max_size=4,
    )
)
def test_operands_round_trip(items: list[tuple[str, str]]) -> None:
    found = values.operands(",".join(f"{t}:{x}" for t, x in items), "--A")
    assert values.operands(",".join(map(str, found)), "--A") == found
    assert [p.dtype for p in found] == [t for t, _ in items]


def test_operand_patterns_match() -> None:
    assert OperandPattern("f16", "*").matches("f16", "row")
    assert not OperandPattern("f16", "*").matches("bf16", "row")
    assert not OperandPattern("*", "column").matches("bf16", "row")


def test_bad_operands() -> None:
    with pytest.raises(TilewrightError) as caught:
        values.operands("f16:diagonal", "--A")
    assert caught.value.message == (
        "--A: 'f16:diagonal' has layout 'diagonal', expected row or column (t or n, * for any)"
    )
    with pytest.raises(TilewrightError) as caught:
        values.operands("bf61:row", "--A")
    assert caught.value.message.startswith("--A: 'bf61' is not an element type; near names: bf16")


def test_tags_and_choices() -> None:
    assert values.tags("a:1,b:x:y", "--tags") == (("a", "1"), ("b", "x:y"))
    with pytest.raises(TilewrightError, match="--tags: 'a', expected column:value"):
        values.tags("a", "--tags")
    assert values.choices("Host", "--p", {"host": 1}) == (1,)
    with pytest.raises(TilewrightError, match="--p: 'gpu', expected host, device"):
        values.choices("host,gpu", "--p", {"host": 1, "device": 2})


def test_distributions() -> None:
    assert values.distribution("gaussian", "--dist") == Distribution()
    assert values.distribution("uniform,min:-4,max:4", "--dist") == Distribution("uniform", -4, 4)
    found = values.distribution("sequential,start:2,delta:3,scale:1", "--dist")
    assert found == Distribution("sequential", 2, 3, 1)
    with pytest.raises(TilewrightError, match="--dist: 'zeros', expected gaussian, uniform, seq"):
        values.distribution("zeros", "--dist")
    with pytest.raises(TilewrightError, match="--dist: uniform has no 'mean', expected min, max"):
        values.distribution("uniform,mean:1", "--dist")
