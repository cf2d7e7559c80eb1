// Every operation of Tile IR 13.4 at least once, every type, every optional part: what the tests of
// the bytecode, of the verifier and of hostile files start from.  An entry stands for itself, so
// that each can be a module of its own.
#file = #cuda_tile.di_file<"every.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#integers = #cuda_tile.di_subprogram<file = #file, line = 3, name = "ints", linkageName = "integers", compileUnit = #unit, scopeLine = 4>
#block = #cuda_tile.di_lexical_block<scope = #integers, file = #file, line = 5, column = 7>
#here = #cuda_tile.di_loc<loc("/src/every.py":3:1) in #integers>
#inside = #cuda_tile.di_loc<loc("/src/every.py":6:9) in #block>

cuda_tile.module @every attributes {producer = "tests"} {
  global @scale alignment = 16 <f32: [1.0, 0x7FC00000]> : tile<2xf32>
  global private constant @table <i8: [1, -2, 3, 4]> : tile<4xi8>

  entry @integers(%n: tile<i32> {test.low = 1 : i32, test.flag} loc("k.py":1:2)) {
    %b = constant <i1: [true, false, true, true]> : tile<4xi1>
    %x = iota : tile<4xi32> loc(#inside)
    %1 = absi %x : tile<4xi32> loc(callsite(#inside at #here))
    %2 = addi %1, %x overflow<no_wrap> : tile<4xi32>
    %3 = subi %2, %x overflow<no_signed_wrap> : tile<4xi32>
    %4 = muli %3, %x overflow<no_unsigned_wrap> : tile<4xi32>
    %5 = mulhii %4, %x : tile<4xi32>
    %6 = divi %5, %x signed rounding<negative_inf> : tile<4xi32>
    %7 = divi %6, %x unsigned rounding<positive_inf> : tile<4xi32>
    %8 = remi %7, %x signed : tile<4xi32>
    %9 = negi %8 overflow<no_signed_wrap> : tile<4xi32>
    %10 = maxi %9, %x signed : tile<4xi32>
    %11 = mini %10, %x unsigned : tile<4xi32>
    %12 = shli %11, %x overflow<no_wrap> : tile<4xi32>
    %13 = shri %12, %x signed : tile<4xi32>
    %14 = andi %13, %x : tile<4xi32>
    %15 = ori %14, %x : tile<4xi32>
    %16 = xori %15, %x : tile<4xi32>
    %17 = cmpi less_than_or_equal %16, %x, signed : tile<4xi32> -> tile<4xi1>
    %18 = select %17, %16, %x : tile<4xi1>, tile<4xi32>
    assert %b, "all of \22them\22" : tile<4xi1>
  } loc(#here)

  entry @floats(%s: tile<f32>) optimization_hints=<default = {occupancy = 2}, sm_90 = {num_cta_in_cga = 4}> {
    %x = constant <f32: [0.5, -1.5, 0x7F800000, 3.0]> : tile<4xf32>
    %1 = absf %x : tile<4xf32>
    %2 = addf %1, %x rounding<zero> flush_to_zero : tile<4xf32>
    %3 = subf %2, %x rounding<negative_inf> : tile<4xf32>
    %4 = mulf %3, %x rounding<positive_inf> : tile<4xf32>
    %5 = divf %4, %x rounding<full> : tile<4xf32>
    %6 = divf %5, %x rounding<approx> flush_to_zero : tile<4xf32>
    %7 = fma %6, %x, %x rounding<zero> : tile<4xf32>
    %8 = remf %7, %x : tile<4xf32>
    %9 = negf %8 : tile<4xf32>
    %10 = maxf %9, %x propagate_nan : tile<4xf32>
    %11 = minf %10, %x flush_to_zero : tile<4xf32>
    %12 = cmpf equal ordered %11, %x : tile<4xf32> -> tile<4xi1>
    %13 = cmpf less_than unordered %11, %x : tile<4xf32> -> tile<4xi1>
    %14 = ceil %11 : tile<4xf32>
    %15 = floor %14 : tile<4xf32>
    %16 = sqrt %15 rounding<approx> : tile<4xf32>
    %17 = rsqrt %16 flush_to_zero : tile<4xf32>
    %18 = exp %17 : tile<4xf32>
    %19 = exp2 %18 flush_to_zero : tile<4xf32>
    %20 = log %19 : tile<4xf32>
    %21 = log2 %20 : tile<4xf32>
    %22 = pow %21, %x : tile<4xf32>
    %23 = sin %22 : tile<4xf32>
    %24 = cos %23 : tile<4xf32>
    %25 = tan %24 : tile<4xf32>
    %26 = sinh %25 : tile<4xf32>
    %27 = cosh %26 : tile<4xf32>
    %28 = tanh %27 rounding<approx> : tile<4xf32>
    %29 = atan2 %28, %x : tile<4xf32>
  }

  entry @conversions(%a: tile<i64>, %p: tile<ptr<f32>>) {
    %i = constant <i32: 7> : tile<8xi32>
    %f = constant <f64: 1.5> : tile<8xf64>
    %1 = bitcast %i : tile<8xi32> -> tile<8xf32>
    %2 = exti %i signed : tile<8xi32> -> tile<8xi64>
    %3 = trunci %2 overflow<no_unsigned_wrap> : tile<8xi64> -> tile<8xi16>
    %5 = ftof %f : tile<8xf64> -> tile<8xf8E4M3FN>
    %6 = ftof %1 rounding<positive_inf> : tile<8xf32> -> tile<8xf8E8M0FNU>
    %8 = ftoi %f signed : tile<8xf64> -> tile<8xi32>
    %10 = itof %i unsigned : tile<8xi32> -> tile<8xbf16>
    %11 = int_to_ptr %a : tile<i64> -> tile<ptr<i8>>
    %12 = ptr_to_int %p : tile<ptr<f32>> -> tile<i64>
    %13 = ptr_to_ptr %11 : tile<ptr<i8>> -> tile<ptr<tf32>>
  }

  entry @shapes(%p: tile<ptr<f16>>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %u, %v, %w = get_num_tile_blocks : tile<i32>
    %c = constant <f16: [[1.0, 2.0], [3.0, 4.0]]> : tile<2x2xf16>
    %1 = reshape %c : tile<2x2xf16> -> tile<1x4x1xf16>
    %2 = broadcast %1 : tile<1x4x1xf16> -> tile<8x4x2xf16>
    %3 = permute %2 [2, 0, 1] : tile<8x4x2xf16> -> tile<2x8x4xf16>
    %4 = cat %3, %3 dim = 1 : tile<2x8x4xf16>, tile<2x8x4xf16> -> tile<2x16x4xf16>
    %5 = extract %4[%x, %y, %z] : tile<2x16x4xf16> -> tile<1x8x2xf16>
    %i = iota : tile<8xi32>
    %7 = reshape %p : tile<ptr<f16>> -> tile<1xptr<f16>>
    %8 = broadcast %7 : tile<1xptr<f16>> -> tile<8xptr<f16>>
    %9 = offset %8, %i : tile<8xptr<f16>>, tile<8xi32> -> tile<8xptr<f16>>
    %10 = assume div_by<16>, %p : tile<ptr<f16>>
    %11 = assume div_by<4, every 2 along 0>, %i : tile<8xi32>
    %12 = assume bounded<0, ?>, %x : tile<i32>
    %13 = assume same_elements<[4]>, %i : tile<8xi32>
  }

  entry @combine(%s: tile<f32>) {
    %x = constant <f32: 2.0> : tile<4x8xf32>
    %i = constant <i32: 3> : tile<4x8xi32>
    %sum = reduce %x dim=1 identities=[0.0 : f32] : tile<4x8xf32> -> tile<4xf32>
      (%e: tile<f32>, %acc: tile<f32>) {
        %t = addf %e, %acc : tile<f32>
        yield %t : tile<f32>
      }
    %best, %where = reduce %x, %i dim=0 identities=[0xFF800000 : f32, -1 : i32]
      : tile<4x8xf32>, tile<4x8xi32> -> tile<8xf32>, tile<8xi32>
      (%e: tile<f32>, %acc: tile<f32>, %ei: tile<i32>, %ai: tile<i32>) {
        %more = cmpf greater_than ordered %e, %acc : tile<f32> -> tile<i1>
        %v = select %more, %e, %acc : tile<i1>, tile<f32>
        %w = select %more, %ei, %ai : tile<i1>, tile<i32>
        yield %v, %w : tile<f32>, tile<i32>
      }
    %run = scan %x dim=1 reverse=true identities=[1.0 : f32] : tile<4x8xf32> -> tile<4x8xf32>
      (%e: tile<f32>, %acc: tile<f32>) {
        %t = mulf %e, %acc : tile<f32>
        yield %t : tile<f32>
      }
  }

  entry @matrices(%s: tile<f32>) {
    %a = constant <f16: 1.0> : tile<16x32xf16>
    %b = constant <f16: 1.0> : tile<32x8xf16>
    %c = constant <f32: 0.0> : tile<16x8xf32>
    %1 = mmaf %a, %b, %c : tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32>
    %d = constant <f8E5M2: 1.0> : tile<2x16x32xf8E5M2>
    %e = constant <f8E5M2: 1.0> : tile<2x32x8xf8E5M2>
    %f = constant <f32: 0.0> : tile<2x16x8xf32>
    %2 = mmaf %d, %e, %f : tile<2x16x32xf8E5M2>, tile<2x32x8xf8E5M2>, tile<2x16x8xf32>
    %g = constant <i8: 1> : tile<16x32xi8>
    %h = constant <i8: 1> : tile<32x8xi8>
    %k = constant <i32: 0> : tile<16x8xi32>
    %3 = mmai %g, %h, %k signed unsigned : tile<16x32xi8>, tile<32x8xi8>, tile<16x8xi32>
  }

  entry @pointers(%p: tile<ptr<i32>>) {
    %t0 = make_token : token
    %i = iota : tile<8xi32>
    %m = cmpi equal %i, %i, unsigned : tile<8xi32> -> tile<8xi1>
    %r = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %r : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %at = offset %b, %i : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    %v, %t1 = load_ptr_tko weak %at, %m, %i token=%t0 optimization_hints = <sm_90 = {latency = 4}> : tile<8xptr<i32>>, tile<8xi1>, tile<8xi32> -> tile<8xi32>, token
    %w, %t2 = load_ptr_tko acquire device %at token=%t0 : tile<8xptr<i32>> -> tile<8xi32>, token
    %t3 = store_ptr_tko release sys %at, %v, %m token=%t1 : tile<8xptr<i32>>, tile<8xi32>, tile<8xi1> -> token
    %o, %t4 = atomic_rmw_tko relaxed device %at, add, %v, %m token=%t3 : tile<8xptr<i32>>, tile<8xi32>, tile<8xi1> -> tile<8xi32>, token
    %c, %t5 = atomic_cas_tko acq_rel tl_blk %at, %v, %w, %m token=%t4 : tile<8xptr<i32>>, tile<8xi32>, tile<8xi1> -> tile<8xi32>, token
    %t6 = join_tokens %t5, %t2, %t1 : token
    %t7 = print_tko "%d %+08.3x %%\0A", %v, %i token=%t6 : tile<8xi32>, tile<8xi32> -> token
    %g = get_global @scale : tile<ptr<f32>>
  }

  entry @views(%p: tile<ptr<f32>>, %n: tile<i32>, %k: tile<i64>) {
    %i = constant <i32: 0> : tile<i32>
    %x = constant <f32: 1.0> : tile<8x16xf32>
    %v = make_tensor_view %p, shape = [%n, 64], strides = [%n, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[?,1]>
    %s:2 = get_tensor_shape %v : tensor_view<?x64xf32, strides=[?,1]> -> tile<i32>
    %pv = make_partition_view %v : partition_view<tile=(8x16), padding_value = nan, tensor_view<?x64xf32, strides=[?,1]>, dim_map=[1, 0]>
    %e:2 = get_index_space_shape %pv : partition_view<tile=(8x16), padding_value = nan, tensor_view<?x64xf32, strides=[?,1]>, dim_map=[1, 0]> -> tile<i32>
    %l0, %t0 = load_view_tko weak %pv[%i, %n] optimization_hints = <default = {allow_tma = false, latency = 2}> : partition_view<tile=(8x16), padding_value = nan, tensor_view<?x64xf32, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> tile<8x16xf32>, token
    %t3 = store_view_tko weak %l0, %pv[%i, %n] token = %t0 : tile<8x16xf32>, partition_view<tile=(8x16), padding_value = nan, tensor_view<?x64xf32, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> token
  }

  entry @control(%n: tile<i32>, %c: tile<i1>) {
    %z = constant <i32: 0> : tile<i32>
    %o = constant <i32: 1> : tile<i32>
    %x = constant <f32: 0.0> : tile<16xf32>
    %sum, %t = for %i in (%z to %n, step %o) : tile<i32> iter_values(%a = %x, %k = %z) -> (tile<16xf32>, tile<i32>) {
      %f = itof %i signed : tile<i32> -> tile<f32>
      %b = addf %a, %a : tile<16xf32>
      if %c {
        continue %b, %i : tile<16xf32>, tile<i32>
      }
      continue %a, %k : tile<16xf32>, tile<i32>
    }
    for unsigned %i in (%z to %n, step %o) : tile<i32> {
      for %j in (%i to %n, step %o) : tile<i32> {
        %u = addi %i, %j : tile<i32>
      }
    }
    %m = loop iter_values(%k = %z) : tile<i32> -> tile<f32> {
      %more = cmpi less_than %k, %n, signed : tile<i32> -> tile<i1>
      if %more {
        %next = addi %k, %o : tile<i32>
        continue %next : tile<i32>
      }
      %r = itof %k signed : tile<i32> -> tile<f32>
      break %r : tile<f32>
    }
    %y = if %c -> (tile<i32>) {
      yield %z : tile<i32>
    } else {
      yield %o : tile<i32>
    }
    if %c {
      return
    } else {
      %u = addi %y, %o : tile<i32>
    }
  }

  entry @since_13_3(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %f = constant <f32: 1.0> : tile<8x16xf32>
    %i = constant <i64: 7> : tile<8xi64>
    %at = iota : tile<8xi32>
    %1 = exp %f rounding<approx> : tile<8x16xf32>
    %2 = trunci %i : tile<8xi64> -> tile<8xi4>
    %3 = pack %at : tile<8xi32> -> tile<32xi8>
    %4 = unpack %3 : tile<32xi8> -> tile<64xf4E2M1FN>
    %5 = unpack %3 : tile<32xi8> -> tile<64xi4>
    %d = constant <f8E5M2: 1.0> : tile<2x16x32xf8E5M2>
    %e = constant <f8E5M2: 1.0> : tile<2x32x8xf8E5M2>
    %g = constant <f32: 0.0> : tile<2x16x8xf32>
    %6 = mmaf %d, %e, %g fast_acc : tile<2x16x32xf8E5M2>, tile<2x32x8xf8E5M2>, tile<2x16x8xf32>
    %l = constant <f4E2M1FN: 1.0> : tile<16x64xf4E2M1FN>
    %m = constant <f4E2M1FN: 1.0> : tile<64x8xf4E2M1FN>
    %o = constant <f8E8M0FNU: 1.0> : tile<16x2xf8E8M0FNU>
    %q = constant <f8E8M0FNU: 1.0> : tile<2x8xf8E8M0FNU>
    %c = constant <f32: 0.0> : tile<16x8xf32>
    %7 = mmaf_scaled %l, %m, %c, %o, %q : tile<16x64xf4E2M1FN>, tile<64x8xf4E2M1FN>, tile<16x8xf32>, tile<16x2xf8E8M0FNU>, tile<2x8xf8E8M0FNU>
    %a = alloca num_elem = 64, alignment = 16 global : tile<ptr<f32>>
    %z = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %p, shape = [%n, 64], strides = [%n, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[?,1]>
    %pv = make_partition_view %v : partition_view<tile=(8x16), tensor_view<?x64xf32, strides=[?,1]>>
    %sv = make_strided_view %v : strided_view<tile=(8x16), traversal_strides=[3,5], tensor_view<?x64xf32, strides=[?,1]>>
    %gv = make_gather_scatter_view %v : gather_scatter_view<tile=(8x16), padding_value = neg_inf, tensor_view<?x64xf32, strides=[?,1]>, sparse_dim=0>
    %t0 = make_token : token
    %x, %t1 = load_view_tko relaxed device %sv[%z, %n] token = %t0 : strided_view<tile=(8x16), traversal_strides=[3,5], tensor_view<?x64xf32, strides=[?,1]>>, tile<i32> -> tile<8x16xf32>, token
    %y, %t2 = load_view_tko weak %gv[%at, %n] token = %t1 : gather_scatter_view<tile=(8x16), padding_value = neg_inf, tensor_view<?x64xf32, strides=[?,1]>, sparse_dim=0>, tile<8xi32>, tile<i32> -> tile<8x16xf32>, token
    %t3 = store_view_tko release sys %x, %sv[%z, %n] token = %t2 : tile<8x16xf32>, strided_view<tile=(8x16), traversal_strides=[3,5], tensor_view<?x64xf32, strides=[?,1]>>, tile<i32> -> token
    %t4 = atomic_red_view_tko relaxed device %pv[%z, %n], addf, %f token = %t3 : tile<8x16xf32>, partition_view<tile=(8x16), tensor_view<?x64xf32, strides=[?,1]>>, tile<i32> -> token
  }

  entry @since_13_4(%p: tile<ptr<f32, <none>>>, %n: tile<i32>) {
    %f = constant <f32: 1.0> : tile<8x16xf32>
    %i = constant <i32: 2> : tile<8x16xi32>
    %z = constant <i32: 0> : tile<i32>
    %1 = ftof %f : tile<8x16xf32> -> tile<8x16xfnv8E5M3FNU>
    %2 = ftoi %f unsigned saturating : tile<8x16xf32> -> tile<8x16xi8>
    %3 = fpowi %f, %i : tile<8x16xf32>, tile<8x16xi32>
    %4 = extract %f[%z, %n] : tile<8x16xf32> -> tile<2x4xf32>
    %5 = insert %4, %f[%z, %n] : tile<2x4xf32>, tile<8x16xf32>
    %l = constant <f4E2M1FN: 1.0> : tile<16x64xf4E2M1FN>
    %m = constant <f4E2M1FN: 1.0> : tile<64x8xf4E2M1FN>
    %o = constant <fnv8E5M3FNU: 1.0> : tile<16x2xfnv8E5M3FNU>
    %q = constant <fnv8E5M3FNU: 1.0> : tile<2x8xfnv8E5M3FNU>
    %c = constant <f32: 0.0> : tile<16x8xf32>
    %6 = mmaf_scaled %l, %m, %c, %o, %q : tile<16x64xf4E2M1FN>, tile<64x8xf4E2M1FN>, tile<16x8xf32>, tile<16x2xfnv8E5M3FNU>, tile<2x8xfnv8E5M3FNU>
    %v = make_tensor_view %p, shape = [%n, 64], strides = [64, 1] : tile<ptr<f32, <none>>>, tile<i32> -> tensor_view<?x64xf32, strides=[64,1], #cuda_tile.ptr_attr<none>>
    %pv = make_partition_view %v : partition_view<tile=(8x16), tensor_view<?x64xf32, strides=[64,1], #cuda_tile.ptr_attr<none>>>
    %t0 = gdc_wait_tko -> token
    %x, %t1 = load_view_tko weak %pv[%z, %n] token = %t0 inbounds = [true, false] : partition_view<tile=(8x16), tensor_view<?x64xf32, strides=[64,1], #cuda_tile.ptr_attr<none>>>, tile<i32> -> tile<8x16xf32>, token
    %t2 = memory_fence_alias_tko %t1
    %t3 = store_view_tko weak %x, %pv[%z, %n] token = %t2 inbounds = [false, true] : tile<8x16xf32>, partition_view<tile=(8x16), tensor_view<?x64xf32, strides=[64,1], #cuda_tile.ptr_attr<none>>>, tile<i32> -> token
    %t4 = gdc_launch_dependents_tko token=%t3 -> token
  }
}
