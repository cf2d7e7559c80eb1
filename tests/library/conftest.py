"""What all tests of the library share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _programs_are_not_garbage() -> None:
    """Compiled programs are kept: a full collection need not look at those of other modules."""
    gc.collect()
    gc.freeze()
