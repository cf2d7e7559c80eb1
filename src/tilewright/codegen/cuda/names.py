"""Identifiers of generated code: hints made legal, unique, and free again when their scope ends."""

from __future__ import annotations

import re

_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit
export extern false float for friend goto if inline int long mutable namespace new noexcept not
not_eq nullptr operator or or_eq private protected public register reinterpret_cast return short
signed sizeof static static_assert static_cast struct switch template this thread_local throw true
try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
threadIdx blockIdx blockDim gridDim warpSize smem min max abs printf fma exp log sin cos sqrt clock
i8 u8 i16 u16 u32 i64 u64 f16 bf16 e4m3 e5m2 e8m0 DEV TensorMap
"""
RESERVED = frozenset(_WORDS.split())


class Names:
    """Hands out identifiers.  A name is never the same as one that is visible where it is declared.

    >>> names = Names()
    >>> names.fresh("stage"), names.fresh("stage"), names.fresh("2 x"), names.fresh("")
    ('stage', 'stage_1', 'v2_x', 'v0')
    """

    def __init__(self) -> None:
        self._scopes: list[set[str]] = [set()]
        self._visible: set[str] = set(RESERVED)
        self._anonymous = 0
        self.given: set[str] = set()
        """Every name ever handed out."""

    def reserve(self, name: str) -> None:
        """Keeps `name` (a helper's, say) from being handed out."""
        self._visible.add(name)

    def open(self) -> None:
        self._scopes.append(set())

    def close(self) -> None:
        self._visible -= self._scopes.pop()

    def fresh(self, hint: str) -> str:
        base = re.sub(r"\W+", "_", hint, flags=re.ASCII).strip("_")
        if not base:
            base = f"v{self._anonymous}"
            self._anonymous += 1
        elif base[0].isdigit():
            base = f"v{base}"
        name, number = base, 0
        while name in self._visible:
            number += 1
            name = f"{base}_{number}"
        self._visible.add(name)
        self._scopes[-1].add(name)
        self.given.add(name)
        return name
