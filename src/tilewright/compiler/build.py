"""From a decorated function and its arguments to a compiled program, once for each kind of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.arch.target import Target, target
from tilewright.compiler.arguments import make_arguments, read_arguments
from tilewright.compiler.program import Compiled
from tilewright.errors import CaptureError
from tilewright.lang.jit import JitFunction, set_executor, trace_host
from tilewright.passes.pipeline import run_passes
from tilewright.runtime import driver
from tilewright.settings import settings

_compiled: dict[Any, Compiled] = {}


def default_target(device: str = "cpu") -> Target:
    """The target to compile for: `TILEWRIGHT_ARCH`, else the arrays' GPU, else Hopper."""
    chosen = settings().arch
    if chosen:
        return target(chosen)
    if device != "cpu":
        return target(driver.device_info(int(device.partition(":")[2] or 0)).target)
    return target("sm_90a")


def compile_function(
    fn: JitFunction, *args: Any, target: Target | None = None, **kwargs: Any
) -> Compiled:
    """Captures `fn` for these arguments and makes it ready for both backends.

    Programs are kept: a call with the same kinds of arguments for the same target compiles
    nothing.  Addresses, sizes and streams are not part of the key.

    Raises: CaptureError for what is not decorated with `@cute.jit`.
    """
    if not isinstance(fn, JitFunction):
        raise CaptureError(
            f"compile: expected a @cute.jit function, got {type(fn).__name__}",
            hint="decorate the host function that launches the kernel with @cute.jit",
        )
    taken = read_arguments(fn.signature, fn.signature.bind(args, kwargs))
    on = target or default_target(taken.device)
    key = (fn, on.name, taken.hashable_key)
    found = _compiled.get(key)
    if found is None:
        with _no_collections():
            module = trace_host(fn, lambda host: make_arguments(host, taken.key), on)
            run_passes(module, on)
        found = Compiled(fn.name, fn.signature, taken.hashable_key, module, on)
        _compiled[key] = found
    return found


@contextmanager
def _no_collections() -> Iterator[None]:
    """Without garbage collections: IR is kept, and looking at it again and again takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _execute(fn: JitFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    compile_function(fn, *args, **kwargs)(*args, **kwargs)


set_executor(_execute)
