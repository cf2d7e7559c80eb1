"""Helper functions of generated code: only those that a kernel uses are put in front of it.

A helper is text, and the helpers and typedefs that the text itself mentions.  PTX strings are
facts of the PTX ISA.  Where ordering matters the asm is volatile and clobbers memory.
"""

from __future__ import annotations

import re

from tilewright.codegen.cuda.spelling import TYPEDEFS

_MACRO = "#define DEV __device__ __forceinline__"
_TENSOR_MAP = "struct alignas(64) TensorMap { u64 word[16]; };"
_WORD = re.compile(r"[A-Za-z_]\w*")


def asm(
    template: str,
    outputs: str = "",
    inputs: str = "",
    *,
    memory: bool = True,
    volatile: bool = True,
) -> str:
    """One asm statement.  Lines of `template` become lines of PTX."""
    lines = template.split("\n")
    quoted = " ".join(f'"{line}\\n"' if i + 1 < len(lines) else f'"{line}"'
                      for i, line in enumerate(lines))  # fmt: skip
    tail = [outputs, inputs, '"memory"' if memory else ""]
    while tail and not tail[-1]:
        tail.pop()
    constraints = "".join(f" : {part}".rstrip() for part in tail)
    return f"asm{' volatile' if volatile else ''}({quoted}{constraints});"


def function(signature: str, *body: str) -> str:
    """A helper's definition: on one line if it is short."""
    one = f"DEV {signature} {{ {' '.join(body)} }}"
    if len(one) <= 100 and len(body) <= 2:
        return one
    return "\n".join([f"DEV {signature} {{", *(f"  {line}" for line in body), "}"])


HELPERS: dict[str, str] = {
    "smem_u32": function("u32 smem_u32(const void* p)", "return (u32)__cvta_generic_to_shared(p);"),
    "copy16": function(
        "void copy16(void* dst, const void* src)", "*(uint4*)dst = *(const uint4*)src;"
    ),
    "copy8": function(
        "void copy8(void* dst, const void* src)", "*(uint2*)dst = *(const uint2*)src;"
    ),
    "copy4": function("void copy4(void* dst, const void* src)", "*(u32*)dst = *(const u32*)src;"),
    "copy2": function("void copy2(void* dst, const void* src)", "*(u16*)dst = *(const u16*)src;"),
    "copy1": function("void copy1(void* dst, const void* src)", "*(u8*)dst = *(const u8*)src;"),
    # Python's // and %: the quotient is rounded down.
    "floor_div": "template <class T> "
    + function(
        "T floor_div(T a, T b)",
        "const T q = a / b;",
        "return q - (q * b != a && (a < 0) != (b < 0));",
    ),
    "floor_mod": "template <class T> "
    + function(
        "T floor_mod(T a, T b)",
        "const T r = a % b;",
        "return r != 0 && (r < 0) != (b < 0) ? r + b : r;",
    ),
    # Assertions only: a trap inside a wait loop costs a kernel its setmaxnreg budget.
    "require": function(
        "void require(bool ok, const char* message)",
        "if (ok) return;",
        'printf("%s: block %d %d %d, thread %d %d %d\\n", message, blockIdx.x, blockIdx.y,',
        "       blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);",
        asm("trap;"),
    ),
}


class Prelude:
    """The helpers that one kernel uses, in an order in which each finds those it calls."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def use(self, name: str, text: str | None = None) -> str:
        """Makes `name` available, with `text` if it is not one of `HELPERS`; returns `name`."""
        if name not in self._texts:
            body = text if text is not None else HELPERS[name]
            for word in dict.fromkeys(_WORD.findall(body)):
                if word in HELPERS and word != name:
                    self.use(word)
            self._texts[name] = body
        return name

    def names(self) -> set[str]:
        """The functions that are called (overloads have longer keys)."""
        return {_WORD.match(key)[0] for key in self._texts}  # type: ignore[index]

    def text(self, kernel: str) -> str:
        """Typedefs and helpers for `kernel`, the text of the entry point."""
        code = "\n".join([*self._texts.values(), kernel])
        words = set(_WORD.findall(code))
        maps = "TensorMap" in words
        types = [t for t in TYPEDEFS if t in words or (t == "u64" and maps)]
        parts = [f"typedef {TYPEDEFS[t]} {t};" for t in types]
        if maps:
            parts.append(_TENSOR_MAP)
        if self._texts:
            parts.append(_MACRO)
        return "\n".join([*parts, *self._texts.values()])
