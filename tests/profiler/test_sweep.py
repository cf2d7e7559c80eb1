from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.arch.target import target
from tilewright.errors import TilewrightError
from tilewright.profiler import values
from tilewright.profiler.report import arguments
from tilewright.profiler.sweep import MAX_CASES, Case, Sweep, expand, select

H200 = target("sm_90a")
TN = {
    "a": values.operands("bf16:row", "--A"),
    "b": values.operands("bf16:column", "--B"),
    "c": values.operands("bf16:row", "--C"),
}

few = st.lists(st.sampled_from([8, 64, 72, 256]), min_size=1, max_size=3, unique=True).map(tuple)
scales = st.lists(st.sampled_from([0.0, 1.0, 0.5]), min_size=1, max_size=2, unique=True).map(tuple)


@settings(deadline=None, max_examples=30)
@given(few, few, few, scales, scales)
def test_expand_is_the_cartesian_product(
    m: tuple[int, ...],
    n: tuple[int, ...],
    k: tuple[int, ...],
    alpha: tuple[float, ...],
    beta: tuple[float, ...],
) -> None:
    sweep = Sweep(m, n, k, **TN, alpha=alpha, beta=beta)
    cases = expand(sweep, H200)
    problems = len(m) * len(n) * len(k) * len(alpha) * len(beta)
    assert {case.problem_id for case in cases} == set(range(1, problems + 1))
    assert len(cases) == problems * len(select(sweep, H200))
    for case in cases:
        assert (case.problem.c is not None) == (case.beta != 0)


def again(case: Case) -> Case:
    """The case that its own arguments ask for."""
    given_ = arguments(case)
    cta = tuple(values.counts(given_[f"cta_{x}"], x) if given_[f"cta_{x}"] else () for x in "mnk")
    sweep = Sweep(
        *(values.sizes(given_[x], x) for x in "mnk"),
        a=values.operands(given_["A"], "A"),
        b=values.operands(given_["B"], "B"),
        d=values.operands(given_["D"], "D"),
        alpha=values.numbers(given_["alpha"], "alpha"),
        beta=values.numbers(given_["beta"], "beta"),
        kernels=case.operation.kernel,
        cta=(cta[0], cta[1], cta[2]),
        stages=values.counts(given_["stages"], "") if given_["stages"] else (),
    )
    found = expand(sweep, H200)
    assert len(found) == 1
    return found[0]


def test_arguments_can_be_used_again() -> None:
    for case in expand(Sweep((64, 200), (72,), (64,), beta=(0.0, 2.0)), H200):
        assert arguments(again(case)) == arguments(case)
        assert again(case).name == case.name


def test_a_refusal_is_kept_with_its_reason() -> None:
    cases = expand(Sweep((64,), (64,), (36,), **TN, kernels="sm90_gemm"), H200)
    assert len(cases) == 1
    assert "16 bytes" in cases[0].reason


def test_knobs_are_laid_over_the_config() -> None:
    tile = ((128,), (128,), ())
    sweep = Sweep((256,), (256,), (64,), **TN, kernels="sm90_gemm", cta=tile, stages=(2, 3))
    cases = expand(sweep, H200)
    assert [case.config.num_stages for case in cases] == [2, 3]
    assert {case.config.tile_shape_mnk[1] for case in cases} == {128}
    assert "_128x128x64_" in cases[0].name


def test_kernels_without_the_knob_do_not_take_part() -> None:
    for sweep in (
        Sweep((64,), (64,), (64,), **TN, kernels="simt", stages=(3,)),
        Sweep((64,), (64,), (64,), **TN, accum=("f16",)),
    ):
        with pytest.raises(TilewrightError, match="no operation matches"):
            expand(sweep, H200)


def test_filters_are_repeated_in_the_message() -> None:
    sweep = Sweep((1,), (1,), (1,), **TN, kernels="nope", accum=("f16",), stages=(3, 4))
    with pytest.raises(TilewrightError) as caught:
        expand(sweep, H200)
    assert caught.value.message.startswith(
        "no operation matches --kernels=nope --A=bf16:row --B=bf16:column --C=bf16:row "
        "--accum=f16 --stages=3,4; "
    )


def test_a_sweep_that_is_too_large() -> None:
    many = tuple(range(1, 400))
    with pytest.raises(TilewrightError) as caught:
        expand(Sweep(many, many, (64,), **TN), H200)
    assert f"the limit is {MAX_CASES:,}" in caught.value.message
    assert caught.value.hint == "narrow them: fewer sizes, or --kernels, --A, --B, --C"
