"""Where in the user's source we are: the frames outside Tilewright's core rooms, as `Loc` chains.

Captured functions keep the line and column tables of their source, so the frame of a captured
function says exactly which expression is being traced.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from inspect import CO_GENERATOR
from types import CodeType, FrameType

from tilewright.errors import Loc

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CORE = tuple(
    os.path.join(_PACKAGE, room) + os.sep for room in ("lang", "ir", "layout", "numeric", "arch")
)
_STDLIB = tuple({sysconfig.get_path(key) + os.sep for key in ("stdlib", "platstdlib")})
_SITE = tuple({sysconfig.get_path(key) + os.sep for key in ("purelib", "platlib")})

_USER, _CORE_ROOM, _OTHER, _BOUNDARY = range(4)
_Position = tuple[int | None, int | None, int | None, int | None]

# Keyed by identity: the hash of a code object runs over all of its contents.  `_alive` keeps the
# keys from being reused.
_kinds: dict[int, int] = {}
_tables: dict[int, list[_Position]] = {}
_locs: dict[tuple[int, int, int], Loc] = {}
_alive: list[CodeType] = []
_callers: dict[FrameType, Loc | None] = {}
"""Where frames of captured functions were called from: that is so as long as a frame lives.

Only a generator may go on for another caller.
"""


def is_core_file(file: str) -> bool:
    """Whether the file belongs to the rooms that no user wrote: lang, ir, layout, ..."""
    return file.startswith(_CORE)


def is_library_file(file: str) -> bool:
    """Whether the file is Python's own or an installed package other than this one."""
    if file.startswith(_PACKAGE + os.sep):
        return False
    return file.startswith(("<frozen", "<string>")) or file.startswith(_STDLIB + _SITE)


def _is_python(file: str) -> bool:
    return file.startswith("<frozen") or (file.startswith(_STDLIB) and not file.startswith(_SITE))


def mark_boundary(code: CodeType) -> None:
    """Lets call chains end at frames that run `code` (where the tracing of a kernel begins)."""
    _remember(code, _BOUNDARY)


def _remember(code: CodeType, kind: int) -> int:
    _alive.append(code)
    _kinds[id(code)] = kind
    return kind


def _kind(code: CodeType) -> int:
    file = code.co_filename
    if is_core_file(file):
        return _remember(code, _CORE_ROOM)
    return _remember(code, _OTHER if _is_python(file) else _USER)


def loc_of_code(code: CodeType, lasti: int, caller: Loc | None = None) -> Loc:
    """The place of the instruction at `lasti` in `code`; the same object for the same place."""
    key = (id(code), lasti, id(caller))
    found = _locs.get(key)
    if found is None:
        table = _tables.get(id(code))
        if table is None:
            _alive.append(code)
            table = _tables[id(code)] = list(code.co_positions())
        line, last, col, end = table[lasti // 2] if lasti >= 0 else (None,) * 4
        end_col = end if last == line else 0
        found = _locs[key] = Loc(
            code.co_filename,
            line or code.co_firstlineno,
            col or 0,
            end_col or 0,
            code.co_name,
            caller,
        )
    return found


def current_loc(skip: int = 1) -> Loc | None:
    """The user's innermost frame and its callers, outwards to the kernel function.

    Outside of captured functions only the innermost frame means something, and stands alone.
    """
    frame: FrameType | None = sys._getframe(skip)
    places: list[FrameType] = []
    loc: Loc | None = None
    while frame is not None:
        code = frame.f_code
        kind = _kinds.get(id(code))
        if kind is None:
            kind = _kind(code)
        if kind == _USER:
            places.append(frame)
            if frame in _callers:
                loc = _callers[frame]
                break
        elif kind == _BOUNDARY:
            break
        frame = frame.f_back
    else:
        return loc_of_code(places[0].f_code, places[0].f_lasti) if places else None
    for place in reversed(places):
        if not place.f_code.co_flags & CO_GENERATOR:
            _callers[place] = loc
        loc = loc_of_code(place.f_code, place.f_lasti, loc)
    return loc


def forget_frames() -> None:
    """Lets go of the frames of captured functions: to be called where tracing ends."""
    _callers.clear()
