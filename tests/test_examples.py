"""Every example and every Python block of the README and the docs runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_example_runs(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout, "an example shows something"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
    if not blocks:
        pytest.skip(f"{page.name} has no Python block")
    script = tmp_path / "page.py"  # a kernel needs a file to be captured from
    script.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    shell = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert any("tilewright gemm" in block for block in shell)
    assert any("pytest" in block for block in shell)


def test_table_of_the_course_is_what_was_measured() -> None:
    page = ROOT / "examples" / "README.md"
    script = "import benchmarks.course as c; print(c.table(c.DEFAULT_OUT), end='')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert f"<!-- course -->\n{done.stdout}<!-- /course -->" in page.read_text()
