"""Errors of the rooms below, which know no source, get the user's line on their way out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tilewright.errors import TilewrightError
from tilewright.lang import trace

F = TypeVar("F", bound=Callable[..., Any])


def located(fn: F) -> F:
    """`fn`, whose errors say where in the user's source it was called."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except TilewrightError as error:
            if error.loc is None:
                error.loc = trace.loc()
            raise

    return cast(F, wrapper)
