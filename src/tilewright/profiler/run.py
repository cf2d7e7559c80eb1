"""One case run: prepared, computed, verified, and timed (GPU) or counted (simulator)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.library.gemm import PreparedGemm, prepare_gemm
from tilewright.library.reference import Verification
from tilewright.profiler.data import draw_operands
from tilewright.profiler.device import Framework, TorchDevice
from tilewright.profiler.sweep import Case
from tilewright.profiler.timing import Ratio, Timing, compare, interleave
from tilewright.profiler.values import Distribution
from tilewright.profiler.verify import verify_with_torch

OURS = "Tilewright"
SIMULATED = "Tilewright-sim"
PEER = "torch"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How each case is run.  `rounds` times each kernel twice; 0 does not time at all."""

    seed: int = 2026
    distribution: Distribution = field(default_factory=Distribution)
    verify: bool = True
    verification_providers: tuple[str, ...] = ()
    """`host` (float64 in NumPy) or `device` (float64 in torch); empty is device if it can be."""

    warmup: int = 10
    rounds: int = 50
    peers: tuple[str, ...] = ()
    arch: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a case.

    Dispositions: passed, incorrect, not_verified (it ran), failed (an error), not_supported (the
    kernel refuses the problem, for the reason in `status`), not_run.
    `counters` are the simulator's; `runtime_ms` is None where nothing was timed; `ratios` are the
    peers' times over ours.
    """

    case: Case
    provider: str
    disposition: str
    status: str = "success"
    verification: Mapping[str, Verification] = field(default_factory=dict)
    timing: Timing | None = None
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    wall_s: float = 0.0

    @property
    def runtime_ms(self) -> float | None:
        return self.timing.median_us / 1e3 if self.timing else None

    @property
    def gflops(self) -> float | None:
        """10^9 operations per second; None where nothing was timed."""
        runtime = self.runtime_ms
        return self.case.problem.flops / runtime / 1e6 if runtime else None

    @property
    def gbytes(self) -> float | None:
        """GiB/s of the fewest bytes that must be moved, CUTLASS's unit."""
        runtime = self.runtime_ms
        return self.case.problem.bytes / runtime * 1e3 / 2**30 if runtime else None


def run_case(case: Case, options: RunOptions, framework: Framework | None) -> list[Result]:
    """Run a case on the GPU of `framework`, or in the simulator if that is None.

    One result for our kernel, and one for each peer.  Errors become results, so that a sweep goes
    on: a `failed` one carries the message.
    """
    provider = SIMULATED if framework is None else OURS
    if case.reason:
        return [Result(case, provider, "not_supported", case.reason)]
    start = time.perf_counter()
    try:
        if framework is None:
            return [_simulate(case, options)]
        return _measure(case, options, framework)
    except TilewrightError as error:
        status = error.message
    except Exception as error:  # a fault of ours must not cost the rest of a long sweep
        status = f"internal error: {type(error).__name__}: {error}"
    wall = time.perf_counter() - start
    return [Result(case, provider, "failed", status.splitlines()[0], wall_s=wall)]


def not_run(case: Case, framework: Framework | None) -> Result:
    """The result of a case that was never begun, because the sweep was interrupted."""
    return Result(case, SIMULATED if framework is None else OURS, "not_run", "interrupted")


def _prepare(case: Case, arrays: tuple[Any, ...], backend: str, arch: str) -> PreparedGemm:
    a, b, c, out = arrays
    return prepare_gemm(
        a,
        b,
        c,
        alpha=case.alpha,
        beta=case.beta,
        out=out,
        kernel=case.operation.kernel,
        config=case.config,
        backend=backend,
        arch=arch,
    )


def _simulate(case: Case, options: RunOptions) -> Result:
    arrays = draw_operands(case.problem, options.distribution, options.seed)
    prepared = _prepare(case, arrays, "sim", options.arch)
    start = time.perf_counter()
    report = prepared.run()
    wall = time.perf_counter() - start
    checks = {"host": prepared.verify()} if options.verify else {}
    return Result(
        case,
        SIMULATED,
        _disposition(checks),
        verification=checks,
        counters=report.counters if report else {},
        wall_s=wall,
    )


def _measure(case: Case, options: RunOptions, framework: Framework) -> list[Result]:
    start = time.perf_counter()
    problem = case.problem
    rows = (problem.a.dtype, problem.b.dtype, problem.d.dtype, problem.d.dtype)
    host = draw_operands(problem, options.distribution, options.seed)
    arrays = tuple(
        framework.upload(array, row) if array is not None else None
        for array, row in zip(host, rows, strict=True)
    )
    prepared = _prepare(case, arrays, "gpu", options.arch)
    launch = prepared.bind()
    launch()
    framework.synchronize()
    checks = _verify(prepared, options, framework) if options.verify else {}
    calls: dict[str, Callable[[], object]] = {OURS: launch}
    peers = []
    if PEER in options.peers:
        refusal = _peer_refusal(case, framework)
        if refusal:
            peers = [Result(case, PEER, "not_supported", refusal)]
        elif isinstance(framework, TorchDevice):
            calls[PEER] = torch_call(framework.torch, arrays, case.alpha, case.beta)
    timings = (
        interleave(calls, framework, rounds=options.rounds, warmup=options.warmup)
        if options.rounds
        else {}
    )
    wall = time.perf_counter() - start
    ours = Result(
        case,
        OURS,
        _disposition(checks),
        verification=checks,
        timing=timings.get(OURS),
        ratios={n: compare(timings[OURS], timings[n]) for n in timings if n != OURS},
        wall_s=wall,
    )
    peers += [Result(case, n, "not_verified", timing=timings[n]) for n in timings if n != OURS]
    return [ours, *peers]


def _peer_refusal(case: Case, framework: Framework) -> str:
    if not isinstance(framework, TorchDevice):
        return "torch is not installed"
    a, d = case.problem.a.dtype, case.problem.d.dtype
    return "" if a is d else f"torch.matmul returns {a.name} for {a.name} inputs, D is {d.name}"


def torch_call(
    torch: Any, arrays: tuple[Any, ...], alpha: float, beta: float
) -> Callable[[], object]:
    """torch's own product of the same operands (cuBLAS), into an output of its own."""
    a, b, c, out = arrays
    into = torch.empty_like(out)
    if beta == 0 and alpha == 1:
        return lambda: torch.matmul(a, b, out=into)
    base = c if c is not None else torch.zeros_like(out)
    return lambda: torch.addmm(base, a, b, beta=beta, alpha=alpha, out=into)


def _verify(
    prepared: PreparedGemm, options: RunOptions, framework: Framework
) -> dict[str, Verification]:
    has_device = isinstance(framework, TorchDevice)
    wanted = options.verification_providers or ("device" if has_device else "host",)
    found = {}
    for provider in wanted:
        if provider == "device":
            if not isinstance(framework, TorchDevice):
                raise TilewrightError("--verification-providers=device needs torch; use host")
            found[provider] = verify_on_device(prepared, framework)
        else:
            found[provider] = prepared.verify()
    return found


def verify_on_device(prepared: PreparedGemm, framework: TorchDevice) -> Verification:
    """`prepared.verify()`, computed on the GPU."""
    a, b, c = prepared.operands
    return verify_with_torch(
        framework.torch,
        prepared.out,
        a,
        b,
        c,
        prepared.alpha,
        prepared.beta,
        prepared.plan.problem.d.dtype,
    )


def _disposition(checks: Mapping[str, Verification]) -> str:
    if not checks:
        return "not_verified"
    return "passed" if all(check.passed for check in checks.values()) else "incorrect"
