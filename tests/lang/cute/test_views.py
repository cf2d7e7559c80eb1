"""The public words: they exist, and refuse what they should (the algebra has its own tests)."""

import pytest
from traced import addresses, kernel

from tilewright.errors import LayoutError, TypeMismatchError
from tilewright.lang import cute
from tilewright.lang.values import BFloat16, Float32, Int32
from tilewright.layout.layout import Layout


def test_words_of_cute() -> None:
    """Every layout, tensor, copy and MMA word that public kernels use more than once or twice."""
    words = """size make_layout copy make_rmem_tensor ceil_div local_tile printf make_tensor slice_
        make_copy_atom TiledCopy Pointer struct CopyAtom Shape make_identity_tensor zipped_divide
        rank group_modes make_ordered_layout autovec_copy TiledMma make_rmem_tensor_like composition
        cosize elem_less make_fragment_like make_tiled_copy_tv select Coord append domain_offset
        print_tensor tile_to_shape exp2 gemm size_in_bytes full_like ReductionOp recast_ptr
        TensorSSA make_layout_tv flat_divide make_composed_layout make_layout_image_mask shape
        coalesce make_tiled_mma ThrMma filter_zeros logical_divide make_ptr make_tiled_copy_S
        tiled_divide make_swizzle recast_tensor round_up make_tiled_copy_C_atom where
        make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C recast_layout Tile exp E assume
        crd2idx erf rsqrt product_each make_identity_layout repeat_like filter fma is_static
        make_tiled_copy tanh Swizzle abs flatten log make_mma_atom sqrt blocked_product log2
        make_tiled_copy_D sin basic_copy ceil depth flat_product get left_inverse logical_product
        raked_product right_inverse tiled_product zipped_product jit kernel arch nvgpu math
        FastDivmodDivisor AddressSpace Tensor Layout ComposedLayout idx2crd make_layout_like"""
    missing = [w for w in words.split() if not hasattr(cute, w)]
    assert missing == []
    assert set(words.split()) <= set(cute.__all__)


def test_words_of_arch() -> None:
    words = """block_idx thread_idx WARP_SIZE mul_packed_f32x2 make_warp_uniform
        cp_async_commit_group fma_packed_f32x2 sync_threads warp_idx cp_async_wait_group barrier
        elect_one grid_dim lane_idx fmax shuffle_sync sync_warp add_packed_f32x2
        fence_view_async_shared cp_async_bulk_wait_group block_idx_in_cluster block_dim
        shuffle_sync_bfly fence_proxy setmaxregister_increase cluster_wait
        cp_async_bulk_commit_group setmaxregister_decrease mbarrier_wait sub_packed_f32x2
        barrier_arrive griddepcontrol_wait rcp_approx vote_any_sync store block_in_cluster_idx
        griddepcontrol_launch_dependents mbarrier_init_fence cluster_idx load
        mbarrier_arrive_and_expect_tx shuffle_sync_down warp_reduction warp_reduction_max
        cluster_arrive_relaxed fmin shuffle_sync_op shuffle_sync_up vote_ballot_sync
        warp_reduction_sum cluster_dim cluster_arrive mbarrier_init popc vote_all_sync
        vote_uni_sync warpgroup_reg_alloc warpgroup_reg_dealloc"""
    assert [w for w in words.split() if not hasattr(cute.arch, w)] == []


def test_compile_time_numbers_are_plain_ints() -> None:
    """An Int32 that is known at compile time makes a static layout."""
    layout = cute.make_layout((Int32(4), 8), stride=(Int32(8), 1))
    assert layout.is_static
    assert layout == Layout((4, 8), (8, 1))
    assert cute.make_ordered_layout((4, Int32(8)), order=(1, 0)).is_static
    assert cute.ceil_div(Int32(10), 4) == 3
    assert cute.round_up(10, Int32(4)) == 12
    assert cute.size_in_bytes(BFloat16, layout) == 64
    assert cute.is_static((4, Int32(3)))


