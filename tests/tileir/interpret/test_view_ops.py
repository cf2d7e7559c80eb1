"""Views: partitions, strides, gathered positions, edges, padding, promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_harness import KEEP, dtype, load

from tilewright.tileir.interpret.machine import Options, Report, interpret

CHECKED = Options(check_tokens=True, raise_on_findings=False)


def copy_kernel(
    element: str, shape: str, strides: str, view: str, tile: str, index: str, out: str
) -> str:
    """Loads one tile through a view and stores it, packed, through a partition view."""
    dims = out.split("x")
    packed = ",".join(
        str(int(np.prod([int(d) for d in dims[i + 1 :]], initial=1))) for i in range(len(dims))
    )
    tensor = f"tensor_view<{shape}{element}, strides=[{strides}]>"
    made = view.format(tensor)
    name = made.partition("<")[0]
    target = f"tensor_view<{out}x{element}, strides=[{packed}]>"
    whole = f"partition_view<tile=({out}), {target}>"
    kinds = "tile<i32>"
    if "gather" in name:
        kinds = f"tile<{(index.count('|') and index.split('|')[1]) or 4}xi32>, tile<i32>"
    zero = ", ".join("%zero" for _ in dims)
    return f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<{element}>>, %q: tile<ptr<{element}>>) {{
    %zero = constant <i32: 0> : tile<i32>
    {index.split("|")[0]}
    %tv = make_tensor_view %p, shape = [{", ".join(shape[:-1].split("x"))}], strides = [{strides}] : {tensor}
    %v = make_{name} %tv : {made}
    %x, %t = load_view_tko weak %v[%i, %j] : {made}, {kinds} -> tile<{tile}x{element}>, token
    %ov = make_tensor_view %q, shape = [{", ".join(dims)}], strides = [{packed}] : {target}
    %o = make_partition_view %ov : {whole}
    %u = store_view_tko weak %x, %o[{zero}] : tile<{tile}x{element}>, {whole}, tile<i32> -> token
    return
    }} }}"""  # noqa: E501


AT = "%i = constant <i32: {}> : tile<i32>\n%j = constant <i32: {}> : tile<i32>"
X = np.arange(35, dtype=np.float32).reshape(5, 7)


def tile_at(view: str, i: int, j: int, options: Options = KEEP) -> tuple[Any, Report]:
    text = copy_kernel("f32", "5x7x", "7,1", view, "2x4", AT.format(i, j), "2x4")
    out = np.zeros((2, 4), np.float32)
    report = interpret(load(text), "k", (1, 1, 1), [X.copy(), out], options=options)
    return out, report


def padded(i: int, j: int, fill: float) -> Any:
    big = np.full((8, 16), fill, np.float32)
    big[:5, :7] = X
    return big[i : i + 2, j : j + 4]


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
@pytest.mark.parametrize(
    ("padding", "fill"),
    [("zero", 0.0), ("neg_zero", -0.0), ("pos_inf", np.inf), ("neg_inf", -np.inf)],
)
def test_tiles_of_a_partition(padding: str, fill: float, options: Options) -> None:
    view = f"partition_view<tile=(2x4), padding_value = {padding}, {{}}>"
    for i in range(3):
        for j in range(2):
            out, report = tile_at(view, i, j, options)
            assert not report.findings
            want = padded(2 * i, 4 * j, fill)
            assert (out == want).all()
            assert (np.signbit(out) == np.signbit(want)).all()


def test_unspecified_padding_is_nan() -> None:
    out, report = tile_at("partition_view<tile=(2x4), {}>", 2, 1)
    assert not report.findings
    assert np.isnan(out).tolist() == [[False] * 3 + [True], [True] * 4]


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
@pytest.mark.parametrize("at", [(3, 0), (0, 2), (-1, 0)])
def test_indices_outside_the_index_space_are_found(at: tuple[int, int], options: Options) -> None:
    view = "partition_view<tile=(2x4), padding_value = zero, {}>"
    out, report = tile_at(view, *at, options)
    assert [f.kind for f in report.findings] == ["index_space"]
    dim = 0 if at[1] == 0 else 1
    assert report.findings[0].message == (
        f"load_view_tko: index {at[dim]} in dimension {dim}, expected 0 to {(2, 1)[dim]}: a "
        f"tensor of {(5, 7)[dim]} elements has {(3, 2)[dim]} tiles there"
    )
    assert (out == 0).all()


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
def test_dim_map_turns_tiles(options: Options) -> None:
    view = "partition_view<tile=(2x4), padding_value = zero, {}, dim_map=[1, 0]>"
    big = np.zeros((8, 8), np.float32)
    big[:7, :5] = X.T
    for i in range(4):
        for j in range(2):
            out, report = tile_at(view, i, j, options)
            assert not report.findings
            assert (out == big[2 * i : 2 * i + 2, 4 * j : 4 * j + 4]).all()


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
def test_strided_views_overlap_and_leave_gaps(options: Options) -> None:
    view = "strided_view<tile=(2x4), traversal_strides=[1,5], padding_value = zero, {}>"
    for i in range(5):
        for j in range(2):
            out, report = tile_at(view, i, j, options)
            assert not report.findings
            assert (out == padded(i, 5 * j, 0)).all()
    assert [f.kind for f in tile_at(view, 5, 0, options)[1].findings] == ["index_space"]


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
def test_gathered_rows(options: Options) -> None:
    view = "gather_scatter_view<tile=(4x2), padding_value = zero, {}, sparse_dim=0>"
    index = "%i = constant <i32: [4, 0, 4, 5]> : tile<4xi32>\n%j = constant <i32: 3> : tile<i32>"
    text = copy_kernel("f32", "5x7x", "7,1", view, "4x2", index, "4x2")
    out = np.ones((4, 2), np.float32)
    report = interpret(load(text), "k", (1, 1, 1), [X.copy(), out], options=options)
    assert not report.findings
    assert out.tolist() == [[31, 32], [3, 4], [31, 32], [0, 0]]


