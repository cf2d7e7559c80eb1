"""What the epilogue of a GEMM computes, by CUTLASS's names.

    LinearCombination            D = alpha * acc + beta * C
    LinCombEltAct                D = activation(alpha * acc + beta * C)
    LinCombPerColBias            D = alpha * acc + beta * C + bias[n]
    LinCombPerColBiasEltAct      D = activation(alpha * acc + beta * C + bias[n])

Each names a tree of `collective/epilogue/fusion.py`; alpha, beta, C and the bias are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.collective.epilogue.fusion import Node, linear_combination


@dataclass(frozen=True, slots=True)
class FusionOperation:
    """One operation: whether a bias of the columns is added, and what is applied at the end.

    Raises: LaunchError for an activation that does not exist.
    """

    name: str
    bias: bool = False
    activation: str = ""

    def __post_init__(self) -> None:
        self.tree(with_c=False)

    def tree(self, with_c: bool) -> Node:
        """The tree that the kernels compile in; without C where beta is 0."""
        return linear_combination(with_c, self.bias, self.activation)

    def __str__(self) -> str:
        return self.name


def LinCombEltAct(activation: str) -> FusionOperation:
    """`activation(alpha * acc + beta * C)`.

    >>> str(LinCombEltAct("silu").tree(with_c=False))
    'silu(multiply(acc, scalar0))'
    """
    return FusionOperation(f"LinCombEltAct<{activation}>", activation=activation)


def LinCombPerColBiasEltAct(activation: str) -> FusionOperation:
    """`activation(alpha * acc + beta * C + bias)`, with one bias for each column."""
    return FusionOperation(f"LinCombPerColBiasEltAct<{activation}>", True, activation)


LinearCombination = FusionOperation("LinearCombination")
LinearCombinationRelu = FusionOperation("LinearCombinationRelu", activation="relu")
LinearCombinationGELU = FusionOperation("LinearCombinationGELU", activation="gelu")
LinearCombinationGELUTaylor = FusionOperation("LinearCombinationGELUTaylor", activation="gelu_tanh")
LinearCombinationSilu = FusionOperation("LinearCombinationSilu", activation="silu")
LinCombPerColBias = FusionOperation("LinCombPerColBias", bias=True)
