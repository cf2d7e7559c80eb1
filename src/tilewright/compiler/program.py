"""One captured program: its IR, its CUDA text, its cubins, and the ways to run it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.arch.target import Target
from tilewright.codegen.cuda.kernel import emit_cuda
from tilewright.compiler.arguments import Arguments, read_arguments
from tilewright.compiler.bound import BoundProgram
from tilewright.compiler.gpu_launch import driver_value, parameter_kind
from tilewright.compiler.host import LaunchRecord, TensorMapFields, evaluate_host
from tilewright.compiler.launcher import launch as run_launch
from tilewright.errors import LaunchError
from tilewright.ir.core import Func, Module
from tilewright.ir.evaluate import Number
from tilewright.ir.printer import print_module
from tilewright.lang.arguments import Signature
from tilewright.runtime import driver
from tilewright.runtime.arrays import ArrayView, host_bytes
from tilewright.runtime.cache import compile_cached
from tilewright.runtime.launch import (
    KernelParams,
    LaunchConfig,
    PreparedLaunch,
    current_stream,
)
from tilewright.runtime.toolchain import CompiledCubin
from tilewright.sim.costs import merged as merged_costs
from tilewright.sim.machine import Launch, Report
from tilewright.sim.memory import GlobalMemory
from tilewright.sim.options import SimOptions
from tilewright.sim.tensormap import TensorMap

PREPARED = 64
"""Prepared launches that a program keeps: one for each recent set of argument values."""


class Compiled:
    """A captured program, compiled for one target and one kind of arguments.

    Calling it runs it: on the GPU that the arrays are on, or in the simulator for CPU arrays.
    """

    def __init__(
        self, name: str, signature: Signature, key: tuple[Any, ...], module: Module, target: Target
    ) -> None:
        self.name = name
        self.signature = signature
        self.module = module
        self.target = target
        self._key = key
        self._sources: dict[str, str] = {}
        self._cubins: dict[str, CompiledCubin] = {}
        self._prepared: OrderedDict[Any, list[PreparedLaunch]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<{self.name} compiled for {self.target.name}: {', '.join(self.module.kernels)}>"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        taken = self._take(args, kwargs)
        if taken.device == "cpu":
            for line in self._simulate(taken, None).printed:
                print(line)
        else:
            self._launch(taken)

    @property
    def ir(self) -> str:
        """The verified IR as text."""
        return print_module(self.module)

    def source(self, kernel: str = "", *, line_info: bool = True) -> str:
        """The CUDA C++ of a kernel (of the only one, if no name is given)."""
        func = self._kernel(kernel)
        if not line_info:
            return emit_cuda(func, line_info=False)
        if func.name not in self._sources:
            self._sources[func.name] = emit_cuda(func)
        return self._sources[func.name]

    def cubin(self, kernel: str = "") -> CompiledCubin:
        """The machine code of a kernel, from the disk cache or NVRTC.  Needs no GPU.

        Raises: ToolchainError where NVRTC is missing, or refuses or degrades the kernel.
        """
        name = self._kernel(kernel).name
        if name not in self._cubins:
            found = compile_cached(self.source(name), name, self.target.name)
            self._cubins[name] = found.compiled
        return self._cubins[name]

    def simulate(self, *args: Any, options: SimOptions | None = None, **kwargs: Any) -> Report:
        """Runs in the simulator; results land in the caller's arrays.

        Raises: SimulationError with `.findings` if the kernel is at fault.
        """
        return self._simulate(self._take(args, kwargs), options)

    def launch(self, *args: Any, stream: Any = None, **kwargs: Any) -> None:
        """Launches on the arrays' GPU, in `stream` (default: torch's current, else the null one).

        Raises: LaunchError without a GPU, saying what is missing.
        """
        taken = self._take(args, kwargs)
        if stream is not None:
            taken.stream = stream
        self._launch(taken)

    def bind(self, *args: Any, stream: Any = None, **kwargs: Any) -> Callable[[], None]:
        """A callable that only launches, for these very arrays: for timing loops and graphs."""
        taken = self._take(args, kwargs)
        if stream is not None:
            taken.stream = stream
        launches = self._prepare(taken)
        if len(launches) == 1:
            return launches[0]

        def run() -> None:
            for one in launches:
                one()

        return run

    def bind_again(self, *args: Any, stream: Any = None) -> tuple[BoundProgram, Arguments]:
        """Like `bind`, with arguments that can be exchanged: `update(leaves(...))`."""
        taken = self._take(args, {})
        if stream is not None:
            taken.stream = stream
        device, on = self._place(taken)
        assert self.module.host is not None, "every program has a host function"
        bound = BoundProgram(self.module.host, taken.leaves, lambda r: self._one(r, device, on))
        return bound, taken

    def device(self, *args: Any, **kwargs: Any) -> str:
        """Where these arrays are: 'cpu', or 'cuda:' and the number of the GPU."""
        return self._take(args, kwargs).device

    def launches(self, *args: Any, **kwargs: Any) -> list[Launch]:
        """What a call with these arrays launches, with their own addresses."""
        return [self._as_launch(r) for r in self._records(self._take(args, kwargs).leaves)]

    def _kernel(self, name: str) -> Func:
        kernels = self.module.kernels
        if name:
            if name not in kernels:
                raise LaunchError(f"{self.name} has no kernel {name!r}, only {', '.join(kernels)}")
            return kernels[name]
        if len(kernels) != 1:
            raise LaunchError(f"{self.name} has {len(kernels)} kernels; name one: {list(kernels)}")
        return next(iter(kernels.values()))

    def _take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        taken = read_arguments(self.signature, self.signature.bind(args, kwargs))
        if taken.hashable_key != self._key:
            compiled = dict(self._key)
            name = next(n for n, part in taken.key.items() if compiled.get(n) != part)
            raise LaunchError(
                f"{self.name}: argument {name} is not what it was compiled for",
                details={"compiled for": compiled.get(name), "got": taken.key[name]},
                hint="compile again for these arguments",
            )
        return taken

    def _records(self, leaves: list[Number]) -> list[LaunchRecord]:
        assert self.module.host is not None, "every program has a host function"
        records = evaluate_host(self.module.host, leaves)
        return [r for r in records if 0 not in r.grid]

    def _simulate(self, taken: Arguments, options: SimOptions | None) -> Report:
        memory = GlobalMemory()
        leaves = list(taken.leaves)
        for at, view in taken.arrays.items():
            leaves[at] = _map(memory, view, self.module.host, at)
        reports = []
        for record in self._records(leaves):
            reports.append(run_launch(self._as_launch(record), memory, options))
        return _merge(reports)

    def _as_launch(self, record: LaunchRecord) -> Launch:
        return Launch(
            self.module.kernels[record.kernel],
            record.grid,
            record.block,
            record.cluster,
            record.smem_bytes,
            tuple(_for_simulator(a) for a in record.args),
            sm=self.target.sm,
            sm_count=self.target.sm_count,
            pdl=record.pdl,
        )

    def _launch(self, taken: Arguments) -> None:
        for launch in self._prepare(taken):
            launch()

    def _place(self, taken: Arguments) -> tuple[int, Any]:
        """The GPU and the stream of a launch."""
        if taken.device == "cpu":
            raise LaunchError(
                f"{self.name}: the arrays are on the CPU, expected a GPU",
                hint="pass GPU arrays (torch, CuPy), or use .simulate(...)",
            )
        driver.require_gpu()
        device = int(taken.device.partition(":")[2] or 0)
        return device, taken.stream if taken.stream is not None else current_stream(device)

    def _prepare(self, taken: Arguments) -> list[PreparedLaunch]:
        """The launches for these values, from the recent ones or made now."""
        device, stream = self._place(taken)
        key = (tuple(taken.leaves), device, stream)
        found = self._prepared.get(key)
        if found is None:
            found = [self._one(r, device, stream) for r in self._records(taken.leaves)]
            self._prepared[key] = found
            if len(self._prepared) > PREPARED:
                self._prepared.popitem(last=False)
        else:
            self._prepared.move_to_end(key)
        return found

    def _one(self, record: LaunchRecord, device: int, stream: Any) -> PreparedLaunch:
        kernel = self.module.kernels[record.kernel]
        smem = max(record.smem_bytes, kernel.smem_bytes)
        function = driver.load_function(
            self.cubin(record.kernel).cubin, record.kernel, smem, device
        )
        params = KernelParams(
            [parameter_kind(v.type) for v in kernel.args], [v.name for v in kernel.args]
        )
        params.fill([driver_value(a) for a in record.args])
        config = LaunchConfig(
            record.grid, record.block, record.cluster, smem, stream, pdl=record.pdl
        )
        return PreparedLaunch(function, config, params)


def _map(memory: GlobalMemory, view: ArrayView, host: Func | None, at: int) -> int:
    """Shows an array to the simulator; gives the virtual address of its element (0, 0, ...)."""
    if view.device != "cpu":
        raise LaunchError(
            f"the simulator needs CPU arrays, got one on {view.device}",
            hint="copy it to the host first",
        )
    if not view.size:
        return 0
    data, base = host_bytes(view)
    name = host.args[at].name if host is not None else f"argument {at}"
    return memory.map(data, name, base) + (view.pointer - base)


def _for_simulator(value: Any) -> Any:
    if not isinstance(value, TensorMapFields):
        return value
    return TensorMap(
        dtype=value.dtype,
        base=value.base,
        dims=value.dims,
        strides=value.strides,
        box=value.box,
        swizzle=value.swizzle,
        oob_nan=value.oob_nan,
        l2_promotion=value.l2_promotion,
    )


def _merge(reports: list[Report]) -> Report:
    counters: dict[str, int] = {}
    findings: list[Any] = []
    printed: list[str] = []
    for report in reports:
        for name, count in report.counters.items():
            counters[name] = counters.get(name, 0) + count
        findings.extend(report.findings)
        printed.extend(report.printed)
    if not reports:
        return Report(counters, (), [])
    worst = next((r for r in reports if r.findings), reports[-1])
    costs = merged_costs(cost for report in reports for cost in report.costs)
    return replace(worst, counters=counters, findings=tuple(findings), printed=printed, costs=costs)
