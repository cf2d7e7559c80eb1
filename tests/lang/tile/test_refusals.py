# ruff: noqa: ARG001 (the kernels below are never run)
"""What is refused: at the user's own line, with a caret, the reason and the way out."""

import contextlib

import numpy as np
import pytest

import tilewright.tile as ct

COUNT = 0
TABLE = [1, 2, 3]
LOOKUP = {"a": 1}
SYNTAX, TYPE, VALUE = ct.TileSyntaxError, ct.TileTypeError, ct.TileValueError
CASES = []


def case(kind, *texts, args=None):
    def add(fn):
        CASES.append(pytest.param(ct.kernel(fn), kind, texts, args, id=fn.__name__))
        return fn

    return add


@case(SYNTAX, "the else of a for loop is not supported")
def for_else(x):
    for _ in range(3):
        pass
    else:
        pass


@case(SYNTAX, "the else of a while loop is not supported")
def while_else(x):
    while ct.bid(0) > 3:
        pass
    else:
        pass


@case(SYNTAX, "exceptions are not supported in tile code")
def catching(x):
    try:
        pass
    finally:
        pass


@case(
    SYNTAX,
    "the function of a reduction cannot touch memory or print (load_ptr_tko)",
    "lambda p, q: p + q * ct.gather(x, 0)",
)
def reduction_that_loads(x):
    t = ct.load(x, 0, 8)
    ct.scatter(x, 0, ct.reduce(t, 0, lambda p, q: p + q * ct.gather(x, 0), 0.0))


@case(SYNTAX, "the function of a scan cannot touch memory or print (print_tko)")
def scan_that_prints(x):
    def add(p, q):
        ct.printf("%f", p)
        return p + q

    ct.store(x, 0, ct.scan(ct.load(x, 0, 8), 0, add, 0.0))


@case(SYNTAX, "exceptions are not supported", "static_exception(...) stops compilation")
def raising(x):
    raise ValueError("no")


@case(SYNTAX, "global variables cannot be assigned", "return the value")
def global_write(x):
    global COUNT
    COUNT = 1


@case(SYNTAX, "assert is not supported", "ct.assert_ or ct.static_assert")
def asserting(x):
    assert x is not None


@case(TYPE, "with takes a call of a function decorated by contextlib.contextmanager")
def managed(x):
    with x:
        pass


@contextlib.contextmanager
def scope(x):
    ct.store(x, 0, 1.0)
    yield
    ct.store(x, 1, 1.0)


@contextlib.contextmanager
def early(x):
    if ct.bid(0) == 1:
        return
    yield


@case(SYNTAX, "return cannot stand in a context manager", "in early\n    return\n    ^^^^^^")
def leaving_the_manager(x):
    with early(x):
        pass


@contextlib.contextmanager
def yield_in_branch(x):
    if ct.bid(0) == 1:
        yield


@case(TYPE, "the yield of a context manager must stand outside of loops and branches")
def branched_manager(x):
    with yield_in_branch(x):
        pass


@contextlib.contextmanager
def without_yield(x):
    ct.store(x, 0, 1.0)


@case(TYPE, "without_yield has no yield")
def no_generator(x):
    with without_yield(x):
        pass


@contextlib.contextmanager
def yields_twice(x):
    yield 1
    yield 2


@case(TYPE, "yields_twice has a second yield, the first is in line", "    yield 2\n    ^^^^^^^")
def two_yields(x):
    with yields_twice(x):
        pass


@case(SYNTAX, "break cannot leave a loop over static_iter(...)")
def static_break_in_with(x):
    for _ in ct.static_iter(range(2)):
        with scope(x):
            break


@case(SYNTAX, "classes are not defined in tile code")
def class_inside(x):
    class Inner:
        pass


@case(SYNTAX, "a list is not supported in tile code", "y = [1, 2]", "    ^^^^^^")
def list_display(x):
    y = [1, 2]
    ct.store(x, 0, y)


