"""Reads primitive encodings from bytes that may be hostile: every read is bounded."""

from __future__ import annotations

from tilewright.errors import VerifyError


class ByteCursor:
    """Reads `data` from `at` up to `end`; faults name the offset in the file."""

    def __init__(self, data: bytes, name: str, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.name = name
        self.at = at
        self.end = len(data) if end is None else end

    def error(self, message: str, at: int | None = None) -> VerifyError:
        """The error of a fault at an offset."""
        return VerifyError(f"{self.name}: byte {self.at if at is None else at}: error: {message}")

    @property
    def left(self) -> int:
        """How many bytes remain."""
        return self.end - self.at

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes."""
        if not 0 <= count <= self.left:
            raise self.error(f"{what} needs {count} bytes, {self.left} are left")
        found = self.data[self.at : self.at + count]
        self.at += count
        return found

    def byte(self, what: str) -> int:
        """One byte."""
        return self.take(1, what)[0]

    def varint(self, what: str) -> int:
        """An unsigned number of at most 64 bits."""
        start, value, shift = self.at, 0, 0
        while True:
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
            if shift >= 70:
                raise self.error(f"{what} is longer than 64 bits", start)
        if value >> 64:
            raise self.error(f"{what} is longer than 64 bits", start)
        return value

    def signed(self, what: str) -> int:
        """A zigzag number."""
        value = self.varint(what)
        return value >> 1 if not value & 1 else ~(value >> 1)

    def count(self, what: str, least: int = 1) -> int:
        """A number of things that take at least `least` bytes each."""
        start = self.at
        found = self.varint(what)
        if found * least > self.left:
            raise self.error(f"{what}: {found}, more than the {self.left} bytes left hold", start)
        return found

    def integers(self, width: int, what: str) -> tuple[int, ...]:
        """A count and little-endian integers of `width` bytes."""
        data = self.take(self.count(what, width) * width, what)
        step = range(0, len(data), width)
        return tuple(int.from_bytes(data[i : i + width], "little", signed=True) for i in step)

    def align(self, alignment: int) -> None:
        """Goes past padding, counted from the beginning of `base`."""
        self.take(-self.at % alignment, "padding")

    def inner(self, length: int, what: str) -> ByteCursor:
        """A cursor over the next `length` bytes, which this one goes past."""
        start = self.at
        self.take(length, what)
        return ByteCursor(self.data, self.name, start, start + length)
