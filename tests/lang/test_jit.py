"""Decorators, launches, and the host function that is traced around them."""

# ruff: noqa: ARG001, SIM113 (what is tested is the code as written)

from typing import Annotated, NamedTuple

import pytest
from evaluator import Machine, check_dominance, observe

from tilewright.errors import CaptureError, TypeMismatchError
from tilewright.ir.core import Value
from tilewright.ir.ops import control, host
from tilewright.ir.types import PtrType, ScalarType, Space
from tilewright.lang import jit as jit_module
from tilewright.lang.arguments import Constexpr, Rank
from tilewright.lang.jit import HostTrace, jit, kernel, set_executor, trace_host
from tilewright.lang.ranges import range_constexpr
from tilewright.lang.values import Boolean, Float32, Int32, Int64, from_ir
from tilewright.numeric.dtypes import BF16, I32


def integers(host_trace, *names):
    return [from_ir(host_trace.add_argument(n, ScalarType(I32))) for n in names]


def traced(fn, *names, **static):
    """The module of `fn` called with run-time Int32 arguments `names` and the static ones."""

    def arguments(h):
        return dict(zip(names, integers(h, *names), strict=True)) | static

    module = trace_host(fn, arguments)
    check_dominance(module.host.body)
    for k in module.kernels.values():
        check_dominance(k.body)
    return module


def launches(module):
    return [op for op in module.host.body.walk() if isinstance(op, host.Launch)]


def numbers(module, inputs):
    """The operands of the only launch, evaluated on the host arguments."""
    machine = Machine()
    machine.put(module.host.args, inputs)
    for op in module.host.body.ops:
        if isinstance(op, host.Launch):
            return machine.get(op.operands)
        machine.op(op)
    return None


@kernel
def scale(n: Int32, factor: Constexpr[int], flag=None):
    if n > factor:
        observe(n * factor)
    if flag is None:
        observe(0)


