"""`@jit` and `@kernel`: what a decorated function does when it is called.

* A `@jit` function called from Python goes to the executor (`set_executor`), which traces it into
  a host function with `HostTrace`, compiles, and runs it.
* A `@jit` function called from captured code is traced in place.
* A `@kernel` function called anywhere gives a `Launchable`; its `.launch(...)` traces the kernel
  and adds the launch to the host function.  Outside of a host function it makes one of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import cached_property
from types import FunctionType
from typing import Any, cast, overload

from tilewright.errors import CaptureError, TypeMismatchError
from tilewright.ir.core import Block, Func, Module, Value
from tilewright.ir.ops import control
from tilewright.ir.types import Type
from tilewright.lang import trace
from tilewright.lang.arguments import Signature, signature_of
from tilewright.lang.control import captured
from tilewright.lang.launch import emit_launch, extent, make_config, run_body, trace_kernel
from tilewright.lang.protocol import values_of
from tilewright.lang.scalar import describe
from tilewright.lang.trace import Trace

Executor = Callable[["JitFunction", tuple[Any, ...], dict[str, Any]], Any]
_executor: list[Executor] = []


def set_executor(run: Executor) -> None:
    """Installs what compiles and runs a `@jit` function that Python calls."""
    _executor[:] = [run]


def _execute(fn: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not _executor:
        raise CaptureError(
            f"{fn.name} cannot run: no compiler is installed", hint="import tilewright.compiler"
        )
    return _executor[0](fn, args, kwargs)


class _Captured:
    """What `jit` and `kernel` share: the Python function, its signature, its captured form."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not isinstance(fn, FunctionType):
            raise CaptureError(
                f"@{self._word}: expected a function, got {describe(fn)}",
                hint="write the decorator directly above the function's def",
            )
        functools.update_wrapper(cast(Any, self), fn)
        self.fn = fn

    _word = "jit"
    __tw_immutable__ = True

    @property
    def name(self) -> str:
        return self.fn.__name__

    @cached_property
    def signature(self) -> Signature:
        return signature_of(self.fn)

    def __repr__(self) -> str:
        return f"<@{self._word} {self.fn.__qualname__}>"


class JitFunction(_Captured):
    """A function that runs on the host, or in place inside other captured functions."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if trace.current() is None:
            return _execute(self, args, kwargs)
        return self.inline(args, kwargs)

    def inline(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Traces the body in place."""
        bound = self.signature.convert(self.signature.bind(args, kwargs))
        positional, named = self.signature.call_form(bound)
        return captured(self.fn)(*positional, **named)

    @overload
    def __get__(self, instance: None, owner: type) -> JitFunction: ...
    @overload
    def __get__(self, instance: object, owner: type) -> BoundJit: ...
    def __get__(self, instance: object, owner: type) -> JitFunction | BoundJit:
        return self if instance is None else BoundJit(self, instance)


class BoundJit:
    """A `@jit` method of an object."""

    def __init__(self, function: JitFunction, instance: object) -> None:
        self.function = function
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance, *args, **kwargs)

    @property
    def __name__(self) -> str:
        return self.function.name


