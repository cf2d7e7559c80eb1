"""The public names and signatures are cuTile's; where cuda.tile is installed, compared with it."""

import doctest
import importlib
import importlib.util
import inspect

import pytest

import tilewright.tile as ct

NATIVE = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.tile")
CLASSES = ("Array", "Tile", "TiledView", "ByTarget", "kernel")
MODULES = ("compilation", "jax", "tune")

DIFFERENCES = {
    "launch": "takes backend= as well",
    "Tile.ir": "the value in the kernel being captured",
    "Tile.type": "its Tile IR type",
    "kernel.function": "the Python function",
    "kernel.hints": "the hints, read",
    "kernel.parameters": "the parameters, read",
    "kernel.programs": "what was compiled",
    "kernel.constants": "which parameters are constants",
    "kernel.prepared": "launches that can be repeated",
    "ByTarget.value_for": "the value for one target",
    "compilation.CallingConvention": "a dataclass of ours; there a class of the extension module",
}
"""Deliberate differences, and why.  Errors and dtypes are ours: only their names are compared."""


def signature(obj):
    """Parameters as (name, kind, default); None where Python cannot say."""
    try:
        found = inspect.signature(obj)
    except (TypeError, ValueError):
        return None
    rows = []
    for p in found.parameters.values():
        default = getattr(p.default, "name", None) or repr(p.default)
        rows.append((p.name, p.kind.name, "" if p.default is p.empty else default))
    return rows


def surface(root):
    """Public name -> signature, of the functions, the classes' members and the submodules."""
    found = {}
    for name in root.__all__:
        obj = getattr(root, name)
        comparable = inspect.isroutine(obj)
        found[name] = signature(obj) if comparable else None
    for owner in CLASSES:
        cls = getattr(root, owner)
        for name in dir(cls):
            if not name.startswith("_"):
                raw = inspect.getattr_static(cls, name)
                if inspect.ismemberdescriptor(raw):
                    continue
                plain = isinstance(raw, property) or not callable(getattr(cls, name))
                found[f"{owner}.{name}"] = None if plain else signature(getattr(cls, name))
    for owner in MODULES:
        module = importlib.import_module(f"{root.__name__}.{owner}")
        names = getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")])
        for name in names:
            obj = getattr(module, name)
            found[f"{owner}.{name}"] = signature(obj) if callable(obj) else None
    return found


def test_there_are_the_names_of_the_fact_sheet():
    assert len(ct.__all__) == len(set(ct.__all__)) >= 150
    for name in ct.__all__:
        assert getattr(ct, name, None) is not None, name


def test_every_function_is_documented():
    for name in ct.__all__:
        obj = getattr(ct, name)
        if inspect.isroutine(obj) or inspect.isclass(obj):
            assert (obj.__doc__ or "").strip(), name


def test_the_example_of_the_module_runs():
    failed, run = doctest.testmod(ct)
    assert (failed, run > 0) == (0, True)


@pytest.mark.skipif(not NATIVE, reason="cuda.tile is not installed")
def test_names_and_signatures_are_those_of_cuda_tile():
    theirs = surface(importlib.import_module("cuda.tile"))
    ours = surface(ct)
    assert not set(theirs) - set(ours) - set(DIFFERENCES)
    assert not set(ours) - set(theirs) - set(DIFFERENCES)
    for name, wanted in theirs.items():
        if wanted is not None and name not in DIFFERENCES:
            assert ours[name] == wanted, name


@pytest.mark.skipif(not NATIVE, reason="cuda.tile is not installed")
def test_enums_are_those_of_cuda_tile():
    theirs = importlib.import_module("cuda.tile")
    for name in ("PaddingMode", "RoundingMode", "MemoryOrder", "MemoryScope"):
        wanted = {m.name: m.value for m in getattr(theirs, name)}
        assert {m.name: m.value for m in getattr(ct, name)} == wanted
    for dtype in ct.__all__:
        if isinstance(getattr(ct, dtype), ct.DType):
            assert getattr(ct, dtype).bitwidth == getattr(theirs, dtype).bitwidth
