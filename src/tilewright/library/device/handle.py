"""The device handles: plan once, launch many times.

status = gemm.can_implement(arguments)         nothing is launched, nothing is compiled
size = gemm.get_workspace_size(arguments)
gemm.initialize(arguments, workspace)          plans, compiles, packs the parameters
gemm.run()                                     only launches
gemm.update(arguments)                         other addresses: what changed is packed again
gemm(arguments, workspace)                     initialize and run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

from tilewright.arch.target import Target
from tilewright.collective.builder import FusionOperation, LinearCombination, TensorDescription
from tilewright.collective.builder.tags import read_arch
from tilewright.compiler import default_target
from tilewright.errors import LaunchError
from tilewright.library.device.arguments import GemmArguments
from tilewright.library.device.bound import BoundGemm
from tilewright.library.device.universal import GemmUniversal
from tilewright.library.device.workspace import workspace_view
from tilewright.library.gemm import (
    GemmRequest,
    PreparedGemm,
    choose_backend,
    lower,
    plan_gemm,
    pose,
)
from tilewright.library.problem import GemmProblem
from tilewright.library.registry import GemmPlan
from tilewright.library.status import ProblemError, Status, StatusCode
from tilewright.numeric.dtypes import DType
from tilewright.runtime.arrays import ArrayView

Dim3 = tuple[int, int, int]


class GemmHandle:
    """What `Gemm` and `GemmUniversalAdapter` share.

    A handle belongs to one thread at a time.
    """

    Arguments: ClassVar = GemmArguments

    def __init__(
        self,
        kernel: str,
        config: Any,
        described: Mapping[str, TensorDescription],
        fusion: FusionOperation,
        target: Target | None,
    ) -> None:
        self._kernel, self._config = kernel, config
        self._described, self._fusion, self._target = dict(described), fusion, target
        self._bound: BoundGemm | None = None
        self._launch: Callable[[], Any] = _not_initialised

    @property
    def prepared(self) -> PreparedGemm:
        """What is settled: plan, operands, `verify()`.  Raises: LaunchError before `initialize`."""
        if self._bound is None:
            _not_initialised()
        request, plan = self._plan(self._arguments)
        backend = choose_backend("auto", request.views.device)
        return lower(request, plan, backend, self._bound.workspace)

    def can_implement(self, arguments: GemmArguments) -> Status:
        """Success, or why not: operand, needed, actual.  Launches and compiles nothing."""
        try:
            self._plan(arguments)
        except LaunchError as error:
            return Status.of(error)
        return Status()

    def get_workspace_size(self, arguments: GemmArguments) -> int:
        """The bytes that `initialize` needs: for shared tiles, for copies of operands; mostly 0.

        Raises: LaunchError for what `can_implement` refuses.
        """
        return self._plan(arguments)[1].workspace_bytes

    def get_grid_shape(self, arguments: GemmArguments) -> Dim3:
        """The blocks of the product along x, y and z; zeros where nothing is launched.

        Raises: LaunchError for what `can_implement` refuses.
        """
        request, plan = self._plan(arguments)
        nowhere = ArrayView(0, (plan.workspace_bytes // 4,), (1,), "f32", 32, request.views.device)
        backend = choose_backend("auto", request.views.device)
        prepared = lower(request, plan, backend, nowhere)
        if prepared.compiled is None:
            return 0, 0, 0
        return prepared.compiled.launches(*prepared.arguments)[-1].grid

    def initialize(
        self, arguments: GemmArguments, workspace: Any = None, stream: Any = None
    ) -> Status:
        """Plans, compiles and packs the parameters, so that `run` only launches, in `stream`.

        `workspace` is an array or address with at least `get_workspace_size` bytes on the operands'
        device; what it holds does not matter.
        Raises: LaunchError for what `can_implement` refuses, and a workspace that does not do.
        """
        request, plan = self._plan(arguments)
        views = request.views
        whole = workspace_view(plan.workspace_bytes, workspace, views)
        prepared = lower(request, plan, choose_backend("auto", views.device), whole)
        self._bound = BoundGemm(prepared, arguments.views(self._described), whole, stream)
        self._launch = self._bound.launch
        self._arguments = arguments
        return Status()

    def update(self, arguments: GemmArguments, workspace: Any = None) -> Status:
        """Other operands and numbers, in the same stream; the workspace stays unless one is given.

        Where only addresses, alpha and beta changed, only what depends on them is packed again;
        anything else is planned anew.
        Raises: LaunchError as `initialize`.
        """
        bound = self._bound
        if bound is None:
            _not_initialised()
        if workspace is None and self._is_like_before(arguments):
            views = arguments.views(self._described)
            if bound.move(views, arguments.alpha, arguments.beta):
                self._launch = bound.launch
                self._arguments = arguments
                return Status()
        kept = bound.workspace if workspace is None else workspace
        return self.initialize(arguments, kept, bound.stream)

    def run(self, stream: Any = None) -> Any:
        """Launches; nothing else is done.  In the simulator, returns its report.

        `stream` overrides the one of `initialize`, for this launch.
        Raises: LaunchError before `initialize`.
        """
        if stream is None or self._bound is None:
            return self._launch()
        return self._bound.launch_on(stream)

    def __call__(
        self, arguments: GemmArguments, workspace: Any = None, stream: Any = None
    ) -> Status:
        """`initialize`, then `run`."""
        status = self.initialize(arguments, workspace, stream)
        self._launch()
        return status

    def _is_like_before(self, arguments: GemmArguments) -> bool:
        """Whether all but operands and numbers is as it was."""
        old = self._arguments
        return (
            arguments.problem_shape == old.problem_shape
            and arguments.hw_info == old.hw_info
            and (arguments.alpha == 0) == (old.alpha == 0)
            and (arguments.beta == 0) == (old.beta == 0)
        )

    def _plan(self, arguments: GemmArguments) -> tuple[GemmRequest, GemmPlan]:
        """What is asked, checked against the kernel's description, and how it is done."""
        views = arguments.views(self._described)
        fusion = self._fusion
        if fusion.bias != ("bias" in views):
            has, needs = ("a bias", "none") if "bias" in views else ("none", "a bias")
            raise ProblemError(
                f"bias: {fusion} needs {needs}, got {has}",
                operand="bias",
                needed=needs,
                actual=has,
            )
        request = pose(
            views["A"],
            views["B"],
            views.get("C"),
            views.get("bias"),
            views["D"],
            None,
            arguments.alpha,
            arguments.beta,
            fusion.activation,
        )
        given = (arguments.a, arguments.b, arguments.c if request.views.c is not None else None)
        request = replace(request, operands=given, bias=arguments.bias, out=arguments.d)
        self._check(request)
        on = self._target or default_target(request.views.device)
        plan = plan_gemm(request, on, self._kernel, self._config)
        most = getattr(plan.config, "max_ctas", None)
        wanted = arguments.hw_info.sm_count
        if wanted and most is not None:
            config = replace(plan.config, max_ctas=min(wanted, on.sm_count))
            plan = plan_gemm(request, on, plan.kernel, config)
        return request, plan

    def _check(self, request: GemmRequest) -> None:
        """Raises: ProblemError for an operand of another type, layout or alignment."""
        problem, views = request.problem, request.views
        rows = (
            ("A", views.a, problem.a, "MK"),
            ("B", views.b, problem.b, "NK"),
            ("C", views.c, problem.c, "MN"),
            ("D", views.d, problem.d, "MN"),
        )
        for name, view, operand, indices in rows:
            about = self._described.get(name)
            if about is None or view is None or operand is None:
                continue
            if operand.dtype is not about.dtype:
                raise _unlike(
                    name, StatusCode.INVALID_DATA_TYPE, "type", about.dtype, operand.dtype
                )
            if not view.size:
                continue
            along = indices.index(about.major(name))
            if view.strides[along] != 1 and view.shape[along] != 1:
                needed = f"{about.major(name)} contiguous"
                actual = f"{operand.major} contiguous" if operand.major != "strided" else "strided"
                raise _unlike(name, StatusCode.INVALID_LAYOUT, "layout", needed, actual)
            if operand.align_bytes < about.align_bytes:
                needed, actual = (f"{x} bytes" for x in (about.align_bytes, operand.align_bytes))
                raise _unlike(name, StatusCode.MISALIGNED_OPERAND, "alignment", needed, actual)