@case(SYNTAX, "a dict is not supported")
def dict_display(x):
    return {"a": x}


@case(SYNTAX, "import is not supported")
def importing(x):
    import math

    return math


@case(SYNTAX, "the walrus operator := is not supported")
def walrus(x):
    if (y := 3) > 2:
        ct.store(x, 0, y)


@case(SYNTAX, "missing is not defined here", "ct.store(x, 0, missing)", "              ^^^^^^^")
def undefined(x):
    ct.store(x, 0, missing)  # noqa: F821


@case(SYNTAX, "t is not defined here")
def too_early(x):
    ct.store(x, 0, t)  # noqa: F821
    t = 1  # noqa: F841


@case(TYPE, "TABLE: a list cannot be used in tile code", "frozen dataclasses")
def foreign_object(x):
    ct.store(x, 0, TABLE[0])


@case(TYPE, "sorted cannot be called in tile code", "ct.static_eval")
def foreign_function(x):
    ct.store(x, 0, sorted((1, 2)))


@case(TYPE, "t may have no value here: it is assigned inside of a for loop")
def after_for(x):
    for i in range(ct.bid(0)):
        t = i
    ct.store(x, 0, t)


@case(TYPE, "t has a value in one branch only")
def one_branch(x):
    if ct.bid(0) > 0:
        t = 1
    ct.store(x, 0, t)


@case(TYPE, "t has different types: int32 scalar in one branch, float32 scalar in the other")
def clash(x):
    t = 1 if ct.bid(0) > 0 else 2
    if ct.bid(0) > 0:  # noqa: SIM108
        t = 1
    else:
        t = 2.0
    ct.store(x, 0, t)


@case(TYPE, "a conditional expression has different types")
def expression_clash(x):
    ct.store(x, 0, 1 if ct.bid(0) > 0 else 2.0)


@case(TYPE, "s changes its type inside of a loop: from int32 scalar to float32 scalar")
def loop_clash(x):
    s = 0
    for i in range(ct.bid(0)):
        s = s + 0.5 * i
    ct.store(x, 0, s)


@case(TYPE, "t changes its type", "4 tile of float32 to 8 tile of float32")
def shape_clash(x):
    t = ct.zeros((4,), ct.float32)
    for _ in range(ct.bid(0)):
        t = ct.cat((t, t), 0)
    ct.store(x, 0, t)


@case(SYNTAX, "this loop never ends", "leave it with break or return")
def endless(x):
    while True:
        ct.store(x, 0, 1)


@case(TYPE, "a for loop of tile code iterates over range(...)", "static_iter")
def over_a_tuple(x):
    for i in (1, 2):
        ct.store(x, i, i)


@case(TYPE, "the step must be positive, got -1")
def backwards(x):
    for i in range(10, 0, -1):
        ct.store(x, i, i)


@case(TYPE, "a condition is a scalar, got 4 tile of bool_", "ct.max")
def tile_condition(x):
    if ct.load(x, 0, 4) > 0:
        pass


@case(TYPE, "an array is not indexed", "ct.load or ct.gather")
def indexing(x):
    ct.store(x, 0, x[0])


@case(TYPE, "items of 1-D array of float32 cannot be assigned", "use ct.store or ct.scatter")
def item_assignment(x):
    x[0] = 1


@case(TYPE, "a tile is not indexed by 0", "ct.extract")
def tile_indexing(x):
    ct.store(x, 0, ct.load(x, 0, 4)[0])


@case(TYPE, "load: shape: the extents of a tile are powers of two, got 3")
def three(x):
    ct.load(x, 0, 3)


@case(TYPE, "zeros: shape: expected a constant integer, got int32 scalar")
def dynamic_shape(x):
    ct.zeros((ct.bid(0),), ct.float32)


@case(TYPE, "load: 1-D array of float32 takes 1 indices, got 2")
def wrong_index(x):
    ct.load(x, (0, 0), (4, 4))