SCATTER = """cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>) {{
    %i = constant <i32: [4, 0, 5, -1]> : tile<4xi32>
    %j = constant <i32: 6> : tile<i32>
    %x = constant <f32: -1.0> : tile<4x2xf32>
    %tv = make_tensor_view %p, shape = [5, 7], strides = [7, 1] : {0}
    %v = make_gather_scatter_view %tv : gather_scatter_view<tile=(4x2), {0}, sparse_dim=0>
    %t = store_view_tko weak %x, %v[%i, %j] : tile<4x2xf32>, gather_scatter_view<tile=(4x2), {0}, sparse_dim=0>, tile<4xi32>, tile<i32> -> token
    return
}} }}""".format("tensor_view<5x7xf32, strides=[7,1]>")  # noqa: E501


def test_scattered_rows_drop_what_is_outside() -> None:
    x = X.copy()
    assert not interpret(load(SCATTER), "k", (1, 1, 1), [x], options=KEEP).findings
    want = X.copy()
    want[[4, 0], 6] = -1
    assert (x == want).all()


STORE = """cuda_tile.module @m {{ entry @k(%p: tile<ptr<{element}>>, %rows: tile<i32>, %stride: tile<i32>) {{
    %b, %c, %z = get_tile_block_id : tile<i32>
    %x = constant <{value}> : tile<2x4x{element}>
    %tv = make_tensor_view %p, shape = [%rows, 7], strides = [%stride, 1] : tile<i32> -> {tensor}
    %v = make_partition_view %tv : {view}
    {op}
    return
}} }}"""  # noqa: E501


def store_kernel(element: str, value: str, op: str) -> str:
    tensor = f"tensor_view<?x7x{element}, strides=[?,1]>"
    view = f"partition_view<tile=(2x4), {tensor}>"
    op = op.format(view=view, element=element)
    return STORE.format(element=element, value=value, tensor=tensor, view=view, op=op)


PLAIN = "%t = store_view_tko weak %x, %v[%b, %c] : tile<2x4x{element}>, {view}, tile<i32> -> token"


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
@pytest.mark.parametrize("element", ["f32", "i8", "f16", "i1", "bf16", "f8E4M3FN"])
def test_stores_drop_what_is_outside(element: str, options: Options) -> None:
    value = f"{element}: " + ("true" if element == "i1" else "1" if element == "i8" else "1.0")
    x = np.zeros((6, 9), np.uint8 if element == "i1" else dtype(element))
    text = store_kernel(element, value, PLAIN)
    report = interpret(load(text), "k", (3, 2, 1), [x, 5, 9], options=options)
    assert not report.findings
    want = np.zeros((6, 9))
    want[:5, :7] = 1
    assert (x.astype(float) == want).all()


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
def test_views_that_leave_their_buffer_are_found(options: Options) -> None:
    x = np.zeros((3, 7), np.float32)
    text = store_kernel("f32", "f32: 1.0", PLAIN)
    report = interpret(load(text), "k", (2, 2, 1), [x, 5, 7], options=options)
    (finding,) = report.findings
    assert finding.kind == "out_of_bounds"
    assert finding.op == "store_view_tko"
    assert "behind the end of p (84 bytes)" in finding.message
    assert (x == 1).all()


def test_read_only_tensors_are_loaded_but_not_stored() -> None:
    x = np.zeros((5, 7), np.float32)
    x.flags.writeable = False
    text = store_kernel("f32", "f32: 1.0", PLAIN)
    (finding,) = interpret(load(text), "k", (2, 1, 1), [x, 5, 7], options=KEEP).findings
    assert (finding.kind, finding.count) == ("read_only", 2)


