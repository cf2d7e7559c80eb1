"""Compile-time evaluation: `static_eval`, `static_assert`, `static_iter` and their relatives."""

from __future__ import annotations

from typing import Any

from tilewright.lang.tile.errors import TileStaticAssertionError, TileTypeError
from tilewright.lang.tile.state import api, host_api
from tilewright.lang.tile.values import Tile, constant_of, described


@api
def static_eval(expr: Any, /) -> Any:
    """Evaluates `expr` in Python itself, at compile time.

    The expression may call any function and use any object; of the kernel's values it may look at
    constants, and at the types and shapes of tiles and arrays.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y, n: ct.Constant[int]):
    ...     ct.store(y, 0, ct.static_eval(sum(range(n))))
    >>> y, n = np.zeros(1, np.int32), 5
    >>> ct.launch(None, (1,), example, (y, n,)); y
    array([10], dtype=int32)
    """
    del expr
    raise TileTypeError("static_eval is called by its name, not through a variable")


@api
def static_assert(condition: Any, message: Any = None, /) -> None:
    """Stops compilation if `condition`, a constant, is false."""
    del condition, message
    raise TileTypeError("static_assert is called by its name, not through a variable")


@host_api
def static_iter(iterable: Any) -> Any:
    """Repeats the body of a `for` at compile time, once for each item.

    The iterable is evaluated in Python, as by `static_eval`.  Host code gets it back as it is.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y, shape: ct.Constant):
    ...     for i, extent in ct.static_iter(enumerate(shape)):
    ...         ct.store(y, i, ct.sum(ct.ones((extent,), ct.int32)))
    >>> y, shape = np.zeros(2, np.int32), (4, 8)
    >>> ct.launch(None, (1,), example, (y, shape,)); y
    array([4, 8], dtype=int32)
    """
    return iterable


@host_api
def static_exception(exc: BaseException, /) -> BaseException:
    """Marks an exception that `raise` raises at compile time."""
    return exc


@api
def ensure_constant(value: Any, /) -> Any:
    """`value`, which must be known at compile time.

    >>> import numpy as np
    >>> import tilewright.tile as ct
    >>> @ct.kernel
    ... def example(y):
    ...     t = ct.load(y, 0, 4)
    ...     ct.store(y, 0, t + ct.ensure_constant(t.shape[0]))
    >>> y = np.zeros(4, np.int32)
    >>> ct.launch(None, (1,), example, (y,)); y
    array([4, 4, 4, 4], dtype=int32)
    """
    items = value if isinstance(value, tuple) else (value,)
    for item in items:
        if isinstance(item, Tile) and constant_of(item) is None:
            raise TileStaticAssertionError(
                f"ensure_constant: {described(item)} is known at run time only"
            )
    return value
