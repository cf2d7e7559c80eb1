"""A prepared GEMM whose launch is packed, and whose operands may move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.compiler.arguments import leaf_count
from tilewright.compiler.bound import BoundProgram
from tilewright.library.device.workspace import clear_workspace
from tilewright.library.gemm import PreparedGemm
from tilewright.library.overlap import overlaps
from tilewright.runtime.arrays import ArrayView
from tilewright.runtime.launch import PreparedLaunch, current_stream, stream_handle

_Facts = tuple[tuple[int, ...], tuple[int, ...], str, str, bool, int]


class BoundGemm:
    """`launch` runs it and does nothing else.

    The memory of operands and workspace is kept alive by the arrays that were passed.
    """

    def __init__(
        self,
        prepared: PreparedGemm,
        views: Mapping[str, ArrayView],
        workspace: ArrayView | None,
        stream: Any,
    ) -> None:
        self._prepared, self._facts = prepared, {n: _facts(v) for n, v in views.items()}
        self._device = views["D"].device
        self.workspace, self.stream = workspace, stream
        self.launch: Callable[[], Any] = self._simulate
        self._program: BoundProgram | None = None
        self._elsewhere: dict[int, tuple[PreparedLaunch, ...]] = {}
        on_gpu = prepared.backend == "gpu"
        shape = prepared.plan.workspace_shape
        if workspace is not None and shape is not None and shape.cleared:
            clear_workspace(workspace, self._stream_handle() if on_gpu else 0)
        if on_gpu and prepared.compiled is not None:
            self._bind()

    def _stream_handle(self) -> int:
        if self.stream is not None:
            return stream_handle(self.stream)
        return current_stream(int(self._device.partition(":")[2] or 0))

    def _simulate(self) -> Any:
        return self._prepared.run()

    def _bind(self) -> None:
        compiled, arguments = self._prepared.compiled, self._prepared.arguments
        assert compiled is not None, "there is something to launch"
        self._program, taken = compiled.bind_again(*arguments, stream=self.stream)
        self._leaves = list(taken.leaves)
        swapped = self._prepared.plan.swapped
        order = ("B", "A", "D", "C", "bias") if swapped else ("A", "B", "D", "C", "bias")
        names = [name for name in order if name in self._facts]
        # The addresses come in this order, those of the workspace after them.
        self._place = dict(zip(names, taken.arrays, strict=False))
        before = ("mA", "mB", "mD", "tensors")
        self._scalars = sum(leaf_count(taken.key[name]) for name in before)
        self.launch = self._single()

    def _single(self) -> Callable[[], Any]:
        assert self._program is not None, "bound before"
        launches = self._program.launches
        return launches[0] if len(launches) == 1 else self._program

    def move(self, views: Mapping[str, ArrayView], alpha: float, beta: float) -> bool:
        """Other addresses and numbers; false, and nothing done, where more than those changed."""
        if self._program is None or views.keys() != self._facts.keys():
            return False
        d = views["D"]
        for name, view in views.items():
            if _facts(view) != self._facts[name]:
                return False
            if name != "D" and overlaps(view, d) and not (name == "C" and view == d):
                return False
        leaves = self._leaves
        for name, view in views.items():
            leaves[self._place[name]] = view.pointer
        leaves[self._scalars] = alpha
        if "C" in views:
            leaves[self._scalars + 1] = beta
        self._program.update(leaves)
        self.launch = self._single()
        return True

    def launch_on(self, stream: Any) -> Any:
        """The same launch in another stream."""
        if self._program is None:
            return self.launch()
        handle = stream_handle(stream)
        if handle not in self._elsewhere:
            self._elsewhere[handle] = tuple(x.on_stream(handle) for x in self._program.launches)
        for launch in self._elsewhere[handle]:
            launch()
        return None


def _facts(view: ArrayView) -> _Facts:
    """What a launch depends on of an array, apart from where exactly it lies."""
    pointer = view.pointer % 16
    return view.shape, view.strides, view.dtype, view.device, view.readonly, pointer
