"""Binding the arguments of captured functions: counts, names, and what annotations demand.

An annotation may be a numeric type (the number is converted), `Constexpr` (known at compile time),
a class of the language such as `Tensor` (checked), or anything with a
``__tw_convert__(value, what) -> value`` method of its own.  ``Annotated[T, Rank(2)]`` also declares
the rank of a tensor.  Other annotations are documentation.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Annotated, Any, get_args, get_origin

from tilewright.errors import CaptureError, Loc, TypeMismatchError
from tilewright.lang import trace
from tilewright.lang.protocol import values_of
from tilewright.lang.scalar import Scalar, describe, is_number, static_number

_UNION = (typing.Union, types.UnionType)


class Constexpr:
    """Annotation of an argument that is known at compile time; each value compiles anew.

    ``Constexpr[int]`` also says of which type.
    """

    kind: Any = object

    def __class_getitem__(cls, kind: Any) -> type[Constexpr]:
        return type(f"Constexpr[{getattr(kind, '__name__', kind)}]", (Constexpr,), {"kind": kind})


@dataclass(frozen=True)
class Rank:
    """``Annotated[Tensor, Rank(n)]``: the tensor has `n` modes."""

    modes: int

    def check(self, value: Any, what: str, loc: Loc | None) -> None:
        shape = getattr(value, "shape", None)
        rank = len(shape) if isinstance(shape, tuple) else 1
        if shape is None or rank != self.modes:
            got = f"rank {rank}, shape {shape}" if shape is not None else describe(value)
            raise TypeMismatchError(
                f"{what}: expected a tensor of rank {self.modes}, got {got}", loc=loc
            )


def const_expr(value: Any) -> Any:
    """`value`, which must be known at compile time: a condition on it chooses while tracing.

    Raises: CaptureError if it is known only at run time.
    """
    if isinstance(value, Scalar):
        known = static_number(value)
        if known is None:
            raise CaptureError(
                f"const_expr: expected a value known at compile time, got {describe(value)}",
                loc=trace.loc(),
                hint="without const_expr, `if` and `while` branch at run time",
            )
        return known
    if values_of(value):
        raise CaptureError(
            f"const_expr: {describe(value)} holds values known only at run time", loc=trace.loc()
        )
    return value


@dataclass(frozen=True)
class Parameter:
    """One parameter of a captured function: its annotation resolved."""

    name: str
    annotation: Any
    is_constexpr: bool


@dataclass(frozen=True)
class Signature:
    """The parameters of a function, and how a call binds them."""

    name: str
    python: inspect.Signature
    parameters: Mapping[str, Parameter]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by parameter name, defaults included, not converted.

        Raises: TypeMismatchError if they do not fit the parameters.
        """
        try:
            bound = self.python.bind(*args, **kwargs)
        except TypeError as problem:
            raise TypeMismatchError(
                f"{self.name}{_shown(self.python)}: {problem}", loc=trace.loc()
            ) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def convert(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        """The bound arguments checked, and converted as their annotations demand.

        Raises: TypeMismatchError naming the argument.
        """
        made: dict[str, Any] = {}
        for name, value in bound.items():
            annotation = self.parameters[name].annotation
            what = f"argument {name} of {self.name}"
            kind = self.python.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                made[name] = tuple(convert_argument(v, annotation, what) for v in value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                made[name] = {k: convert_argument(v, annotation, what) for k, v in value.items()}
            else:
                made[name] = convert_argument(value, annotation, what)
        return made

    def call_form(self, bound: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments that pass `bound`."""
        made = inspect.BoundArguments(self.python, dict(bound))
        return made.args, made.kwargs


def _shown(signature: inspect.Signature) -> str:
    return f"({', '.join(signature.parameters)})"


def signature_of(fn: FunctionType) -> Signature:
    """The signature of a function, its annotations resolved where they can be."""
    python = inspect.signature(fn)
    parameters = {}
    for p in python.parameters.values():
        annotation = _resolve(p.annotation, fn)
        parameters[p.name] = Parameter(p.name, annotation, _is_constexpr(annotation))
    return Signature(fn.__name__, python, parameters)


def _resolve(annotation: Any, fn: FunctionType) -> Any:
    if annotation is inspect.Parameter.empty:
        return None
    if not isinstance(annotation, str):
        return annotation
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    names = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    try:
        return eval(annotation, fn.__globals__, names)
    except (NameError, AttributeError, SyntaxError, TypeError):
        return None  # An annotation that only a type checker understands.


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _is_constexpr(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Constexpr)


def convert_argument(value: Any, annotation: Any, what: str) -> Any:
    """`value` as an annotation demands; `what` names it in messages.

    Raises: TypeMismatchError if it does not fit.
    """
    if annotation is None or isinstance(annotation, str):
        return value
    convert = getattr(annotation, "__tw_convert__", None)
    if convert is not None:
        return convert(value, what)
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *checks = get_args(annotation)
        value = convert_argument(value, inner, what)
        for check in checks:
            if isinstance(check, Rank):
                check.check(value, what, trace.loc())
        return value
    if origin in _UNION:
        return _convert_union(value, get_args(annotation), what)
    if not isinstance(annotation, type):
        return value
    if issubclass(annotation, Constexpr):
        return _check_constexpr(value, annotation, what)
    if issubclass(annotation, Scalar):
        return _convert_number(value, annotation, what)
    if annotation in (int, float, bool):
        if not is_number(value):
            raise _mismatch(value, f"a number ({annotation.__name__})", what)
    elif annotation.__module__.startswith("tilewright.lang") and not isinstance(value, annotation):
        raise _mismatch(value, annotation.__name__, what)
    return value


def _mismatch(value: Any, expected: str, what: str, hint: str = "") -> TypeMismatchError:
    return TypeMismatchError(
        f"{what}: expected {expected}, got {describe(value)}", loc=trace.loc(), hint=hint
    )


def _convert_union(value: Any, choices: tuple[Any, ...], what: str) -> Any:
    if value is None and type(None) in choices:
        return None
    real = [c for c in choices if c is not type(None)]
    for choice in real:
        if isinstance(choice, type) and isinstance(value, choice):
            return value
    return convert_argument(value, real[0], what) if len(real) == 1 else value


def _check_constexpr(value: Any, annotation: type[Constexpr], what: str) -> Any:
    if values_of(value):
        raise _mismatch(
            value,
            f"a value known at compile time ({annotation.__name__})",
            what,
            "annotate the parameter with a run-time type such as Int32",
        )
    if isinstance(value, Scalar):
        value = value.raw
    kind = annotation.kind
    if isinstance(kind, type) and kind is not object:
        ok = is_number(value) if issubclass(kind, Scalar) else isinstance(value, kind)
        ok = ok or (kind is float and type(value) is int)
        if not ok:
            raise _mismatch(value, annotation.__name__, what)
    try:
        hash(value)
    except TypeError:
        raise _mismatch(
            value,
            f"a hashable value ({annotation.__name__})",
            what,
            "pass a tuple instead of a list, a frozen dataclass instead of a dict",
        ) from None
    return value


def _convert_number(value: Any, kind: type[Scalar], what: str) -> Any:
    if not is_number(value) and not hasattr(value, "__index__"):
        raise _mismatch(value, kind.__name__ or "a number", what)
    if "_row" not in vars(kind):  # Numeric itself: any number.
        return value
    is_float = isinstance(value, float) or (isinstance(value, Scalar) and type(value).is_float)
    if is_float and not kind.is_float:
        raise _mismatch(value, kind.__name__, what, f"convert it first: {kind.__name__}(x)")
    return kind(value)