INBOUNDS = (
    "%t = store_view_tko weak %x, %v[%b, %c] inbounds = [true, false] : "
    "tile<2x4x{element}>, {view}, tile<i32> -> token"
)


def test_broken_promises_of_inbounds_are_found() -> None:
    text = store_kernel("f32", "f32: 1.0", INBOUNDS)
    x = np.zeros((5, 7), np.float32)
    assert not interpret(load(text), "k", (2, 2, 1), [x, 5, 7], options=KEEP).findings
    (finding,) = interpret(load(text), "k", (3, 1, 1), [x, 5, 7], options=KEEP).findings
    assert finding.kind == "index_space"
    assert finding.message == (
        "store_view_tko: the tile leaves the tensor in dimension 0, which `inbounds` promises "
        "not to happen: begins at 4, 2 of 5"
    )


RED = (
    "%t = atomic_red_view_tko relaxed device %v[%b, %c], {mode}, %x : "
    "tile<2x4x{{element}}>, {{view}}, tile<i32> -> token"
)


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
def test_atomic_reductions_of_views(options: Options) -> None:
    x = np.full((5, 7), 5, np.int32)
    for mode, want in (("add", 8), ("xor", 11), ("max", 11), ("umin", 3)):
        text = store_kernel("i32", "i32: 3", RED.format(mode=mode))
        assert not interpret(load(text), "k", (3, 2, 1), [x, 5, 7], options=options).findings
        assert (x == want).all(), mode
    y = np.full((5, 7), 0.5, np.float32)
    text = store_kernel("f32", "f32: 1.5", RED.format(mode="addf"))
    assert not interpret(load(text), "k", (3, 2, 1), [y, 5, 7], options=options).findings
    assert (y == 2).all()


EXTENTS = """cuda_tile.module @m {{ entry @k(%p: tile<ptr<i64>>, %n: tile<i64>) {{
    %tv = make_tensor_view %p, shape = [%n, 7], strides = [7, 1] : tile<i64> -> {0}
    %v = make_strided_view %tv : {1}
    %a, %b = get_tensor_shape %tv : {0} -> tile<i64>
    %c, %d = get_index_space_shape %v : {1} -> tile<i64>
    {2}
    return
}} }}"""


def test_extents() -> None:
    tensor = "tensor_view<?x7xi64, strides=[7,1]>"
    view = f"strided_view<tile=(2x4), traversal_strides=[3,4], {tensor}, dim_map=[1, 0]>"
    stores = []
    for i, name in enumerate("abcd"):
        stores.append(f"%i{i} = constant <i32: {i}> : tile<i32>")
        stores.append(f"%q{i} = offset %p, %i{i} : tile<ptr<i64>>, tile<i32> -> tile<ptr<i64>>")
        stores.append(
            f"%t{i} = store_ptr_tko weak %q{i}, %{name} : tile<ptr<i64>>, tile<i64> -> token"
        )
    x = np.zeros(35, np.int64)
    interpret(load(EXTENTS.format(tensor, view, "\n".join(stores))), "k", (1, 1, 1), [x, 5])
    assert x[:4].tolist() == [5, 7, 3, 2]


def test_arrays_with_any_strides() -> None:
    base = np.zeros((12, 14), np.float32)
    part = base[::-2, 1::2]
    text = store_kernel("f32", "f32: 1.0", PLAIN).replace("strides=[?,1]", "strides=[?,2]")
    text = text.replace("strides = [%stride, 1]", "strides = [%stride, 2]")
    assert not interpret(load(text), "k", (3, 2, 1), [part, 5, -28], options=KEEP).findings
    assert part[:5].sum() == 35
    assert base.sum() == 35


F4 = """cuda_tile.module @m {{ entry @k(%p: tile<ptr<f4E2M1FN>>, %q: tile<ptr<f4E2M1FN>>) {{
    %b, %c, %z = get_tile_block_id : tile<i32>
    %tv = make_tensor_view %p, shape = [3, 6], strides = [6, 1] : {0}
    %v = make_partition_view %tv : {1}
    %x, %t = load_view_tko weak %v[%b, %c] : {1}, tile<i32> -> tile<2x4xf4E2M1FN>, token
    %ow = make_tensor_view %q, shape = [3, 6], strides = [6, 1] : {0}
    %w = make_partition_view %ow : {1}
    %u = store_view_tko weak %x, %w[%b, %c] : tile<2x4xf4E2M1FN>, {1}, tile<i32> -> token
    return
}} }}"""


