// CHLO's operations that are not functions of one number.
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3xf32>, %c: tensor<1xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xcomplex<f32>>, tensor<2x2xf32>) {
  %0 = chlo.broadcast_add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = chlo.broadcast_subtract %c, %a {broadcast_dimensions = array<i64: 1>} : (tensor<1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction LT>, compare_type = #chlo<comparison_type FLOAT>} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  %3 = chlo.broadcast_select %2, %a, %b : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %4 = "chlo.broadcast_complex"(%a, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xcomplex<f32>>
  %5 = "chlo.constant"() <{value = dense<1.5> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xcomplex<f32>>, tensor<2x2xf32>
}
// -----
// ERROR: elsewhere than in front
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2xf32>) -> tensor<2x3xf32> {
  %0 = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
// -----
func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %0 = "chlo.constant_like"(%a) <{value = 3.2 : f32}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "chlo.constant_like"(%a) {value = 7 : i32} : (tensor<2x3xf32>) -> tensor<2x3xi32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xi32>
}
// -----
func.func @main(%a: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
  %0, %1 = chlo.top_k(%a, k = 3) : tensor<2x5xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xi32>
}
// -----
func.func @main(%a: tensor<5x4xf32>, %b: tensor<2x4x3xf32>, %g: tensor<2xi32>) -> tensor<5x3xf32> {
  %0 = "chlo.ragged_dot"(%a, %b, %g) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision HIGHEST>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x4xf32>, tensor<2x4x3xf32>, tensor<2xi32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
// -----
func.func @main(%a: tensor<5x4xf32>, %s: tensor<4xf32>) -> (tensor<5x4xf32>, tensor<4xf32>) {
  %0:2 = chlo.scan(%a) inits(%s) dimension=0 {
  ^bb0(%x: tensor<4xf32>, %c: tensor<4xf32>):
    %1 = stablehlo.add %x, %c : tensor<4xf32>
    stablehlo.return %1, %1 : tensor<4xf32>, tensor<4xf32>
  } : (tensor<5x4xf32>, tensor<4xf32>) -> (tensor<5x4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<5x4xf32>, tensor<4xf32>
}
// -----
func.func @main(%a: tensor<5x4xf32>, %s: tensor<4xf32>) -> (tensor<5x4xf32>, tensor<4xf32>) {
  %0:2 = "chlo.scan"(%a, %s) <{dimension = 0 : i64, is_associative = true, is_reverse = true, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%x: tensor<4xf32>, %c: tensor<4xf32>):
    %1 = stablehlo.add %x, %c : tensor<4xf32>
    stablehlo.return %1, %1 : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<5x4xf32>, tensor<4xf32>) -> (tensor<5x4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<5x4xf32>, tensor<4xf32>
}