@jit
def run_scale(n: Int32, factor: Constexpr[int]):
    scale(n + 1, factor).launch(grid=[(n + 127) // 128, 2], block=128)


def test_a_launch():
    module = traced(run_scale, "n", factor=3)
    (launch,) = launches(module)
    made = module.kernels["scale"]
    assert launch.kernel == "scale"
    assert made.kind == "kernel"
    assert made.max_threads == 128
    assert made.cluster == (1, 1, 1)
    assert [(v.name, str(v.type)) for v in made.args] == [("n", "i32")]
    assert numbers(module, [300]) == [3, 2, 1, 128, 1, 1, 1, 1, 1, 0, 301]
    assert isinstance(made.body.ops[-1], control.Return)
    machine = Machine()
    machine.block(made.body, [5])
    assert machine.log == [15, 0]
    assert [str(v.type) for v in module.host.args] == ["i32"]


def test_launch_options():
    @kernel
    def empty():
        pass

    @jit
    def go(n):
        empty().launch(
            grid=n,
            block=(n, 2, 1),
            cluster=(2, 1, 1),
            smem=1024,
            stream=None,
            min_blocks_per_mp=2,
            use_pdl=True,
            max_number_threads=[256, 1, 1],
        )
        empty().launch(grid=(1, 1, 1), block=[32])

    module = traced(go, "n")
    first, second = module.kernels.values()
    assert [k.name for k in (first, second)] == ["empty", "empty_1"]
    assert (first.max_threads, first.min_blocks, first.cluster) == (256, 2, (2, 1, 1))
    assert (second.max_threads, second.min_blocks) == (32, 1)
    assert [op.pdl for op in launches(module)] == [True, False]
    assert numbers(module, [8]) == [8, 1, 1, 8, 2, 1, 2, 1, 1, 1024]


class Pair(NamedTuple):
    first: object
    second: object


class Params:
    """An object of the user: part static, part run time."""

    def __init__(self, tile, n):
        self.tile = tile
        self.n = n


class Pointer:
    """Speaks the protocol, as tensors do."""

    def __init__(self, base):
        self.base = base

    def __tw_values__(self):
        return [self.base]

    def __tw_with_values__(self, values):
        return Pointer(*values)


def test_arguments_are_flattened_once_and_rebuilt():
    @kernel
    def use(pair, params, pointer, again, items, name, kind):
        assert name == "k"
        assert kind is Float32
        assert params.tile == (64, 8)
        assert isinstance(pair, Pair)
        observe(pair.first, pair.second, params.n, items[1]["x"], again, items[0])
        assert isinstance(pointer, Pointer)
        assert pointer.base.type.space is Space.GMEM

    seen = []

    def arguments(h):
        (n,) = integers(h, "n")
        p = h.add_argument("p", PtrType(BF16, Space.GMEM, 16))
        seen.append(Params((64, 8), n))
        return {"n": n, "pointer": Pointer(p)}

    @jit
    def go(n, pointer):
        params = seen[0]
        use(
            Pair(n, n + 1), params, pointer, n, [4, {"x": Int32(9)}], name="k", kind=Float32
        ).launch(grid=1, block=32)
        assert isinstance(params.n.raw, Value)

    module = trace_host(go, arguments)
    made = module.kernels["use"]
    assert [v.name for v in made.args] == ["pair_0", "pair_1", "pointer"]
    machine = Machine()
    machine.block(made.body, [3, 4, None])
    assert machine.log == [3, 4, 3, 9, 3, 4]


class Gemm:
    """Kernels and host functions as methods, with compile-time attributes."""

    def __init__(self, tile):
        self.tile = tile

    @jit
    def __call__(self, n: Int32):
        self.blocks = (n + self.tile - 1) // self.tile
        self.kernel(n, self.blocks).launch(grid=self.blocks, block=self.threads())

    def threads(self):
        return 32 * self.tile

    @kernel
    def kernel(self, n: Int32, blocks):
        for i in range_constexpr(self.tile):
            if i < n:
                observe(self.double(i) + blocks)
        observe(self.blocks)

    @jit
    def double(self, x):
        return x * self.tile


def test_methods():
    gemm = Gemm(2)

    @jit
    def go(n):
        gemm(n)

    module = traced(go, "n")
    made = module.kernels["kernel"]
    assert made.max_threads == 64
    assert [v.name for v in made.args] == ["self", "n"]
    machine = Machine()
    machine.block(made.body, [4, 1])
    assert machine.log == [4, 4]


def test_kernels_do_not_change_the_hosts_objects():
    class Config:
        tile = 4

    @kernel
    def changes(config, n):
        config.tile = n
        config.extra = n * 2
        observe(config.tile)

    config = Config()

    @jit
    def go(n):
        changes(config, n).launch(grid=1, block=1)
        assert config.tile == 4
        assert not hasattr(config, "extra")

    assert list(traced(go, "n").kernels) == ["changes"]


def test_static_loops_and_branches_on_the_host():
    @jit
    def go(n, flag: Constexpr[bool] = False):
        for i in range(2):
            scale(n + i, 2, flag=i).launch(grid=i + 1, block=32)
        if flag:
            scale(n, 1).launch(grid=1, block=32)

    assert [op.kernel for op in launches(traced(go, "n"))] == ["scale", "scale_1"]
    assert len(launches(traced(go, "n", flag=True))) == 3


def test_retraced_loops_keep_their_kernels_once():
    @jit
    def go(n):
        total = 0
        for i in range(n):
            total += 1
            scale(n + total, i and 2).launch(grid=1, block=32)

    with pytest.raises(TypeMismatchError, match="argument factor of scale: expected a value known"):
        traced(go, "n")

    @jit
    def fine(n):
        total = 0
        for _ in range(n):
            total += 1
            scale(n + total, 2).launch(grid=1, block=32)

    assert list(traced(fine, "n").kernels) == ["scale"]


def test_calls_from_python_go_to_the_executor(monkeypatch):
    calls = []
    monkeypatch.setattr(jit_module, "_executor", [])
    with pytest.raises(CaptureError, match="run_scale cannot run: no compiler is installed") as e:
        run_scale(1, 2)
    assert e.value.hint == "import tilewright.compiler"
    set_executor(lambda fn, args, kwargs: calls.append((fn, args, kwargs)) or "done")
    assert run_scale(1, factor=2) == "done"
    assert calls == [(run_scale, (1,), {"factor": 2})]
    assert Gemm(2)(7) == "done"
    assert calls[1][0].name == "__call__"


def test_a_kernel_launched_from_python_gets_a_host_function(monkeypatch):
    calls = []
    monkeypatch.setattr(jit_module, "_executor", [])
    set_executor(lambda fn, args, kwargs: calls.append((fn, args, kwargs)))
    for grid in (4, (8, 2)):
        scale(10, factor=3).launch(grid=grid, block=64, stream="s")
    (fn, args, kwargs), (again, more, _) = calls
    assert fn is again
    assert (args, more[:3], kwargs) == ((4, 1, 1, "s", 10), (8, 2, 1), {"factor": 3})
    bound = fn.signature.bind(args, kwargs)

    def arguments(h):
        x, n = integers(h, "grid_x", "n")
        return bound | {"grid_x": x, "args": (n,)}

    module = trace_host(fn, arguments)
    assert module.host.name == "launch_scale"
    assert numbers(module, [4, 10]) == [4, 1, 1, 64, 1, 1, 1, 1, 1, 0, 10]


def refused(fn, *names, error=TypeMismatchError, **static):
    with pytest.raises(error) as e:
        traced(fn, *names, **static)
    return e.value


def test_wrong_launches():
    @jit
    def too_many(n):
        scale(n, 1).launch(grid=1, block=(64, 32))

    @jit
    def four(n):
        scale(n, 1).launch(grid=(1, 1, 1, 1), block=1)

    @jit
    def not_integers(n):
        scale(n, 1).launch(grid=1.5, block=1)

    @jit
    def nothing(n):
        scale(n, 1).launch(grid=1, block=0)

    assert refused(too_many, "n").message == (
        "launch: block 64 x 32 x 1 has 2048 threads, the limit is 1024"
    )
    assert refused(four, "n").message == "launch: grid takes 1 to 3 extents, got 4"
    assert refused(not_integers, "n").message == "launch: grid must hold integers, got float 1.5"
    problem = refused(nothing, "n")
    assert problem.message == "launch: block extents must be at least 1, got 0"
    assert problem.loc.snippet()[0] == "scale(n, 1).launch(grid=1, block=0)"


def test_wrong_kernels():
    @kernel
    def returns(n):
        return n

    @kernel
    def nests(n):
        scale(n, 1).launch(grid=1, block=1)

    @jit
    def first(n):
        returns(n).launch(grid=1, block=1)

    @jit
    def second(n):
        nests(n).launch(grid=1, block=1)

    @jit
    def third(n):
        @kernel
        def closes():
            observe(n)

        closes().launch(grid=1, block=1)

    problem = refused(first, "n", error=CaptureError)
    assert problem.message == "kernel returns returns a run-time Int32: a kernel returns nothing"
    problem = refused(second, "n", error=CaptureError)
    assert problem.message == "kernel scale is called inside another kernel"
    problem = refused(third, "n", error=CaptureError)
    assert problem.message == (
        "kernel closes uses %n: i32, a run-time value of the function around it"
    )
    assert problem.hint == "pass it to the kernel as an argument"
    assert problem.loc.caller.snippet()[0] == "observe(n)"


def test_wrong_arguments():
    @jit
    def missing(n):
        scale(n).launch(grid=1, block=1)

    @jit
    def listed(n):
        scale([n], 1).launch(grid=1, block=1)

    @jit
    def mutable(n):
        hashable(n, [1, 2]).launch(grid=1, block=1)

    @kernel
    def hashable(n, shape: Constexpr):
        pass

    @jit
    def floats(n):
        scale(1.5, 1).launch(grid=1, block=1)

    @jit
    def wrong_constant(n):
        scale(n, "three").launch(grid=1, block=1)

    problem = refused(missing, "n")
    assert problem.message == "scale(n, factor, flag): missing a required argument: 'factor'"
    assert problem.loc.snippet()[0] == "scale(n).launch(grid=1, block=1)"
    assert refused(listed, "n").message == "argument n of scale: expected Int32, got a list"
    problem = refused(mutable, "n")
    assert problem.message == (
        "argument shape of hashable: expected a hashable value (Constexpr), got a list"
    )
    assert problem.hint == "pass a tuple instead of a list, a frozen dataclass instead of a dict"
    problem = refused(floats, "n")
    assert problem.message == "argument n of scale: expected Int32, got float 1.5"
    assert problem.hint == "convert it first: Int32(x)"
    assert refused(wrong_constant, "n").message == (
        "argument factor of scale: expected Constexpr[int], got str 'three'"
    )


class Shaped:
    def __init__(self, shape):
        self.shape = shape


def test_declared_ranks():
    @jit
    def vector(x: Annotated[object, Rank(1)]):
        pass

    assert traced(vector, x=Shaped((128,)))
    assert traced(vector, x=Shaped(128))
    assert refused(vector, x=Shaped((1, 128))).message == (
        "argument x of vector: expected a tensor of rank 1, got rank 2, shape (1, 128)"
    )
    assert refused(vector, x=[1]).message == (
        "argument x of vector: expected a tensor of rank 1, got a list"
    )


def test_annotations_convert():
    seen = {}

    @jit
    def go(
        a: Int64,
        b: "Float32",
        c: "Boolean | None" = None,
        d: Constexpr[float] = 1,
        *rest: Int32,
        e: "no_such_name" = 3,  # noqa: F821
        **named: Int32,
    ):
        seen.update(a=a, b=b, c=c, d=d, rest=rest, e=e, named=named)

    host_trace = HostTrace("go")
    host_trace.run(go, go.signature.bind((1, 2), {"x": 5}))
    assert seen["a"].dtype is Int64
    assert seen["b"].dtype is Float32
    assert seen["b"].raw == 2.0
    assert (seen["c"], seen["d"], seen["rest"], seen["e"]) == (None, 1, (), 3)
    assert seen["named"] == {"x": 5}


def test_results_of_host_functions():
    @jit
    def static(n):
        return ("plan", 3)

    @jit
    def run_time(n):
        return n + 1

    host_trace = HostTrace("static")
    assert host_trace.run(static, {"n": 1}) == ("plan", 3)
    problem = refused(run_time, "n")
    assert problem.message == (
        "run_time returns a run-time Int32: a host function can only return what is known at"
        " compile time"
    )


def test_decorator_forms():
    @jit()
    def one():
        pass

    @kernel()
    def two():
        """Doc."""

    assert one.name == "one"
    assert repr(two).startswith("<@kernel test_decorator_forms")
    assert two.__doc__ == "Doc."
    with pytest.raises(CaptureError, match="@jit: expected a function, got int 3"):
        jit(3)