@case(TYPE, "int8 and uint8 do not promote", "differ in sign", "ct.astype")
def signs(x):
    ct.store(x, 0, ct.zeros(4, ct.int8) + ct.zeros(4, ct.uint8))


@case(TYPE, "float16 and bfloat16 do not promote")
def halves(x):
    ct.store(x, 0, ct.zeros(4, ct.float16) + ct.zeros(4, ct.bfloat16))


@case(TYPE, "there is no arithmetic on 4 tile of float8_e5m2")
def narrow(x):
    ct.store(x, 0, ct.zeros(4, ct.float8_e5m2) + 1)


@case(VALUE, "300 is out of the range of int8, [-128, 127]")
def too_large(x):
    ct.store(x, 0, ct.zeros(4, ct.int8) + 300)


@case(TYPE, "shapes (4,) and (8,) do not broadcast")
def broadcasting(x):
    ct.store(x, 0, ct.zeros(4, ct.float32) + ct.zeros(8, ct.float32))


@case(
    TYPE,
    "store: tile: float32 does not convert to int32 implicitly",
    "ct.astype",
    args=(np.zeros(8, np.int32),),
)
def narrowing(x):
    ct.store(x, 0, ct.zeros(4, ct.float32))


@case(TYPE, "mma: shapes (4, 8) and (4, 8) do not multiply: 8 is not 4")
def mma_shapes(x):
    a = ct.zeros((4, 8), ct.float16)
    ct.mma(a, a, ct.zeros((4, 8), ct.float32))


@case(TYPE, "mma: operands of bfloat16 accumulate in float32, got float16")
def mma_types(x):
    a = ct.zeros((8, 8), ct.bfloat16)
    ct.mma(a, a, ct.zeros((8, 8), ct.float16))


@case(TYPE, "axis 2 does not exist in rank 1")
def bad_axis(x):
    ct.sum(ct.load(x, 0, 4), 2)


@case(TYPE, "reshape: 8 elements do not fill shape (3, -1)")
def bad_reshape(x):
    ct.reshape(ct.load(x, 0, 8), (3, -1))


@case(TYPE, "add: flush_to_zero is for float32 only, got float64")
def bad_flush(x):
    ct.add(ct.zeros(4, ct.float64), 1.0, flush_to_zero=True)


@case(TYPE, "exp: it has no rounding mode RoundingMode.RZ")
def bad_rounding(x):
    ct.exp(ct.load(x, 0, 4), rounding_mode=ct.RoundingMode.RZ)


@case(TYPE, "load: MemoryOrder.ACQUIRE takes a memory_scope")
def no_scope(x):
    ct.load(x, 0, 4, memory_order=ct.MemoryOrder.ACQUIRE)


@case(VALUE, "latency: expected 1 to 10, got 11")
def bad_latency(x):
    ct.load(x, 0, 4, latency=11)


@case(TYPE, "atomic_max: it works on int32", "got an array of float32")
def float_max(x):
    ct.atomic_max(x, 0, 1.0)


@case(
    ct.TileStaticAssertionError,
    "static_assert failed: <tile[float32, (4,)]> and <tile[int32, (2, 2)]> differ from "
    "<tile[int32, ()]>, 5",
)
def asserting_tiles(x):
    t = ct.load(x, 0, 4)
    ct.static_assert(False, f"{t} and {ct.ones((2, 2), ct.int32)} differ from {ct.bid(0)}, {5}")


@case(ct.TileStaticAssertionError, "ensure_constant: int32 scalar is known at run time only")
def not_constant(x):
    ct.ensure_constant(ct.bid(0))


@case(ct.TileStaticAssertionError, "static_assert failed: n is 16")
def statically_false(x):
    n = 16
    ct.static_assert(n < 3, f"n is {n}")


