"""Headless Chromium for tests: a page in, its DOM or a picture of it out."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

needs_chromium = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")


def browse(address: str, profile: Path, *flags: str) -> str:
    """What Chromium prints for a page."""
    assert BROWSER is not None
    profile.mkdir()
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", *flags, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def answers(page: Path, cases: list[dict[str, Any]], profile: Path) -> list[Any]:
    """What the explorer page answers to `cases`."""
    address = f"{page.as_uri()}#run={quote(json.dumps(cases))}"
    dom = browse(address, profile, "--dump-dom")
    found = re.search(r'<pre id="answers">(.*?)</pre>', dom, re.S)
    assert found, dom[-2000:]
    return list(json.loads(html.unescape(found.group(1))))
