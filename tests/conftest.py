"""Tests marked `gpu("sm_90a")` run where such a GPU is; elsewhere they are skipped, with why."""

from __future__ import annotations

import os

# Small products by several processes at once: threads of BLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from tilewright.arch.target import target
from tilewright.runtime import driver

# Shared machines are slow at times: a slow example is no failure.
settings.register_profile("tilewright", deadline=None)
settings.load_profile("tilewright")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("gpu")
        if marker is None:
            continue
        available = driver.is_available()
        if not available:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {available.reason}"))
            continue
        wanted, found = marker.args[0], driver.device_info().target
        if target(found).sm < target(wanted).sm:
            item.add_marker(pytest.mark.skip(reason=f"needs {wanted}, the GPU is {found}"))