@case(ct.StaticException, "static_eval(): KeyError: 'b'")
def failing_eval(x):
    ct.static_eval(LOOKUP["b"])


@case(ct.StaticException, "raised at compile time: ValueError: not this one")
def stopped(x):
    raise ct.static_exception(ValueError("not this one"))


@case(ct.TileRecursionError, "calls are nested more than 1000 deep")
def endless_recursion(x):
    forever(1)


def forever(n):
    return forever(n + 1)


@case(TYPE, "a kernel returns nothing, got 1")
def returning(x):
    return 1


@case(TYPE, "load() got an unexpected keyword argument 'size'")
def wrong_keyword(x):
    ct.load(x, 0, size=4)


@case(TYPE, "helper(): missing a required argument: 'b'")
def wrong_call(x):
    helper(1)


def helper(a, b):
    return a + b


@case(TYPE, "printf: %d does not fit argument 0 of float32")
def bad_format(x):
    ct.printf("%d", ct.load(x, 0, 4))


@case(TYPE, "print: sep is a constant string, got 3")
def bad_separator(x):
    ct.print(x.shape[0], 1, sep=3)


@case(VALUE, "-1.0 is no float8_e8m0fnu, which has no sign")
def negative_scale(x):
    ct.full((4,), -1.0, ct.float8_e8m0fnu)


@case(SYNTAX, "a function inside of tile code has no decorators")
def decorated_inside(x):
    @ct.function
    def inner(y):
        return y


@case(SYNTAX, "the function of a reduction cannot branch at run time", "ct.where")
def branching_reduction(x):
    ct.reduce(ct.load(x, 0, 4), 0, lambda a, b: a if a > b else b, 0.0)


@case(SYNTAX, "break cannot leave a loop over static_iter(...)")
def static_break(x):
    for i in ct.static_iter(range(3)):
        if i == 1:
            break


@pytest.mark.parametrize(("kernel", "kind", "texts", "args"), CASES)
def test_refusal(refused, kernel, kind, texts, args):
    message = refused(kernel, kind, *(args or ()))
    for text in texts:
        assert text in message, message
    assert "test_refusals.py:" in message
    assert "^" in message


def inner_fault(t):
    return ct.sum(t, 7)


def outer(t):
    return inner_fault(t + 1)


@ct.kernel
def deep(x):
    ct.store(x, 0, outer(ct.load(x, 0, 4)))


def test_the_chain_of_calls_is_shown(refused):
    message = refused(deep, ct.TileTypeError)
    places = [line.split("in ")[-1] for line in message.splitlines() if "test_refusals.py" in line]
    assert places == ["inner_fault", "outer", "deep"]


def test_the_family_of_errors():
    for name in ("Syntax", "Type", "Value", "Recursion", "UnsupportedFeature", "Internal"):
        assert issubclass(getattr(ct, f"Tile{name}Error"), ct.TileError)
    assert issubclass(ct.StaticException, ct.TileStaticEvalError)
    for kind in (ct.TileCompilerExecutionError, ct.TileCompilerTimeoutError):
        assert issubclass(kind, ct.TileInternalError)


def test_host_code_cannot_call_tile_functions():
    with pytest.raises(RuntimeError, match="can only be called from tile code"):
        ct.zeros((4,), ct.float32)
    with pytest.raises(TypeError, match=r"start it with ct\.launch"):
        deep(1)
    with pytest.raises(TypeError, match="not for host code"):
        ct.int32(3)


def test_kernels_have_a_fixed_number_of_parameters():
    with pytest.raises(ct.TileSyntaxError, match="fixed number of parameters"):

        @ct.kernel
        def variadic(*args):
            pass


def test_kernels_need_a_source():
    scope = {"ct": ct}
    exec("def made(x):\n    pass\nk = ct.kernel(made)", scope)
    with pytest.raises(ct.TileSyntaxError, match="cannot be read"):
        ct.launch(None, (1,), scope["k"], (np.zeros(4),))
