"""Makes `corpus` importable for the tests of this folder, and adds `--sanitizer-seeds`."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

SEEDS = int(os.environ.get("TILEWRIGHT_SANITIZER_SEEDS", "3"))


@pytest.fixture(scope="session")
def seeds() -> range:
    """The seeds that each kernel of the corpus runs with; TILEWRIGHT_SANITIZER_SEEDS=50 for all."""
    return range(SEEDS)