def test_sizes_of_anything() -> None:
    with kernel() as k:
        t = k.gmem("f32", Layout((4, (2, 3))))
        assert cute.size(t) == 24
        assert cute.size(t, mode=[1]) == 6
        assert cute.size(t, mode=[1, 1]) == 3
        assert cute.size(7) == 7
        assert cute.rank(t) == 2
        assert cute.depth(t) == 2
        assert cute.shape(t, mode=[1]) == (2, 3)
        assert cute.cosize(t) == 24
        assert cute.is_static(t)
        assert cute.get(t, [1]).shape == (2, 3)
        assert cute.append_ones(t, up_to_rank=4).shape == (4, (2, 3), 1, 1)
        assert cute.flatten(t).shape == (4, 2, 3)
        assert cute.coalesce(t).shape == 24
        assert cute.repeat_like(0, t.shape) == (0, (0, 0))


def test_swapped_arguments() -> None:
    """CASES A11: a type error that says what was expected where."""
    layout = cute.make_layout((4, 8))
    assert cute.crd2idx((1, 2), layout) == 9
    with pytest.raises(TypeMismatchError, match=r"expected crd2idx\(coord, layout\), got a Layout"):
        cute.crd2idx(layout, (1, 2))
    with pytest.raises(TypeMismatchError, match=r"right_inverse: expected a layout, got int"):
        cute.right_inverse(1)
    with pytest.raises(TypeMismatchError, match=r"left_inverse: expected a layout, got"):
        cute.left_inverse((2, 3))
    with pytest.raises(TypeMismatchError, match=r"domain_offset: expected a Tensor, got a Layout"):
        cute.domain_offset((0, 0), layout)


def test_errors_of_the_algebra_name_the_users_line() -> None:
    with pytest.raises(LayoutError) as caught:
        cute.composition(cute.make_layout((6, 2), stride=(8, 3)), cute.make_layout(4, stride=5))
    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    assert caught.value.loc.function == "test_errors_of_the_algebra_name_the_users_line"


def test_the_algebra_on_layouts() -> None:
    layout = cute.make_layout((4, 8), stride=(8, 1))
    assert cute.complement(cute.make_layout(4, stride=2), 24) == Layout((2, 3), (1, 8))
    assert cute.right_inverse(layout) == Layout((8, 4), (4, 1))
    assert cute.size(cute.left_inverse(layout)) == 32
    assert cute.logical_product(layout, 2).shape == ((4, 8), 2)
    assert cute.zipped_product(layout, 2).shape == ((4, 8), 2)
    assert cute.tiled_product(layout, (2, 3)) is not None
    tiled = cute.flat_product(cute.make_layout((2, 2)), cute.make_layout((3, 4)))
    assert tiled.shape == (2, 2, 3, 4)
    assert cute.recast_layout(16, 32, cute.make_layout(4)) == Layout(8)
    assert cute.filter(cute.make_layout((2, 3), stride=(0, 1))) == Layout(3)
    assert cute.filter_zeros(cute.make_layout((2, 3), stride=(0, 1))).shape == (1, 3)
    assert cute.prepend(layout, Layout(2, 32)).shape == (2, 4, 8)
    assert cute.slice_(layout, (None, 3)) == Layout((4,), (8,))
    assert cute.idx2crd(11, (5, 4)) == (1, 2)
    assert cute.make_identity_layout((2, 3))((1, 2)) == (1, 2)
    assert cute.make_layout(Layout(2), Layout(3, 2)) == Layout((2, 3), (1, 2))
    assert cute.make_layout((Layout(2), Layout(3, 2))) == Layout((2, 3), (1, 2))


def test_divisors() -> None:
    with kernel() as k:
        d = cute.FastDivmodDivisor(k.number("d"))
        q, r = divmod(k.number("x"), d)
        found = addresses(k, {"x": 47, "d": 5})
        assert (found[q.ir_value()], found[r.ir_value()]) == (9, 2)
        assert type(k.number("y") // d) is Int32
        assert type(k.number("z") % d) is Int32


def test_basis() -> None:
    assert cute.basis_value(3 * cute.E(1)) == 3
    assert cute.basis_get(cute.E(0, 1), ((4, 5), 6)) == 5
    with kernel() as k:
        assert cute.elem_less((k.number("i"), 3), (4, 5)).ir_value().owner.name == "arith.cmp"
        assert k.number("x", "f32").dtype is Float32
