"""What an epilogue computes: the tree, and which of a thread's elements are one."""

from __future__ import annotations

import doctest

import pytest

from tilewright.collective import scheduler
from tilewright.collective.epilogue import fusion
from tilewright.collective.epilogue.fusion import linear_combination, may_be_cut, same_places
from tilewright.errors import LaunchError
from tilewright.lang import cute
from tilewright.layout.basis import E


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "multiply(acc, scalar0)"),
        ({"with_c": True}, "add(multiply(acc, scalar0), multiply(tensor0, scalar1))"),
        ({"bias": True}, "add(multiply(acc, scalar0), tensor0)"),
        (
            {"with_c": True, "bias": True, "activation": "gelu_tanh"},
            "gelu_tanh(add(add(multiply(acc, scalar0), multiply(tensor0, scalar1)), tensor1))",
        ),
        ({"activation": "identity"}, "multiply(acc, scalar0)"),
    ],
)
def test_tree(arguments: dict[str, object], text: str) -> None:
    assert str(linear_combination(**arguments)) == text  # type: ignore[arg-type]


def test_an_activation_that_does_not_exist() -> None:
    with pytest.raises(LaunchError) as error:
        linear_combination(activation="swish7")
    assert str(error.value) == (
        "activation 'swish7' does not exist, expected identity, relu, gelu, gelu_tanh, silu"
    )


def test_elements_of_a_broadcast_are_loaded_once() -> None:
    fragment = (2, 2, 4)  # neighbours, rows 8 apart, columns 8 apart
    bias_of_columns = cute.make_layout(fragment, stride=(1, 0, 8))
    bias_of_rows = cute.make_layout(fragment, stride=(0, 8, 0))
    everything = cute.make_layout(fragment, stride=(1, 800, 8))
    assert len(set(same_places(bias_of_columns, 0, 16))) == 8
    assert len(set(same_places(bias_of_rows, 0, 16))) == 2
    assert same_places(everything, 8, 8) == tuple(range(8))


def test_runs_that_the_end_of_a_matrix_may_cut() -> None:
    pairs = cute.make_identity_tensor((4, 2))  # of rows: two elements of a column follow each other
    assert may_be_cut(pairs, (6, 5), 2) == 0
    assert may_be_cut(pairs, (5, 6), 2) == 1
    along_rows = cute.make_tensor(
        pairs.iterator, cute.make_layout((1, 2, 4), stride=(E(0), E(1), E(0)))
    )
    assert may_be_cut(along_rows, (5, 8), 8) == 0
    assert may_be_cut(along_rows, (8, 12), 8) == 7


@pytest.mark.parametrize("module", [fusion, scheduler])
def test_examples_run(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
