"""A text, its places, and the tokens at them."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

from tilewright.errors import Loc, VerifyError

# Possessive repeats (++ and *+) keep no way back, which a long text would pay with memory.
_SKIP = re.compile(r"(?:\s++|//[^\n]*+)*+")
_TOKEN = re.compile(
    r"""
      (?P<float>\d+\.\d*(?:[eE][+-]?\d+)?)
    | (?P<int>0x[0-9a-fA-F]+|\d+)
    | (?P<string>"(?:[^"\\\n]++|\\.)*+")
    | (?P<value>%(?:\d+|[A-Za-z$._-][\w$.-]*))
    | (?P<symbol>@(?:[A-Za-z_][\w$.]*|"(?:[^"\\\n]++|\\.)*+"))
    | (?P<attr>\#[A-Za-z_][\w$.]*|\#(?=\d)\d+)
    | (?P<type>![A-Za-z_][\w$.]*)
    | (?P<label>\^[\w$.-]+)
    | (?P<word>[A-Za-z_][\w$.]*)
    | (?P<punct>->|::|[(){}<>\[\],:=?*+#-])
    """,
    re.VERBOSE,
)


WIDTH = 200
"""The most of a line that a diagnostic shows."""

MAX_DIGITS = 40
"""The longest integer that is read as one; no field takes more than 64 bits."""


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is float, int, string, value, symbol, attr, type, label, word, punct or end."""

    kind: str
    text: str
    at: int
    end: int


class Source:
    """A text and what to call it in diagnostics."""

    __slots__ = ("_starts", "name", "text")

    def __init__(self, text: str, name: str = "<text>") -> None:
        self.text = text
        self.name = name
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(self, at: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect.bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1

    def loc(self, at: int) -> Loc:
        """An offset as the location that an operation carries."""
        line, column = self.place(at)
        return Loc(self.name, line, column - 1, column)

    def line(self, number: int) -> str:
        """A line of the text, counted from 1, without its end."""
        if not 0 < number <= len(self._starts):
            return ""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")

    def report(self, line: int, column: int, message: str, severity: str = "error") -> str:
        """A diagnostic: place and message, then the line with a caret under the column.

        >>> print(Source("a\\n  b", "f.mlir").report(2, 3, "b is not known"))
        f.mlir:2:3: error: b is not known
          2 |   b
            |   ^
        """
        head = f"{self.name}:{line}:{column}: {severity}: {message}"
        text = self.line(line)
        if not text.strip():
            return head
        start = max(0, min(column - 1 - WIDTH // 2, len(text) - WIDTH))
        text, column = text[start : start + WIDTH], column - start
        pad = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
        number = str(line)
        return f"{head}\n  {number} | {text}\n  {' ' * len(number)} | {pad}^"

    def error(self, at: int, message: str) -> VerifyError:
        """The error of a fault at an offset."""
        line, column = self.place(at)
        return VerifyError(self.report(line, column, message))


class Cursor:
    """Reads tokens one by one.

    `context` begins the messages of faults (`custom op 'cuda_tile.addf' `).
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.context = ""
        self.at = 0
        self.last_end = 0
        self._next: Token | None = None

    def peek(self) -> Token:
        """The next token, which stays."""
        if self._next is None:
            self._next = self._scan(self.at)
        return self._next

    def peek_after(self) -> Token:
        """The token after the next."""
        return self._scan(self.peek().end)

    def next(self) -> Token:
        """Takes the next token."""
        token = self.peek()
        self.at = self.last_end = token.end
        self._next = None
        return token

    def seek(self, at: int) -> None:
        """Goes on at an offset."""
        self.at = self.last_end = at
        self._next = None

    def _scan(self, at: int) -> Token:
        skipped = _SKIP.match(self.text, at)
        at = skipped.end() if skipped else at
        if at >= len(self.text):
            return Token("end", "end of text", at, at)
        match = _TOKEN.match(self.text, at)
        if match is None or match.lastgroup is None:
            raise self.source.error(at, f"unexpected character {self.text[at]!r}")
        return Token(match.lastgroup, match.group(), at, match.end())

    def error(self, message: str, at: int | None = None) -> VerifyError:
        """The error of a fault at an offset, or at the next token."""
        return self.source.error(self.peek().at if at is None else at, self.context + message)

    def is_next(self, text: str) -> bool:
        """Whether the next token is this punctuation or word."""
        token = self.peek()
        return token.text == text and token.kind in ("punct", "word")

    def accept(self, text: str) -> bool:
        """Takes the next token if it is this punctuation or word."""
        if self.is_next(text):
            self.next()
            return True
        return False

    def expect(self, text: str) -> Token:
        """Takes this punctuation or word."""
        if not self.is_next(text):
            # What is missing at the end of a line is reported there, not where the next begins.
            at = self.peek().at
            missing = "\n" in self.text[self.last_end : at]
            raise self.error(f"expected '{text}'", self.last_end if missing else at)
        return self.next()

    def take(self, kind: str, what: str) -> Token:
        """Takes a token of a kind, which a fault calls `what`."""
        if self.peek().kind != kind:
            raise self.error(f"expected {what}")
        return self.next()

    def integer(self, what: str = "integer value") -> int:
        """An integer with its sign."""
        negative = self.accept("-")
        token = self.take("int", what)
        if len(token.text) > MAX_DIGITS:
            raise self.error(f"integer value has more than {MAX_DIGITS} digits", token.at)
        value = int(token.text, 0) if token.text.startswith("0x") else int(token.text)
        return -value if negative else value

    def string(self, what: str = "string") -> str:
        """A quoted string's bytes, decoded."""
        return unescape(self.take("string", what).text[1:-1])


_ESCAPE = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t"}


def unescape(text: str) -> str:
    r"""The characters of a string literal's body: `\n`, `\t`, `\"`, `\\` and two hex digits.

    >>> unescape(r'a\0A\22')
    'a\n"'
    """

    def one(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 16)]) if match[1] else _LETTERS.get(match[2], match[2])

    return _ESCAPE.sub(one, text.encode()).decode("utf-8", "surrogateescape")


_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def symbol_text(name: str) -> str:
    """A symbol, quoted where it has to be.

    >>> symbol_text("main"), symbol_text("a b")
    ('@main', '@"a b"')
    """
    return f"@{name}" if _BARE.fullmatch(name) else f"@{escape(name)}"


def key_text(name: str) -> str:
    """A dictionary's key, quoted where it has to be."""
    return name if _BARE.fullmatch(name) else escape(name)


def symbol_name(text: str) -> str:
    """The name of a symbol as its token has it."""
    return unescape(text[2:-1]) if text.startswith('@"') else text[1:]


def escape(text: str) -> str:
    r"""A string literal, quotes included: printable ASCII as it is, other bytes as hex.

    >>> print(escape('50%\n"'))
    "50%\0A\22"
    """

    def one(byte: int) -> str:
        if byte == 0x5C:
            return "\\\\"
        return chr(byte) if 0x20 <= byte < 0x7F and byte != 0x22 else f"\\{byte:02X}"

    return '"' + "".join(map(one, text.encode("utf-8", "surrogateescape"))) + '"'
