"""Every environment flag of the project, in one typed table.

Nothing else reads the environment.  `settings()` reads it anew at each call, so a test or a
notebook may change a flag at any time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import TilewrightError


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags and their defaults; the field `x_y` is the variable `TILEWRIGHT_X_Y`."""

    cache_dir: Path
    """Where compiled cubins are kept (default: `tilewright` under the user's cache directory)."""

    cache_enabled: bool
    """Keep and use compiled cubins on disk (default 1)."""

    keep_dir: Path | None
    """Where to leave the generated CUDA C++, IR and logs of compilations (default: nowhere)."""

    native_enabled: bool
    """Build the C helper that repeats tile launches, where there is a compiler (default 1)."""

    arch: str
    """Compile for this target, such as `sm_90a`, instead of the machine's GPU (default: empty)."""


def _flag(name: str, default: bool) -> bool:
    text = os.environ.get(name, "")
    if text == "":
        return default
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise TilewrightError(f"{name}={text!r}: expected 1 or 0", hint=f"unset {name} for the default")


def _cache_home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base) if base else Path.home() / ".cache"


def settings() -> Settings:
    """Read the table from the environment.

    >>> import os
    >>> os.environ["TILEWRIGHT_ARCH"] = "sm_90a"
    >>> settings().arch
    'sm_90a'
    >>> del os.environ["TILEWRIGHT_ARCH"]
    """
    env = os.environ
    keep = env.get("TILEWRIGHT_KEEP_DIR", "")
    cache = env.get("TILEWRIGHT_CACHE_DIR", "")
    return Settings(
        cache_dir=Path(cache) if cache else _cache_home() / "tilewright",
        cache_enabled=_flag("TILEWRIGHT_CACHE_ENABLED", True),
        keep_dir=Path(keep) if keep else None,
        native_enabled=_flag("TILEWRIGHT_NATIVE_ENABLED", True),
        arch=env.get("TILEWRIGHT_ARCH", ""),
    )
