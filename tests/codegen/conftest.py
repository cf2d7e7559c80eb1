"""Golden CUDA text, NVRTC where it is installed, and this folder's own modules."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

GOLDEN = Path(__file__).parent.parent / "golden" / "codegen"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares text with `tests/golden/codegen/NAME.cu`.

    `UPDATE_GOLDEN=1 pytest tests/codegen` writes the files anew.
    """

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.cu"
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no {path}: write it with UPDATE_GOLDEN=1"
        assert text == path.read_text(), f"{path} differs; if it should, run with UPDATE_GOLDEN=1"

    return check
