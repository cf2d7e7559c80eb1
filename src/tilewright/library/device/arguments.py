"""What a GEMM is run on: sizes, operands as arrays or plain addresses, numbers, the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.collective.builder import TensorDescription
from tilewright.library.status import ProblemError
from tilewright.runtime.arrays import ArrayView, as_array


@dataclass(frozen=True, slots=True)
class KernelHardwareInfo:
    """Where plain addresses lie (`cuda:0`, or `cpu` for the simulator), and how many SMs to use.

    An `sm_count` of 0 stands for all.
    """

    device: str = "cuda:0"
    sm_count: int = 0


@dataclass(frozen=True, slots=True)
class TensorRef:
    """An operand by its address; its element type and layout are the kernel's own.

    Units: `stride` is the leading dimension in elements, from one row (of a column-major operand:
    column) to the next; `batch_stride` that from one matrix to the next, 0 for one matrix for all.
    What is left out is as if the operand was stored without gaps.
    """

    pointer: int
    stride: int | None = None
    batch_stride: int | None = None


@dataclass(frozen=True, slots=True)
class GemmArguments:
    """D[M,N,L] = fusion(alpha * A[M,K,L] * B[K,N,L] + beta * C[M,N,L] + bias[N]).

    `problem_shape` is (M, N, K), or (M, N, K, L) with L matrices.  Each operand is an array as
    `tilewright.gemm` takes it ((M,K), or (L,M,K)), a `TensorRef`, or an address.
    """

    problem_shape: tuple[int, ...]
    a: Any
    b: Any
    c: Any
    d: Any
    alpha: float = 1.0
    beta: float = 0.0
    bias: Any = None
    hw_info: KernelHardwareInfo = KernelHardwareInfo()

    @property
    def mnkl(self) -> tuple[int, int, int, int]:
        """Raises: ProblemError for a shape of other than three or four sizes from 0 up."""
        shape = self.problem_shape
        if len(shape) not in (3, 4) or any(not isinstance(x, int) or x < 0 for x in shape):
            raise ProblemError(
                f"problem_shape is {shape}, expected (M, N, K) or (M, N, K, L), each 0 or more",
                operand="problem_shape",
                needed="(M, N, K) or (M, N, K, L)",
                actual=shape,
            )
        m, n, k, batch = (*shape, 1)[:4]
        return m, n, k, batch

    def views(self, described: Mapping[str, TensorDescription]) -> dict[str, ArrayView]:
        """The operands that are given; addresses with the types and layouts that are described.

        Raises: ProblemError for an operand that is missing, or whose shape is not that of the
                problem.
        """
        m, n, k, batch = self.mnkl
        rows = {"A": (m, k), "B": (k, n), "C": (m, n), "D": (m, n), "bias": (n,)}
        given = {"A": self.a, "B": self.b, "C": self.c, "D": self.d, "bias": self.bias}
        found = {}
        for name, value in given.items():
            if value is None and name in ("A", "B", "D"):
                raise ProblemError(
                    f"{name} is missing", operand=name, needed="an array or address", actual="none"
                )
            if value is None or (name == "C" and self.beta == 0):
                continue
            if isinstance(value, int | TensorRef):
                value = self._at(name, value, rows[name], batch, described)
            found[name] = view = as_array(value, name)
            _check_shape(name, view, rows[name], batch)
        return found

    def _at(
        self,
        name: str,
        value: int | TensorRef,
        shape: tuple[int, ...],
        batch: int,
        described: Mapping[str, TensorDescription],
    ) -> ArrayView:
        """The array at an address."""
        strides: tuple[int, ...]
        ref = value if isinstance(value, TensorRef) else TensorRef(value)
        about = described.get("D" if name in ("C", "bias") and name not in described else name)
        if about is None:
            raise ProblemError(
                f"{name} is an address, and the element type is not known",
                operand=name,
                needed="an array, or a kernel with element types",
                actual="an address",
            )
        row, device = about.dtype, self.hw_info.device
        if name == "bias":
            return ArrayView(ref.pointer, shape, (1,), row.name, row.storage_bits, device)
        major = about.major("C" if name == "D" else name)
        by_row = major == {"A": "K", "B": "N"}.get(name, "N")
        stride = ref.stride if ref.stride is not None else shape[1] if by_row else shape[0]
        strides = (stride, 1) if by_row else (1, stride)
        apart = ref.batch_stride
        if apart is None:
            apart = stride * (shape[0] if by_row else shape[1])
        if batch != 1 and (apart or name == "D"):
            shape, strides = (batch, *shape), (apart, *strides)
        return ArrayView(ref.pointer, shape, strides, row.name, row.storage_bits, device)


def _check_shape(name: str, view: ArrayView, shape: tuple[int, ...], batch: int) -> None:
    """Raises: ProblemError for another shape; what is the same for all batches has no L."""
    whole = (batch, *shape)
    allowed = [whole] if name == "D" and batch != 1 else [shape, whole]
    if tuple(view.shape) not in allowed:
        needed = allowed[0] if name == "bias" or batch == 1 else whole
        raise ProblemError(
            f"{name} has shape {tuple(view.shape)}, the problem needs {needed}",
            operand=name,
            needed=needed,
            actual=tuple(view.shape),
        )
