// Sizes that are known when the program runs: with constants for them the operations are static.
func.func @main(%a: tensor<6xf32>, %b: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<7xf32>, tensor<2xf32>, tensor<2x2xi64>) {
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  %1 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<2x3xi32>
  %2 = stablehlo.dynamic_broadcast_in_dim %b, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %lo = stablehlo.constant dense<1> : tensor<1xi32>
  %hi = stablehlo.constant dense<[3]> : tensor<1xi32>
  %in = stablehlo.constant dense<0> : tensor<1xi32>
  %3 = stablehlo.dynamic_pad %b, %z, %lo, %hi, %in : (tensor<3xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<7xf32>
  %4 = stablehlo.real_dynamic_slice %b, %lo, %hi, %lo : (tensor<3xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>
  %5 = "stablehlo.dynamic_iota"(%s) {iota_dimension = 0 : i64} : (tensor<2xi32>) -> tensor<2x?xi64>
  %6 = stablehlo.slice %5 [0:2, 0:2] : (tensor<2x?xi64>) -> tensor<2x2xi64>
  return %0, %1, %2, %3, %4, %6 : tensor<2x3xf32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<7xf32>, tensor<2xf32>, tensor<2x2xi64>
}
// -----
func.func @main(%a: tensor<2x3xf32>) -> (tensor<i32>, tensor<i32>) {
  %0 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
  %1 = "stablehlo.get_dimension_size"(%a) <{dimension = 0 : i64}> : (tensor<2x3xf32>) -> tensor<i32>
  return %0, %1 : tensor<i32>, tensor<i32>
}
// -----
func.func @main(%a: tensor<4x3xf32>, %n: tensor<i32>) -> tensor<i32> {
  %lo = stablehlo.constant dense<0> : tensor<i32>
  %hi = stablehlo.constant dense<4> : tensor<i32>
  %k = stablehlo.clamp %lo, %n, %hi : tensor<i32>
  %0 = stablehlo.set_dimension_size %a, %k, dim = 0 : (tensor<4x3xf32>, tensor<i32>) -> tensor<?x3xf32, #stablehlo.bounds<4, ?>>
  %1 = stablehlo.get_dimension_size %0, dim = 0 : (tensor<?x3xf32, #stablehlo.bounds<4, ?>>) -> tensor<i32>
  return %1 : tensor<i32>
}
// -----
func.func @main(%a: tensor<4x5xf32>, %i: tensor<3x1xi32>) -> tensor<3x5xf32> {
  %s = stablehlo.constant dense<[1, 5]> : tensor<2xi32>
  %0 = "stablehlo.dynamic_gather"(%a, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false}> : (tensor<4x5xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
// -----
// XLA REFUSES: a convolution whose padding is an operand.
func.func @main(%a: tensor<1x8x2xf32>, %k: tensor<3x2x4xf32>) -> tensor<1x8x4xf32> {
  %p = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi32>
  %0 = "stablehlo.dynamic_conv"(%a, %k, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, window_strides = array<i64: 1>}> : (tensor<1x8x2xf32>, tensor<3x2x4xf32>, tensor<1x2xi32>) -> tensor<1x8x4xf32>
  return %0 : tensor<1x8x4xf32>
}
// -----
func.func @main(%a: tensor<8xf32>, %s: tensor<1xi32>) -> tensor<2xf32> {
  %n = stablehlo.constant dense<2> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %e = stablehlo.add %s, %n : tensor<1xi32>
  %0 = stablehlo.real_dynamic_slice %a, %s, %e, %one : (tensor<8xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// ERROR: is not a constant
func.func @main(%a: tensor<6xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32> {
  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
// -----
// STRUCTURE: sizes that bounds are known of.
func.func @main(%a: tensor<6xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32, #stablehlo.bounds<2, 3>> {
  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32, #stablehlo.bounds<2, 3>>
  return %0 : tensor<?x?xf32, #stablehlo.bounds<2, 3>>
}
// -----
func.func @main(%a: tensor<3xf32>, %s: tensor<2xi32>) -> tensor<2x3xf32> {
  %0 = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
// -----
// ERROR: is not a constant
func.func @main(%a: tensor<3xf32>, %s: tensor<2xi32>) -> tensor<?x3xf32, #stablehlo.bounds<2, ?>> {
  %0 = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32, #stablehlo.bounds<2, ?>>
  return %0 : tensor<?x3xf32, #stablehlo.bounds<2, ?>>
}
// -----
func.func @main(%s: tensor<2xi32>) -> tensor<2x3xi32> {
  %0 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}
// -----
func.func @main(%a: tensor<?x3xf32, #stablehlo.bounds<4, ?>>) -> tensor<?x3xf32, #stablehlo.bounds<4, ?>> {
  %0 = stablehlo.add %a, %a : tensor<?x3xf32, #stablehlo.bounds<4, ?>>
  return %0 : tensor<?x3xf32, #stablehlo.bounds<4, ?>>
}
// -----
// STRUCTURE: sizes that nothing is known of.
func.func @main(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.add %a, %a : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}
// -----
// ERROR: operand 2 is not a constant
func.func @main(%a: tensor<3xf32>, %lo: tensor<1xi32>) -> tensor<7xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dynamic_pad %a, %z, %lo, %lo, %lo : (tensor<3xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}
// -----
// ERROR: is not a constant
func.func @main(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %3 = stablehlo.constant dense<3> : tensor<1xi32>
  %s = stablehlo.concatenate %1, %3, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %z = stablehlo.constant dense<1.0> : tensor<f32>
  %4 = stablehlo.dynamic_broadcast_in_dim %z, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x3xf32>
  return %4 : tensor<?x3xf32>
}
// -----
// XLA REFUSES: sizes that are computed from constants.
func.func @main(%a: tensor<2x3xf32>) -> tensor<?xf32> {
  %0 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<2x3xf32>) -> tensor<i32>
  %1 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
  %2 = stablehlo.multiply %0, %1 : tensor<i32>
  %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
  %4 = stablehlo.dynamic_reshape %a, %3 : (tensor<2x3xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %4 : tensor<?xf32>
}