def _unlike(name: str, code: StatusCode, what: str, needed: object, actual: object) -> ProblemError:
    text = f"{name}: {what} is {actual}, the kernel was built for {needed}"
    return ProblemError(text, code, name, needed, actual)


def _not_initialised() -> NoReturn:
    raise LaunchError(
        "this GEMM has no arguments yet", hint="call initialize(arguments) before run or update"
    )


class GemmUniversalAdapter(GemmHandle):
    """The handle of one `GemmUniversal`: types, layouts, alignments and config are its own.

    >>> import numpy as np
    >>> from tilewright.library.device import CollectiveBuilder, StageCountAutoCarveoutEpi
    >>> row, column = (TensorDescription("f16", x) for x in ("RowMajor", "ColumnMajor"))
    >>> builder = CollectiveBuilder("sm_90a", "TensorOp", (128, 64, 64))
    >>> epilogue = builder.epilogue(row)
    >>> loop = builder.mainloop(row, column, stages=StageCountAutoCarveoutEpi(epilogue))
    >>> gemm = GemmUniversalAdapter(GemmUniversal(loop, epilogue))
    >>> a, b = np.ones((16, 64), np.float16), np.ones((8, 64), np.float16).T
    >>> d = np.empty((16, 8), np.float16)
    >>> arguments = gemm.Arguments((16, 8, 64), a, b, None, d)
    >>> str(gemm.can_implement(arguments)), gemm.get_grid_shape(arguments)
    ('Success', (1, 1, 1))
    >>> str(gemm(arguments)), float(d[0, 0])
    ('Success', 64.0)
    """

    def __init__(self, gemm: GemmUniversal) -> None:
        main, end = gemm.mainloop, gemm.epilogue
        described = {"A": main.a, "B": main.b, "D": end.d}
        if end.c is not None:
            described["C"] = end.c
        super().__init__(gemm.kernel, gemm.config, described, end.fusion, main.target)
        self.gemm = gemm

    def _plan(self, arguments: GemmArguments) -> tuple[GemmRequest, GemmPlan]:
        if arguments.beta != 0 and self.gemm.epilogue.c is None:
            raise ProblemError(
                f"beta is {arguments.beta}, the epilogue was built without C: beta must be 0",
                StatusCode.NOT_SUPPORTED,
                "C",
                "beta = 0",
                f"beta = {arguments.beta}",
                hint="give the builder's epilogue() a C",
            )
        return super()._plan(arguments)