@pytest.mark.parametrize("options", [KEEP, CHECKED], ids=["plain", "checked"])
def test_four_bit_tensors_share_bytes(options: Options) -> None:
    tensor = "tensor_view<3x6xf4E2M1FN, strides=[6,1]>"
    view = f"partition_view<tile=(2x4), padding_value = zero, {tensor}>"
    source = np.random.default_rng(3).integers(0, 256, 9).astype(np.uint8)
    target = np.full(10, 0xEE, np.uint8)
    text = F4.format(tensor, view)
    assert not interpret(load(text), "k", (2, 2, 1), [source, target], options=options).findings
    assert target[:9].tolist() == source.tolist()
    assert target[9] == 0xEE


def test_a_reduced_dimension_of_one_is_a_copy() -> None:
    tensor = "tensor_view<4x1xi32, strides=[1,1]>"
    view = f"partition_view<tile=(4x1), {tensor}>"
    text = f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {{
        %i = constant <i32: 0> : tile<i32>
        %tv = make_tensor_view %p, shape = [4, 1], strides = [1, 1] : {tensor}
        %v = make_partition_view %tv : {view}
        %tw = make_tensor_view %q, shape = [4, 1], strides = [1, 1] : {tensor}
        %w = make_partition_view %tw : {view}
        %x, %t = load_view_tko weak %v[%i, %i] : {view}, tile<i32> -> tile<4x1xi32>, token
        %s = reduce %x dim=1 identities=[0 : i32] : tile<4x1xi32> -> tile<4xi32> (%e: tile<i32>, %acc: tile<i32>) {{
            %n = maxi %e, %acc unsigned : tile<i32>
            yield %n : tile<i32>
        }}
        %z = constant <i32: 0> : tile<4x1xi32>
        %u = store_view_tko weak %z, %v[%i, %i] token = %t : tile<4x1xi32>, {view}, tile<i32> -> token
        %k = reshape %s : tile<4xi32> -> tile<4x1xi32>
        %o = store_view_tko weak %k, %w[%i, %i] : tile<4x1xi32>, {view}, tile<i32> -> token
        return
    }} }}"""  # noqa: E501
    x, y = np.arange(1, 5, dtype=np.int32), np.zeros(4, np.int32)
    interpret(load(text), "k", (1, 1, 1), [x, y])
    assert (x.tolist(), y.tolist()) == ([0] * 4, [1, 2, 3, 4])


def test_a_tile_stored_backwards_where_it_came_from() -> None:
    view = "partition_view<tile=(4), tensor_view<4xi32, strides=[1]>>"
    text = f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<i32>>) {{
        %i = constant <i32: 0> : tile<i32>
        %tv = make_tensor_view %p, shape = [4], strides = [1] : tensor_view<4xi32, strides=[1]>
        %v = make_partition_view %tv : {view}
        %x, %t = load_view_tko weak %v[%i] : {view}, tile<i32> -> tile<4xi32>, token
        %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
        %pn = broadcast %p1 : tile<1xptr<i32>> -> tile<4xptr<i32>>
        %back = constant <i32: [3, 2, 1, 0]> : tile<4xi32>
        %q = offset %pn, %back : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
        %u = store_ptr_tko weak %q, %x token=%t : tile<4xptr<i32>>, tile<4xi32> -> token
        return
    }} }}"""
    x = np.arange(1, 5, dtype=np.int32)
    interpret(load(text), "k", (1, 1, 1), [x])
    assert x.tolist() == [4, 3, 2, 1]


def test_a_loaded_tile_keeps_its_elements_when_memory_changes() -> None:
    view = "partition_view<tile=(4), tensor_view<4xf32, strides=[1]>>"
    text = f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {{
        %i = constant <i32: 0> : tile<i32>
        %tv = make_tensor_view %p, shape = [4], strides = [1] : tensor_view<4xf32, strides=[1]>
        %v = make_partition_view %tv : {view}
        %tw = make_tensor_view %q, shape = [4], strides = [1] : tensor_view<4xf32, strides=[1]>
        %w = make_partition_view %tw : {view}
        %x, %t = load_view_tko weak %v[%i] : {view}, tile<i32> -> tile<4xf32>, token
        %y = reshape %x : tile<4xf32> -> tile<2x2xf32>
        %z = addf %x, %x : tile<4xf32>
        %u = store_view_tko weak %z, %v[%i] token = %t : tile<4xf32>, {view}, tile<i32> -> token
        %k = reshape %y : tile<2x2xf32> -> tile<4xf32>
        %s = store_view_tko weak %k, %w[%i] : tile<4xf32>, {view}, tile<i32> -> token
        return
    }} }}"""
    x, y = np.float32([1, 2, 3, 4]), np.zeros(4, np.float32)
    interpret(load(text), "k", (1, 1, 1), [x, y])
    assert x.tolist() == [2, 4, 6, 8]
    assert y.tolist() == [1, 2, 3, 4]
