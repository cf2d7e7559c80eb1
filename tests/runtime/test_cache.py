"""The cubin cache: hits across processes, damage, concurrency, and what is in the key."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tilewright.errors import ToolchainError
from tilewright.runtime import cache, toolchain
from tilewright.runtime.cache import cache_key, compile_cached, entry_path

pytestmark = pytest.mark.usefixtures("needs_nvrtc", "own_cache")

SOURCE = 'extern "C" __global__ void k(int* a) { a[threadIdx.x] = 7; }'
SETMAXNREG = """
extern "C" __global__ void k(int* a) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); a[0] = 1; }
"""


def test_the_second_call_is_a_hit_with_equal_facts() -> None:
    first, first_hit = compile_cached(SOURCE, "k", "sm_90a")
    second, second_hit = compile_cached(SOURCE, "k", "sm_90a")
    assert (first_hit, second_hit) == (False, True)
    assert first == second


def test_another_process_compiles_nothing() -> None:
    compile_cached(SOURCE, "k", "sm_90a")
    script = f"""
from tilewright.runtime import cache
result = cache.compile_cached({SOURCE!r}, "k", "sm_90a")
print(cache.stats.compilations, cache.stats.hits, result.hit, result.compiled.registers["k"] > 0)
"""
    env = os.environ | {"PYTHONPATH": str(Path(cache.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.stdout == "0 1 True True\n", done.stderr


def _compile_in_child(barrier: object) -> tuple[bytes, int]:
    barrier.wait()  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cubins = {compile_cached(SOURCE, "k", "sm_90a").compiled.cubin for _ in range(5)}
    assert len(cubins) == 1, "one key gave two cubins"
    return cubins.pop(), cache.stats.corrupt


def test_concurrent_processes_agree_and_leave_whole_entries() -> None:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(4) as pool:
        barrier = manager.Barrier(4)
        results = pool.map(_compile_in_child, [barrier] * 4, chunksize=1)
    assert len({cubin for cubin, _ in results}) == 1
    assert all(corrupt == 0 for _, corrupt in results)
    folder = entry_path(cache_key(SOURCE, "sm_90a")).parent
    assert sorted(file.suffix for file in folder.iterdir()) == [".cubin", ".json"]


@pytest.mark.parametrize("damage", ["truncate json", "wrong json", "cubin", "no cubin", "binary"])
def test_a_damaged_entry_is_reported_and_replaced(damage: str) -> None:
    good = compile_cached(SOURCE, "k", "sm_90a").compiled
    path = entry_path(cache_key(SOURCE, "sm_90a"))
    (cubin,) = path.parent.glob("*.cubin")
    if damage == "truncate json":
        path.write_text(path.read_text()[:50])
    elif damage == "wrong json":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"kernels": 3}))
    elif damage == "cubin":
        cubin.write_bytes(cubin.read_bytes()[:-1] + b"x")
    elif damage == "no cubin":
        cubin.unlink()
    else:
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.warns(
        RuntimeWarning, match=rf"cache entry {path.parent}.* is damaged \(.+\); compiling again"
    ):
        again, hit = compile_cached(SOURCE, "k", "sm_90a")
    assert not hit
    assert again.cubin == good.cubin
    assert compile_cached(SOURCE, "k", "sm_90a").hit


def test_an_unwritable_cache_costs_only_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.warns(RuntimeWarning) as caught:
        assert compile_cached(SOURCE, "k", "sm_90a").compiled.cubin
    texts = [str(row.message) for row in caught]
    assert any(text.startswith("tilewright cannot write its cache (") for text in texts)
    assert any("TILEWRIGHT_CACHE_DIR" in text for text in texts)


def test_a_disabled_cache_leaves_nothing(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_ENABLED", "0")
    assert not compile_cached(SOURCE, "k", "sm_90a").hit
    assert not compile_cached(SOURCE, "k", "sm_90a").hit
    assert not own_cache.exists()


def test_the_key_holds_source_flags_target_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [
        cache_key(SOURCE, "sm_90a"),
        cache_key(SOURCE + " ", "sm_90a"),
        cache_key(SOURCE, "sm_80"),
        cache_key(SOURCE, "sm_90a", ["-DA"]),
        cache_key(SOURCE, "sm_90a", ["-DA", "-DB"]),
        cache_key(SOURCE, "sm_90a", ["-DB", "-DA"]),  # order may matter to the compiler
    ]
    monkeypatch.setattr(toolchain, "nvrtc_version", lambda: "13.0.1")
    keys.append(cache_key(SOURCE, "sm_90a"))
    assert len(set(keys)) == len(keys)


def test_the_key_does_not_hold_process_name_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_cached(SOURCE, "k", "sm_90a")
    monkeypatch.setenv("TILEWRIGHT_ARCH", "sm_80")
    assert compile_cached(SOURCE, "another name", "sm_90a").hit
    script = (
        f"from tilewright.runtime.cache import cache_key; print(cache_key({SOURCE!r}, 'sm_80'))"
    )
    env = os.environ | {
        "PYTHONPATH": str(Path(cache.__file__).parents[2]),
        "PYTHONHASHSEED": "7",
    }
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == cache_key(SOURCE, "sm_80")


def test_a_hit_is_judged_like_a_miss() -> None:
    allowed = frozenset({"C7508"})
    assert not compile_cached(SETMAXNREG, "k", "sm_90a", allow_warnings=allowed).hit
    with pytest.raises(ToolchainError, match="ptxas warning C7508"):
        compile_cached(SETMAXNREG, "k", "sm_90a")
    assert compile_cached(SETMAXNREG, "k", "sm_90a", allow_warnings=allowed).hit


def test_a_hit_still_fills_the_keep_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_cached(SOURCE, "k", "sm_90a")
    monkeypatch.setenv("TILEWRIGHT_KEEP_DIR", str(tmp_path / "kept"))
    assert compile_cached(SOURCE, "k", "sm_90a").hit
    assert sorted(file.suffix for file in (tmp_path / "kept").iterdir()) == [
        ".cu",
        ".cubin",
        ".log",
    ]
