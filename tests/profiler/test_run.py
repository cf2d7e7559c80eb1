"""Running cases: in the simulator for real, on a GPU with a framework that plays one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tilewright.arch.target import target
from tilewright.errors import LaunchError
from tilewright.library.reference import Verification
from tilewright.numeric.dtypes import DType
from tilewright.profiler import run, values
from tilewright.profiler.run import RunOptions, not_run, run_case
from tilewright.profiler.sweep import Case, Sweep, expand
from tilewright.profiler.values import Distribution

H200 = target("sm_90a")


def case(kernel: str = "simt", k: int = 16, beta: float = 0.0) -> Case:
    sweep = Sweep(
        (16,),
        (16,),
        (k,),
        a=values.operands("f16:row", "--A"),
        b=values.operands("f16:column", "--B"),
        c=values.operands("f16:row", "--C"),
        beta=(beta,),
        kernels=kernel,
    )
    return expand(sweep, H200)[0]


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_simulated(beta: float) -> None:
    (result,) = run_case(case(beta=beta), RunOptions(), None)
    assert (result.provider, result.disposition, result.status) == (
        "Tilewright-sim",
        "passed",
        "success",
    )
    assert result.runtime_ms is None
    assert result.gflops is None
    assert result.counters["instructions"] > 0


def test_simulated_on_integers_is_exact() -> None:
    options = RunOptions(distribution=Distribution("uniform", -2, 2, 0))
    (result,) = run_case(case(), options, None)
    assert result.verification["host"].relative == 0.0


def test_without_verification() -> None:
    (result,) = run_case(case(), RunOptions(verify=False), None)
    assert result.disposition == "not_verified"
    assert not result.verification


def test_a_refusal_is_not_run() -> None:
    (result,) = run_case(case("sm90", k=12), RunOptions(), None)
    assert result.disposition == "not_supported"
    assert "16 bytes" in result.status


def test_what_was_never_begun() -> None:
    assert not_run(case(), None).disposition == "not_run"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LaunchError("grid is 0", hint="x"), "grid is 0"),
        (IndexError("pop from empty list"), "internal error: IndexError: pop from empty list"),
    ],
)
def test_errors_become_results(
    error: Exception, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(run, "prepare_gemm", broken)
    (result,) = run_case(case(), RunOptions(), None)
    assert (result.disposition, result.status) == ("failed", status)


class FakeGpu:
    """A framework whose arrays are NumPy's and whose time stands still but for kernels."""

    name = "fake"

    def __init__(self) -> None:
        self.now = 0.0

    def upload(self, host: Any, row: DType) -> Any:
        assert host.dtype.itemsize * 8 == row.bits
        return host

    def sweep(self) -> None:
        self.now += 100.0

    def mark(self) -> float:
        return self.now

    def synchronize(self) -> None:
        pass

    def elapsed_us(self, start: float, stop: float) -> float:
        return stop - start


@dataclass
class FakePrepared:
    gpu: FakeGpu
    passes: bool

    def bind(self) -> Callable[[], None]:
        def launch() -> None:
            self.gpu.now += 5.0

        return launch

    def verify(self) -> Verification:
        return Verification(self.passes, 0.1, 0.1, (0, 0), "as asked")


def measured(monkeypatch: pytest.MonkeyPatch, options: RunOptions, passes: bool = True) -> Any:
    gpu = FakeGpu()
    handed: dict[str, Any] = {}

    def prepare(*_: Any, **words: Any) -> FakePrepared:
        handed.update(words)
        assert np.isnan(words["out"]).all(), "the output must be poisoned"
        return FakePrepared(gpu, passes)

    monkeypatch.setattr(run, "prepare_gemm", prepare)
    results = run_case(case(), options, gpu)
    assert handed["backend"] == "gpu"
    assert handed["kernel"] == "simt_gemm"
    return results


def test_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = measured(monkeypatch, RunOptions(rounds=4))
    assert (result.provider, result.disposition) == ("Tilewright", "passed")
    assert result.runtime_ms == pytest.approx(5e-3)
    assert result.gflops == pytest.approx(result.case.problem.flops / 5e-6 / 1e9)
    assert list(result.verification) == ["host"]


def test_measured_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = measured(monkeypatch, RunOptions(rounds=2), passes=False)
    assert result.disposition == "incorrect"


def test_measured_without_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = measured(monkeypatch, RunOptions(rounds=0))
    assert result.timing is None


def test_a_peer_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, peer = measured(monkeypatch, RunOptions(rounds=2, peers=("torch",)))
    assert ours.disposition == "passed"
    assert (peer.provider, peer.disposition, peer.status) == (
        "torch",
        "not_supported",
        "torch is not installed",
    )


def test_device_verification_needs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = measured(monkeypatch, RunOptions(verification_providers=("device",)))
    assert result.disposition == "failed"
    assert result.status == "--verification-providers=device needs torch; use host"
