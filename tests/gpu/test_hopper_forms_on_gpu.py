"""Every form of wgmma and TMA that the language offers, on the GPU: exact on integers.

The same kernels run in the simulator in `tests/lang/cute/test_programs.py`: majors, swizzles,
clusters with multicast, A in registers, fp8.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright import cute

sys.path.insert(0, str(Path(__file__).parent.parent / "lang" / "cute"))
import kernels_hopper as hopper
from test_programs import CONFIGS

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.gpu("sm_90a")


def integers(rows: int, columns: int, dtype: Any, k_major: bool) -> Any:
    """Small integers, K contiguous or not: (rows, K)."""
    shape = (rows, columns) if k_major else (columns, rows)
    data = torch.randint(-2, 3, shape, device="cuda").to(torch.float32).to(dtype)
    return data if k_major else data.T


@pytest.mark.parametrize("name", CONFIGS)
def test_form(name: str) -> None:
    config = CONFIGS[name]
    dtype = torch.bfloat16 if config.element.width == 16 else torch.float8_e4m3fn
    a = integers(256, 320, dtype, config.a_major == "K")
    b = integers(128, 320, dtype, config.b_major == "K")
    c = torch.full((256, 128), float("nan"), device="cuda", dtype=torch.bfloat16)
    cute.compile(hopper.host, a, b, c, config).launch(a, b, c, config)
    torch.cuda.synchronize()
    assert bool((c == (a.double() @ b.double().T).bfloat16()).all())
