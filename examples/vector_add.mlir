// c = a + b, eight elements per tile block.  Try:
//   tilewright tile check examples/vector_add.mlir
//   tilewright tile translate examples/vector_add.mlir --bytecode -o vector_add.tileirbc
cuda_tile.module @vector_add {
  entry @vector_add(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
    %block, %y, %z = get_tile_block_id : tile<i32>
    %view_a = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %view_b = make_tensor_view %b, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %view_c = make_tensor_view %c, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles_a = make_partition_view %view_a : partition_view<tile=(8), padding_value = zero, tensor_view<?xf32, strides=[1]>>
    %tiles_b = make_partition_view %view_b : partition_view<tile=(8), padding_value = zero, tensor_view<?xf32, strides=[1]>>
    %tiles_c = make_partition_view %view_c : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>
    %x, %token_a = load_view_tko weak %tiles_a[%block] : partition_view<tile=(8), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
    %w, %token_b = load_view_tko weak %tiles_b[%block] : partition_view<tile=(8), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
    %sum = addf %x, %w : tile<8xf32>
    %token_c = store_view_tko weak %sum, %tiles_c[%block] : tile<8xf32>, partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
