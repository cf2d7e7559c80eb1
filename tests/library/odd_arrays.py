"""Operands at any pitch and any alignment, filled with small integers: products are exact."""

from __future__ import annotations

from typing import Any

import numpy as np


def integers(
    rows: int,
    columns: int,
    *,
    row_major: bool = True,
    gap: int = 0,
    skip: int = 0,
    batch: int = 0,
    seed: int = 0,
    dtype: Any = np.float16,
) -> Any:
    """(rows, columns), or (batch, rows, columns): `gap` elements behind each line of memory, `skip`
    in front of all; both are NaN, which poisons a sum that reads them."""
    lines, length = (rows, columns) if row_major else (columns, rows)
    count = max(batch, 1)
    whole = np.full(skip + count * lines * (length + gap), np.nan, dtype)
    data = whole[skip:].reshape(count, lines, length + gap)[:, :, :length]
    data[...] = np.random.default_rng(seed).integers(-2, 3, data.shape)
    data = data if batch else data[0]
    return data if row_major else np.swapaxes(data, -1, -2)


def product(a: Any, b: Any) -> Any:
    """a @ b, exactly."""
    return a.astype(np.float64) @ b.astype(np.float64)
