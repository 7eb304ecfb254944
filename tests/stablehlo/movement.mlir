// Operations that move elements, and slices and updates of them.
func.func @main(%a: tensor<2x3xf32>, %i: tensor<i32>) -> (tensor<3x2xf32>, tensor<6xf32>,
    tensor<2x3xf32>, tensor<4x3xf32>, tensor<1x2xf32>, tensor<5x6xf32>, tensor<1x2xf32>,
    tensor<2x3xf32>, tensor<2x3xi32>, tensor<7x2x3xf32>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<6xf32>
  %2 = stablehlo.reverse %a, dims = [0, 1] : tensor<2x3xf32>
  %3 = stablehlo.concatenate %a, %2, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %4 = stablehlo.slice %a [1:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<1x2xf32>
  %z = stablehlo.constant dense<7.0> : tensor<f32>
  %5 = stablehlo.pad %a, %z, low = [1, -1], high = [2, 2], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<5x6xf32>
  %6 = stablehlo.dynamic_slice %a, %i, %i, sizes = [1, 2] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
  %7 = stablehlo.dynamic_update_slice %a, %6, %i, %i : (tensor<2x3xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  %8 = stablehlo.iota dim = 1 : tensor<2x3xi32>
  %9 = "stablehlo.broadcast"(%a) <{broadcast_sizes = array<i64: 7>}> : (tensor<2x3xf32>) -> tensor<7x2x3xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<3x2xf32>, tensor<6xf32>, tensor<2x3xf32>,
      tensor<4x3xf32>, tensor<1x2xf32>, tensor<5x6xf32>, tensor<1x2xf32>, tensor<2x3xf32>,
      tensor<2x3xi32>, tensor<7x2x3xf32>
}
// -----
func.func @main(%a: tensor<1x3xf32>, %s: tensor<f32>) -> (tensor<2x3xf32>, tensor<3x4x1xf32>, tensor<2xf32>, tensor<3x1xf32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.broadcast_in_dim %a, dims = [2, 0] {known_expanding_dimensions = array<i64>} : (tensor<1x3xf32>) -> tensor<3x4x1xf32>
  %2 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %3 = stablehlo.broadcast_in_dim %a, dims = [1, 0] : (tensor<1x3xf32>) -> tensor<3x1xf32>
  return %0, %1, %2, %3 : tensor<2x3xf32>, tensor<3x4x1xf32>, tensor<2xf32>, tensor<3x1xf32>
}
// -----
func.func @main(%a: tensor<4x5xf32>, %i: tensor<3x1xi32>) -> tensor<3x5xf32> {
  %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5>}> : (tensor<4x5xf32>, tensor<3x1xi32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
// -----
#dims = #stablehlo.gather<offset_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], collapsed_slice_dims = [1], index_vector_dim = 2>
func.func @main(%a: tensor<2x4x5xf32>, %i: tensor<2x3x1xi32>) -> tensor<2x3x5xf32> {
  %0 = "stablehlo.gather"(%a, %i) {dimension_numbers = #dims, indices_are_sorted = true, slice_sizes = array<i64: 1, 1, 5>} : (tensor<2x4x5xf32>, tensor<2x3x1xi32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}
// -----
// Two arrays are updated at once.
func.func @main(%a: tensor<4x5xf32>, %b: tensor<4x5xi32>, %i: tensor<3x1xi32>, %u: tensor<3x5xf32>, %v: tensor<3x5xi32>) -> (tensor<4x5xf32>, tensor<4x5xi32>) {
  %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%w: tensor<f32>, %x: tensor<i32>, %y: tensor<f32>, %z: tensor<i32>):
    %s = stablehlo.add %w, %y : tensor<f32>
    stablehlo.return %s, %z : tensor<f32>, tensor<i32>
  }) : (tensor<4x5xf32>, tensor<4x5xi32>, tensor<3x1xi32>, tensor<3x5xf32>, tensor<3x5xi32>) -> (tensor<4x5xf32>, tensor<4x5xi32>)
  return %0#0, %0#1 : tensor<4x5xf32>, tensor<4x5xi32>
}
// -----
func.func @main(%a: tensor<2x4xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) -> tensor<2x4xf32> {
  %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<input_batching_dims = [0], scatter_indices_batching_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<2x4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
// -----
func.func @main(%a: tensor<3x4xf32>, %i: tensor<2xi32>) -> (tensor<3x2xf32>, tensor<2x4xf32>) {
  %0 = "stablehlo.torch_index_select"(%a, %i) <{batch_dims = 0 : i64, dim = 1 : i64}> : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<3x2xf32>
  %1 = "stablehlo.torch_index_select"(%a, %i) <{batch_dims = 0 : i64, dim = 0 : i64}> : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
  return %0, %1 : tensor<3x2xf32>, tensor<2x4xf32>
}
// -----
func.func @main(%a: tensor<2x3x4xf32>, %i: tensor<2x5xi32>) -> tensor<2x5x4xf32> {
  %0 = "stablehlo.torch_index_select"(%a, %i) {batch_dims = 1 : i64, dim = 1 : i64} : (tensor<2x3x4xf32>, tensor<2x5xi32>) -> tensor<2x5x4xf32>
  return %0 : tensor<2x5x4xf32>
}
