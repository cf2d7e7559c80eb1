"""tileiras: found, asked, cached, and quoted when it refuses.  A script stands in for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.errors import Loc, ToolchainError
from tilewright.runtime import tileiras
from tilewright.runtime.tileiras import compile_tile, find_tool, tileiras_version

Fake = Callable[[str], Path]

SCRIPT = """#!{python}
import sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(words) + "\\n")
if "--version" in words:
    print("Cuda compilation tools, release 13.4, V13.4.7")
elif "--help" in words:
    print("    =sm_90   -   SM 90\\n    =sm_100  -   SM 100\\n    =x86_64 - x86_64")
else:
    {body}
"""
COMPILES = "open(words[-1], 'wb').write(b'cubin of ' + open(words[-3], 'rb').read())"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a stand-in first on PATH, and a cache of its own; gives the log of its calls."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [p for p in sys.path if "site-packages" not in p])

    def install(body: str) -> Path:
        tool, log = tmp_path / "bin" / "tileiras", tmp_path / "calls"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(SCRIPT.format(python=sys.executable, log=str(log), body=body))
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tool.parent))
        tileiras._version.cache_clear()
        tileiras._targets.cache_clear()
        return log

    return install


def test_a_missing_tool_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ToolchainError) as caught:
        find_tool("tileiras")
    assert str(caught.value) == (
        "compiling Tile IR needs tileiras, which is neither on PATH nor in the package "
        'nvidia-cuda-tileiras\n  hint: pip install "tilewright[tileiras]"'
    )


def test_the_wheel_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia" / "cu13" / "bin" / "tileiras"
    tool.parent.mkdir(parents=True)
    tool.write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert find_tool("tileiras") == tool


def test_compiling_once_is_enough(fake: Fake) -> None:
    log = fake(COMPILES)
    first, hit = compile_tile(b"code", "k", "sm_90")
    assert (first.cubin, hit) == (b"cubin of code", False)
    assert first.nvrtc_version == "tileiras 13.4.7"
    again, hit = compile_tile(b"code", "k", "sm_90")
    assert (again.cubin, hit) == (b"cubin of code", True)
    compiled = [line for line in log.read_text().splitlines() if "--gpu-name" in line]
    assert len(compiled) == 1
    assert compiled[0].startswith("--gpu-name=sm_90 --opt-level=3 --lineinfo ")
    for arguments in ((b"other", "k", "sm_90"), (b"code", "k", "sm_100")):
        assert not compile_tile(*arguments).hit
    assert not compile_tile(b"code", "k", "sm_90", opt_level=1).hit
    assert tileiras_version() == "13.4.7"


def test_a_cache_serves_where_tileiras_is_missing(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(code: bytes) -> bytes:
        monkeypatch.setenv("PATH", "")
        return compile_tile(code, "k", "sm_90").compiled.cubin

    with pytest.raises(ToolchainError, match="compiling Tile IR needs tileiras"):
        alone(b"code")
    fake(COMPILES)
    compile_tile(b"code", "k", "sm_90")
    assert alone(b"code") == b"cubin of code"
    with pytest.raises(ToolchainError) as caught:
        alone(b"other code")
    assert str(caught.value).startswith("compiling Tile IR needs tileiras, which is neither on")
    assert "the cache has no cubin of 'k' for sm_90 by tileiras 13.4.7" in str(caught.value)
    monkeypatch.setenv("TILEWRIGHT_CACHE_ENABLED", "0")
    with pytest.raises(ToolchainError, match="compiling Tile IR needs tileiras"):
        alone(b"code")


def test_unknown_targets_are_refused_before_any_work(fake: Fake) -> None:
    log = fake(COMPILES)
    with pytest.raises(ToolchainError) as caught:
        compile_tile(b"code", "k", "sm_90a")
    assert str(caught.value) == (
        "tileiras 13.4.7 cannot compile for 'sm_90a'; it knows sm_90, sm_100\n  hint: write sm_90"
    )
    assert "--gpu-name" not in log.read_text()


def test_what_tileiras_says_is_handed_on(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_KEEP_DIR", str(tmp_path / "kept"))
    fake("sys.exit('warning: slow\\nerror: no such type\\nerror: failed to compile')")
    with pytest.raises(ToolchainError) as caught:
        compile_tile(b"code", "my kernel", "sm_90", loc=Loc("k.py", 7, 2))
    text = str(caught.value)
    assert text.startswith("tileiras refuses 'my kernel' for sm_90: no such type\n")
    assert "  options = --gpu-name=sm_90 --opt-level=3 --lineinfo\n" in text
    assert "tileiras says = warning: slow\n    error: no such type\n    error: failed" in text
    assert "  k.py:7:3" in text
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.read_bytes() == b"code"
    assert kept.name.startswith("my_kernel-")
    assert str(kept) in text


def test_its_own_place_comes_first(fake: Fake) -> None:
    fake("sys.exit('gemm.py:41:9: error: no such type')")
    with pytest.raises(ToolchainError) as caught:
        compile_tile(b"code", "k", "sm_90", loc=Loc("k.py", 7, 2))
    assert caught.value.loc == Loc("gemm.py", 41, 8)
    assert "tileiras says" not in caught.value.details


def test_its_place_may_be_debug_information(fake: Fake) -> None:
    said = '#cuda_tile.di_loc<loc("gemm.py":41:9) in #cuda_tile.di_subprogram<line = 22>>'
    fake(f"sys.exit({f'{said}: error: unsupported type{chr(10)}error: failed to compile'!r})")
    with pytest.raises(ToolchainError, match="refuses 'k' for sm_90: unsupported type") as caught:
        compile_tile(b"code", "k", "sm_90", loc=Loc("k.py", 7, 2))
    assert caught.value.loc == Loc("gemm.py", 41, 8)


def test_silence_is_an_error_too(fake: Fake) -> None:
    fake("sys.exit(9)")
    with pytest.raises(ToolchainError, match="refuses 'k' for sm_90: exit status 9"):
        compile_tile(b"code", "k", "sm_90")
    fake("pass")  # ends well, but writes nothing
    with pytest.raises(ToolchainError, match="refuses 'k' for sm_90: exit status 0"):
        compile_tile(b"code", "k", "sm_90")


def test_a_tool_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia" / "cu13" / "bin" / "tileiras"
    tool.parent.mkdir(parents=True)
    tool.write_text("not a program")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ToolchainError, match=r"tileiras does not start: Permission denied"):
        compile_tile(b"code", "k", "sm_90")
