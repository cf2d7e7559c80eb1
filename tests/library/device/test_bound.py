"""The GPU side of a handle without a GPU: what would be launched, and with which parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilewright.arch.target import target
from tilewright.compiler import bound as compiler_bound
from tilewright.compiler import program
from tilewright.compiler.arguments import read_arguments
from tilewright.compiler.host import LaunchRecord, evaluate_host
from tilewright.library.configs import Sm90GemmConfig
from tilewright.library.device import Gemm, GemmArguments, LinCombPerColBias
from tilewright.library.device import handle as handle_module
from tilewright.runtime import driver
from tilewright.runtime.arrays import ArrayView, as_array


class Params:
    def __init__(self, launch: Launch) -> None:
        self.launch = launch

    def fill(self, values: Any) -> None:
        self.launch.values = tuple(values)
        self.launch.fills += 1


class Launch:
    """A prepared launch that counts."""

    made = 0

    def __init__(self, record: LaunchRecord, stream: Any) -> None:
        self.record, self.stream, self.values = record, stream, record.args
        self.params, self.fills, self.count = Params(self), 0, 0
        self.elsewhere: list[Launch] = []
        Launch.made += 1

    def __call__(self) -> None:
        self.count += 1

    def on_stream(self, stream: Any) -> Launch:
        self.elsewhere.append(Launch(self.record, stream))
        return self.elsewhere[-1]


@pytest.fixture(autouse=True)
def no_gpu_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    h200 = target("sm_90a")
    monkeypatch.setattr(driver, "require_gpu", lambda: None)
    monkeypatch.setattr(handle_module, "default_target", lambda _device: h200)
    monkeypatch.setattr(
        program.Compiled, "_one", lambda _self, record, _device, stream: Launch(record, stream)
    )
    monkeypatch.setattr(compiler_bound, "_known", lambda fields: fields)
    Launch.made = 0


def on_gpu(*shape: int) -> ArrayView:
    return replace(as_array(np.zeros(shape, np.float16)), device="cuda:0")


def turned(view: ArrayView) -> ArrayView:
    return replace(view, shape=view.shape[::-1], strides=view.strides[::-1])


def arguments(m: int = 256, n: int = 128, k: int = 64, **more: Any) -> GemmArguments:
    a, b, c, d = on_gpu(m, k), turned(on_gpu(n, k)), on_gpu(m, n), on_gpu(m, n)
    return GemmArguments((m, n, k), a, b, c, d, **more)


def handle(config: Sm90GemmConfig | None = None, **how: Any) -> Gemm:
    gemm = Gemm(**how)
    if config is not None:
        gemm._kernel, gemm._config = "sm90_gemm", config
    return gemm


def fresh(gemm: Gemm) -> tuple[Any, ...]:
    """The parameters that a new launch of the handle's present arguments would have."""
    prepared = gemm.prepared
    compiled = prepared.compiled
    assert compiled is not None
    taken = read_arguments(compiled.signature, compiled.signature.bind(prepared.arguments, {}))
    assert compiled.module.host is not None
    (record,) = evaluate_host(compiled.module.host, taken.leaves)
    return record.args


def launch_of(gemm: Gemm) -> Launch:
    found: Any = gemm._launch
    assert isinstance(found, Launch)
    return found


PLAIN = Sm90GemmConfig((128, 128, 64), 4)


def test_run_only_launches() -> None:
    gemm = handle(PLAIN)
    gemm.initialize(arguments(), stream=5)
    for _ in range(3):
        gemm.run()
    launch = launch_of(gemm)
    assert (launch.count, launch.fills, launch.stream, Launch.made) == (3, 0, 5, 1)
    assert launch.values == fresh(gemm)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("bias", [False, True])
def test_an_update_refills_the_same_launch(swap: bool, beta: float, bias: bool) -> None:
    gemm = handle(replace(PLAIN, swap_operands=swap), **_with_bias(bias))
    vector = {"bias": on_gpu(128)} if bias else {}
    gemm.initialize(arguments(beta=beta, **vector))
    launch = launch_of(gemm)
    for alpha in (1.0, 3.0):
        vector = {"bias": on_gpu(128)} if bias else {}
        gemm.update(arguments(alpha=alpha, beta=2 * beta, **vector))
        assert launch_of(gemm) is launch
        assert launch.values == fresh(gemm)
    assert (launch.fills, Launch.made) == (2, 1)


def _with_bias(bias: bool) -> dict[str, Any]:
    return {"epilogue": LinCombPerColBias} if bias else {}


@pytest.mark.parametrize(
    "change",
    [
        {"m": 512},
        {"alpha": 0.0},
        {"beta": 1.0},
        {"hw_info": handle_module.GemmArguments((1, 1, 1), 0, 0, 0, 0).hw_info},
    ],
    ids=str,
)
def test_what_changes_more_is_planned_anew(change: dict[str, Any]) -> None:
    gemm = handle(PLAIN)
    gemm.initialize(arguments())
    if "hw_info" in change:
        change = {"hw_info": replace(change["hw_info"], sm_count=1)}
    gemm.update(arguments(**change))
    assert Launch.made == 2
    assert launch_of(gemm).values == fresh(gemm)


def test_an_update_of_another_alignment_is_planned_anew() -> None:
    gemm = handle()
    x = arguments()
    gemm.initialize(x)
    shifted = replace(x.a, pointer=x.a.pointer + 2)
    gemm.update(replace(x, a=shifted))
    assert Launch.made == 2
    assert gemm.prepared.plan.kernel != "sm90_gemm"


def test_an_update_that_overlaps_is_refused() -> None:
    gemm, x = handle(PLAIN), arguments(256, 128, 128)
    gemm.initialize(x)
    with pytest.raises(Exception, match="gemm: out overlaps a in memory"):
        gemm.update(replace(x, a=replace(x.a, pointer=x.d.pointer)))
    y = arguments(256, 128, 128)
    gemm.update(replace(y, c=y.d))
    assert launch_of(gemm).values == fresh(gemm)


def test_another_stream_has_a_launch_of_its_own() -> None:
    gemm = handle(PLAIN)
    gemm.initialize(arguments())
    for _ in range(2):
        gemm.run(stream=77)
    (other,) = launch_of(gemm).elsewhere
    assert (other.count, other.stream, launch_of(gemm).count) == (2, 77, 0)


def test_a_workspace_is_cleared_in_the_launch_s_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    cleared = []
    monkeypatch.setattr(
        "tilewright.library.device.workspace.clear", lambda *call: cleared.append(call)
    )
    gemm, x = handle(replace(PLAIN, split_k=2)), arguments(k=512)
    size = gemm.get_workspace_size(x)
    workspace = replace(as_array(np.zeros(size, np.uint8)), device="cuda:0")
    gemm.initialize(x, workspace, stream=9)
    assert cleared == [(workspace.pointer, size, 9)]
    gemm.update(arguments(k=512, alpha=2.0))
    assert len(cleared) == 1
    assert launch_of(gemm).values == fresh(gemm)
    with pytest.raises(Exception, match="workspace: needs memory on cuda:0, got memory on cpu"):
        gemm.initialize(x, np.zeros(size, np.uint8))
