"""The errors of tile programs, under the names that cuTile programs catch."""

from __future__ import annotations

from tilewright.errors import Loc, TilewrightError


class TileError(TilewrightError):
    """Base of what is wrong with a tile program; `loc` is the user's own line."""

    def __init__(self, message: str, loc: Loc | None = None, *, hint: str = "") -> None:
        super().__init__(message, loc=loc, hint=hint)


class TileSyntaxError(TileError):
    """Python that has no meaning in tile code."""


class TileTypeError(TileError):
    """A value of the wrong type, element type or shape."""


class TileArgumentError(TileTypeError, TypeError):
    """An argument that a kernel cannot take: for Python a TypeError."""


class TileValueError(TileError):
    """A compile-time value that is out of range."""


class TileRecursionError(TileError):
    """Calls are inlined: this chain of calls is too deep to end."""


class TileUnsupportedFeatureError(TileError):
    """The chosen Tile IR version or GPU lacks what the kernel uses."""


class TileInternalError(TileError):
    """A fault of Tilewright or of the compiler behind it, not of the program."""


class TileStaticEvalError(TileError):
    """The expression of `static_eval` cannot be evaluated at compile time."""


class StaticException(TileStaticEvalError):
    """The program raised an exception at compile time, on purpose."""


class TileStaticAssertionError(TileError):
    """The condition of `static_assert` is false."""

    def __init__(self, message: str, loc: Loc | None = None, *, hint: str = "") -> None:
        super().__init__(f"static_assert failed: {message}" if message else "static_assert failed")
        self.loc, self.hint = loc, hint


class _CompilerError(TileInternalError):
    """What the external compiler reported, and how it was called."""

    def __init__(
        self, message: str, loc: Loc | None, compiler_flags: str, compiler_version: str | None
    ) -> None:
        super().__init__(message, loc)
        self.compiler_flags = compiler_flags
        self.compiler_version = compiler_version


class TileCompilerExecutionError(_CompilerError):
    """The external compiler failed."""

    def __init__(
        self,
        return_code: int,
        message: str,
        loc: Loc | None = None,
        compiler_flags: str = "",
        compiler_version: str | None = None,
    ) -> None:
        super().__init__(
            f"tileiras ended with status {return_code}: {message}",
            loc,
            compiler_flags,
            compiler_version,
        )
        self.return_code = return_code


class TileCompilerTimeoutError(_CompilerError):
    """The external compiler did not end in time."""

    def __init__(
        self, message: str, compiler_flags: str = "", compiler_version: str | None = None
    ) -> None:
        super().__init__(message, None, compiler_flags, compiler_version)