class Gemm(GemmHandle):
    """The short handle: kernel, tile and schedule are picked for each problem.

    Element types and layouts need to be given only where operands are plain addresses; those of C
    and D are the same.

    >>> import numpy as np
    >>> a, b, d = np.ones((4, 8), np.float16), np.ones((8, 4), np.float16), np.zeros((4, 4), "f2")
    >>> gemm = Gemm()
    >>> str(gemm(gemm.Arguments((4, 4, 8), a, b, None, d, alpha=0.5))), float(d[0, 0])
    ('Success', 4.0)
    """

    def __init__(
        self,
        element_a: str | DType | None = None,
        layout_a: str = "RowMajor",
        element_b: str | DType | None = None,
        layout_b: str = "RowMajor",
        element_c: str | DType | None = None,
        layout_c: str = "RowMajor",
        *,
        epilogue: FusionOperation = LinearCombination,
        arch: str | Target = "",
    ) -> None:
        given = {
            "A": (element_a, layout_a),
            "B": (element_b or element_a, layout_b),
            "C": (element_c or element_a, layout_c),
            "D": (element_c or element_a, layout_c),
        }
        described = {
            name: TensorDescription(element, layout, 1)
            for name, (element, layout) in given.items()
            if element is not None
        }
        super().__init__("", None, described, epilogue, read_arch(arch) if arch else None)

    def problem(self, arguments: GemmArguments) -> GemmProblem:
        """The problem that the arguments pose."""
        return self._plan(arguments)[0].problem
