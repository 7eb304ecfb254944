// Reductions, windows, sorting, products, convolutions, linear algebra, normalization.
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xi32>) -> (tensor<2xf32>, tensor<2xi32>, tensor<3xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.reduce(%a init: %z), (%b init: %n) across dimensions = [1] : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
    reducer(%x: tensor<f32>, %y: tensor<f32>) (%v: tensor<i32>, %w: tensor<i32>) {
      %s = stablehlo.add %x, %y : tensor<f32>
      %t = stablehlo.maximum %v, %w : tensor<i32>
      stablehlo.return %s, %t : tensor<f32>, tensor<i32>
    }
  %1 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0#0, %0#1, %1 : tensor<2xf32>, tensor<2xi32>, tensor<3xf32>
}
// -----
func.func @main(%a: tensor<4x6xf32>, %b: tensor<4x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>, tensor<3x6xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = "stablehlo.reduce_window"(%a, %b, %z, %z) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%w: tensor<f32>, %x: tensor<f32>, %y: tensor<f32>, %v: tensor<f32>):
    %s = stablehlo.add %w, %y : tensor<f32>
    %t = stablehlo.maximum %x, %v : tensor<f32>
    stablehlo.return %s, %t : tensor<f32>, tensor<f32>
  }) : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
  %1 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>, base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<3x6xf32>
  return %0#0, %0#1, %1 : tensor<4x3xf32>, tensor<4x3xf32>, tensor<3x6xf32>
}
// -----
func.func @main(%a: tensor<4x6xf32>, %s: tensor<2x3xf32>) -> tensor<4x6xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %s, %z) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>, padding = dense<0> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
// -----
func.func @main(%a: tensor<4x6xf32>, %b: tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>, tensor<4x6xf32>) {
  %0:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%w: tensor<f32>, %x: tensor<f32>, %y: tensor<i32>, %z: tensor<i32>):
    %c = stablehlo.compare LT, %w, %x, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4x6xf32>, tensor<4x6xi32>) -> (tensor<4x6xf32>, tensor<4x6xi32>)
  %1 = "stablehlo.sort"(%a) ({
  ^bb0(%w: tensor<f32>, %x: tensor<f32>):
    %c = stablehlo.compare GT, %w, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0#0, %0#1, %1 : tensor<4x6xf32>, tensor<4x6xi32>, tensor<4x6xf32>
}
// -----
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.map"(%a, %b) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.subtract %x, %y : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @main(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>, %v: tensor<4xf32>, %m: tensor<4x3xf32>)
    -> (tensor<2x3x5xf32>, tensor<3xf32>, tensor<f32>, tensor<2x3x5xf32>) {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, DEFAULT] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  %1 = stablehlo.dot %v, %m, precision = [HIGH, HIGH] : (tensor<4xf32>, tensor<4x3xf32>) -> tensor<3xf32>
  %2 = stablehlo.dot %v, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %3 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %0, %1, %2, %3 : tensor<2x3x5xf32>, tensor<3xf32>, tensor<f32>, tensor<2x3x5xf32>
}
// -----
func.func @main(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>, %c: tensor<4x4xf32>) -> (tensor<3x5xf32>, tensor<4xf32>) {
  %0 = "stablehlo.einsum"(%a, %b) <{einsum_config = "ij,jk->ik"}> : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = "stablehlo.einsum"(%c, %a) {einsum_config = "bi,jb->b"} : (tensor<4x4xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<3x5xf32>, tensor<4xf32>
}
// -----
func.func @main(%a: tensor<1x8x8x4xf32>, %k: tensor<3x3x2x6xf32>) -> tensor<1x4x5x6xf32> {
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 3], pad = [[1, 1], [0, 2]], lhs_dilate = [1, 2], rhs_dilate = [2, 1], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<1x3x5x6xf32>
  %1 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [3, 3]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<1x4x6x6xf32>
  %2 = stablehlo.slice %1 [0:1, 0:4, 0:5, 0:6] : (tensor<1x4x6x6xf32>) -> tensor<1x4x5x6xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.pad %0, %z, low = [0, 0, 0, 0], high = [0, 1, 0, 0], interior = [0, 0, 0, 0] : (tensor<1x3x5x6xf32>, tensor<f32>) -> tensor<1x4x5x6xf32>
  %4 = stablehlo.add %2, %3 : tensor<1x4x5x6xf32>
  return %4 : tensor<1x4x5x6xf32>
}
// -----
func.func @main(%a: tensor<4x5x2xf32>, %k: tensor<3x2x4xf32>) -> tensor<2x3x4xf32> {
  %0 = "stablehlo.convolution"(%a, %k) <{batch_group_count = 2 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, padding = dense<0> : tensor<1x2xi64>, window_strides = array<i64: 1>, window_reversal = array<i1: true>}> : (tensor<4x5x2xf32>, tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
// -----
func.func @main(%a: tensor<4x8xf32>) -> (tensor<4x5xcomplex<f32>>, tensor<4x8xf32>, tensor<4x8xcomplex<f32>>, tensor<4x5xcomplex<f32>>) {
  %0 = stablehlo.fft %a, type = RFFT, length = [8] : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
  %1 = stablehlo.fft %0, type = IRFFT, length = [8] : (tensor<4x5xcomplex<f32>>) -> tensor<4x8xf32>
  %c = stablehlo.complex %a, %1 : tensor<4x8xcomplex<f32>>
  %2 = "stablehlo.fft"(%c) {fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4, 8>} : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
  %3 = stablehlo.fft %0, type = IFFT, length = [5] : (tensor<4x5xcomplex<f32>>) -> tensor<4x5xcomplex<f32>>
  return %0, %1, %2, %3 : tensor<4x5xcomplex<f32>>, tensor<4x8xf32>, tensor<4x8xcomplex<f32>>, tensor<4x5xcomplex<f32>>
}
// -----
func.func @main(%b: tensor<3x2xf32>) -> (tensor<3x3xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %a = stablehlo.constant dense<[[4.0, 1.0, 0.5], [1.0, 5.0, 0.0], [0.5, 0.0, 6.0]]> : tensor<3x3xf32>
  %0 = stablehlo.cholesky %a, lower = true : tensor<3x3xf32>
  %1 = "stablehlo.triangular_solve"(%0, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %2 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = false, unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0, %1, %2 : tensor<3x3xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}
// -----
func.func @main(%x: tensor<4x3x2xf32>, %scale: tensor<2xf32>, %offset: tensor<2xf32>, %g: tensor<4x3x2xf32>)
    -> (tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x3x2xf32>, tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %scale, %offset) <{epsilon = 0.001 : f32, feature_index = 2 : i64}> : (tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>)
  %1 = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %0#1, %0#2) <{epsilon = 1.000000e-03 : f32, feature_index = 2 : i64}> : (tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4x3x2xf32>
  %2:3 = "stablehlo.batch_norm_grad"(%x, %scale, %0#1, %0#2, %g) <{epsilon = 0.001 : f32, feature_index = 2 : i64}> : (tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x3x2xf32>) -> (tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1, %0#2, %1, %2#0, %2#1, %2#2 : tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x3x2xf32>, tensor<4x3x2xf32>, tensor<2xf32>, tensor<2xf32>
}
// -----
func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>, tensor<2xui64>, tensor<4xui32>) {
  %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
  %2:2 = "stablehlo.rng_bit_generator"(%s) <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %0, %1, %2#0, %2#1 : tensor<2xui64>, tensor<3xui32>, tensor<2xui64>, tensor<4xui32>
}
// -----
// STRUCTURE: what is drawn differs from run to run.
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %shape = stablehlo.constant dense<4> : tensor<1xi64>
  %0 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %1 = "stablehlo.rng"(%a, %b, %shape) <{rng_distribution = #stablehlo<rng_distribution NORMAL>}> : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// -----
// XLA REFUSES: sums and transposes by a formula.
func.func @main(%a: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<4x3xf32>) {
  %0 = "stablehlo.unary_einsum"(%a) <{einsum_config = "ij->i"}> : (tensor<3x4xf32>) -> tensor<3xf32>
  %1 = "stablehlo.unary_einsum"(%a) <{einsum_config = "ij->ji"}> : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return %0, %1 : tensor<3xf32>, tensor<4x3xf32>
}