class KernelFunction(_Captured):
    """A function that runs on the device, once in each thread."""

    _word = "kernel"

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__(fn)
        self._hosts: dict[Any, JitFunction] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Launchable:
        active = trace.current()
        if active is not None and not active.on_host:
            raise CaptureError(
                f"kernel {self.name} is called inside another kernel",
                loc=trace.loc(),
                hint="make the shared part a @jit function",
            )
        return Launchable(self, args, kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> KernelFunction: ...
    @overload
    def __get__(self, instance: object, owner: type) -> functools.partial[Launchable]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None else functools.partial(self, instance)


class Launchable:
    """A kernel with its arguments, ready to be launched."""

    def __init__(
        self, kernel: KernelFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.kernel = kernel
        self.args = args
        self.kwargs = dict(kwargs)
        self.bound = kernel.signature.bind(args, kwargs)

    def launch(
        self,
        *,
        grid: Any,
        block: Any,
        cluster: Any = None,
        smem: Any = None,
        stream: Any = None,
        min_blocks_per_mp: int = 1,
        use_pdl: bool = False,
        max_number_threads: Any = 0,
    ) -> None:
        """Launches the kernel: extents are ints, run-time integers, or one to three of them.

        `smem` defaults to what the kernel allocates.  `stream` is used where Python calls this;
        inside a host function the launch goes to the stream that the host function is run on.
        """
        options = (cluster, smem, min_blocks_per_mp, use_pdl, max_number_threads)
        host_trace = trace.current()
        if host_trace is None:
            self._launch_alone(grid, block, options, stream)
            return
        config = make_config(grid, block, *options)
        signature = self.kernel.signature
        kernel, values = trace_kernel(
            host_trace,
            self.kernel.name,
            captured(self.kernel.fn),
            signature.convert(self.bound),
            signature.call_form,
            config,
        )
        emit_launch(host_trace, kernel, values, config)

    def _launch_alone(self, grid: Any, block: Any, options: Any, stream: Any) -> None:
        make_config(grid, block, *options)
        names = tuple(self.kwargs)
        key = repr((extent(block, "block"), options, names))
        host = self.kernel._hosts.get(key)
        if host is None:
            host = _implicit_host(self.kernel, block, options)
            self.kernel._hosts[key] = host
        _execute(host, (*extent(grid, "grid"), stream, *self.args), self.kwargs)


def _implicit_host(kernel: KernelFunction, block: Any, options: Any) -> JitFunction:
    """A host function that launches one kernel on the grid that its first arguments say."""
    cluster, smem, min_blocks, pdl, threads = options

    def host(grid_x: Any, grid_y: Any, grid_z: Any, stream: Any, *args: Any, **kwargs: Any) -> None:
        kernel(*args, **kwargs).launch(
            grid=(grid_x, grid_y, grid_z),
            block=block,
            cluster=cluster,
            smem=smem,
            stream=stream,
            min_blocks_per_mp=min_blocks,
            use_pdl=pdl,
            max_number_threads=threads,
        )

    host.__name__ = f"launch_{kernel.name}"
    return JitFunction(host)


@overload
def jit(fn: Callable[..., Any]) -> JitFunction: ...
@overload
def jit(fn: None = None) -> Callable[[Callable[..., Any]], JitFunction]: ...
def jit(fn: Callable[..., Any] | None = None) -> Any:
    """Decorates a function of the host, or one to be traced in place in other functions."""
    return JitFunction if fn is None else JitFunction(fn)


@overload
def kernel(fn: Callable[..., Any]) -> KernelFunction: ...
@overload
def kernel(fn: None = None) -> Callable[[Callable[..., Any]], KernelFunction]: ...
def kernel(fn: Callable[..., Any] | None = None) -> Any:
    """Decorates a function that runs on the device, once in each thread."""
    return KernelFunction if fn is None else KernelFunction(fn)


class HostTrace:
    """Traces one call of a host function into a module.

    First `add_argument` for every run-time value that the host function takes; then `run`, with
    arguments that are built on those values.  After that `module` is complete.
    """

    def __init__(self, name: str, target: Any = None) -> None:
        self.module = Module()
        self.func = Func(name, Block(), kind="host")
        self.module.host = self.func
        self.trace = Trace(self.func, self.module, target)

    def add_argument(self, name: str, type: Type) -> Value:
        """A new argument of the host function."""
        made = Value(type, self.func.body, name)
        self.func.body.args.append(made)
        return made

    def run(self, fn: JitFunction, arguments: Mapping[str, Any]) -> Any:
        """Traces the call; the result, which must be known at compile time (usually None).

        `arguments` are by parameter name, as `Signature.bind` gives them; annotations are applied.
        """
        with trace.tracing(self.trace):
            bound = fn.signature.convert(arguments)
            args, kwargs = fn.signature.call_form(bound)
            result = run_body(captured(fn.fn), args, kwargs)
            if values_of(result):
                raise TypeMismatchError(
                    f"{fn.name} returns {describe(result)}: a host function can only return what"
                    " is known at compile time",
                    hint="store the result through a tensor argument",
                )
            self.trace.builder.emit(control.Return)
        return result


def trace_host(
    fn: JitFunction, make_arguments: Callable[[HostTrace], Mapping[str, Any]], target: Any = None
) -> Module:
    """The module of one call: `make_arguments` turns what was passed into language values."""
    host = HostTrace(fn.name, target)
    with trace.tracing(host.trace):
        arguments = make_arguments(host)
    host.run(fn, arguments)
    return host.module
