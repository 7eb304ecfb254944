// Operations on elements.
func.func @main(%a: tensor<5xf32>, %b: tensor<5xf32>)
    -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
        tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
  %0 = stablehlo.abs %a : tensor<5xf32>
  %1 = stablehlo.cbrt %0 : tensor<5xf32>
  %2 = stablehlo.ceil %a : tensor<5xf32>
  %3 = stablehlo.cosine %a : tensor<5xf32>
  %4 = stablehlo.exponential %b : tensor<5xf32>
  %5 = stablehlo.exponential_minus_one %b : tensor<5xf32>
  %6 = stablehlo.floor %b : tensor<5xf32>
  %7 = stablehlo.log %0 : tensor<5xf32>
  %8 = stablehlo.log_plus_one %0 : tensor<5xf32>
  %9 = stablehlo.logistic %b : tensor<5xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
      tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
      tensor<5xf32>
}
// -----
func.func @main(%a: tensor<5xf32>, %b: tensor<5xf32>)
    -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
        tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
  %0 = stablehlo.negate %a : tensor<5xf32>
  %1 = stablehlo.round_nearest_afz %a : tensor<5xf32>
  %2 = stablehlo.round_nearest_even %a : tensor<5xf32>
  %3 = stablehlo.rsqrt %b : tensor<5xf32>
  %4 = stablehlo.sign %a : tensor<5xf32>
  %5 = stablehlo.sine %b : tensor<5xf32>
  %6 = stablehlo.sqrt %b : tensor<5xf32>
  %7 = stablehlo.tan %a : tensor<5xf32>
  %8 = "stablehlo.tanh"(%a) {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>} : (tensor<5xf32>) -> tensor<5xf32>
  %9 = stablehlo.convert %a : (tensor<5xf32>) -> tensor<5xbf16>
  %10 = stablehlo.convert %9 : (tensor<5xbf16>) -> tensor<5xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %10 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
      tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
      tensor<5xf32>
}
// -----
func.func @main(%a: tensor<5xf32>, %b: tensor<5xf32>)
    -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
        tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xi1>) {
  %0 = stablehlo.add %a, %b : tensor<5xf32>
  %1 = stablehlo.atan2 %a, %b : tensor<5xf32>
  %2 = stablehlo.divide %a, %b : tensor<5xf32>
  %3 = stablehlo.maximum %a, %b : tensor<5xf32>
  %4 = stablehlo.minimum %a, %b : tensor<5xf32>
  %5 = stablehlo.multiply %a, %b : tensor<5xf32>
  %6 = stablehlo.power %a, %b : tensor<5xf32>
  %7 = stablehlo.remainder %a, %b : tensor<5xf32>
  %8 = stablehlo.subtract %a, %b : tensor<5xf32>
  %9 = stablehlo.is_finite %a : (tensor<5xf32>) -> tensor<5xi1>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
      tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>,
      tensor<5xi1>
}
// -----
func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>)
    -> (tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>,
        tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {
  %0 = stablehlo.and %a, %b : tensor<4xi32>
  %1 = stablehlo.or %a, %b : tensor<4xi32>
  %2 = stablehlo.xor %a, %b : tensor<4xi32>
  %3 = stablehlo.not %a : tensor<4xi32>
  %4 = stablehlo.popcnt %a : tensor<4xi32>
  %5 = stablehlo.count_leading_zeros %a : tensor<4xi32>
  %6 = stablehlo.shift_left %a, %b : tensor<4xi32>
  %7 = stablehlo.shift_right_arithmetic %a, %b : tensor<4xi32>
  %8 = stablehlo.shift_right_logical %a, %b : tensor<4xi32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>,
      tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>
}
// -----
func.func @main(%a: tensor<3xf32>, %b: tensor<3xf32>)
    -> (tensor<3xf32>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xi1>,
        tensor<3xi1>, tensor<3xi1>, tensor<3xf32>, tensor<3xf32>, tensor<3xi32>) {
  %c = stablehlo.complex %a, %b : tensor<3xcomplex<f32>>
  %re = stablehlo.real %c : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %im = stablehlo.imag %c : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %sq = stablehlo.sqrt %c : tensor<3xcomplex<f32>>
  %abs = stablehlo.abs %c : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %lt = stablehlo.compare LT, %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %ge = stablehlo.compare GE, %a, %b, TOTALORDER : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %ne = "stablehlo.compare"(%c, %sq) {comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>} : (tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>) -> tensor<3xi1>
  %s = stablehlo.select %lt, %a, %b : tensor<3xi1>, tensor<3xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %k = stablehlo.clamp %z, %a, %b : (tensor<f32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %q = stablehlo.reduce_precision %a, format = e5m2 : tensor<3xf32>
  %bits = stablehlo.bitcast_convert %a : (tensor<3xf32>) -> tensor<3xi32>
  return %re, %im, %sq, %abs, %lt, %ge, %ne, %s, %q, %bits : tensor<3xf32>, tensor<3xf32>,
      tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>,
      tensor<3xf32>, tensor<3xf32>, tensor<3xi32>
}
// -----
// The complex functions that StableHLO expands before it hands on.
func.func @main(%a: tensor<4xcomplex<f32>>)
    -> (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) {
  %0 = stablehlo.log_plus_one %a : tensor<4xcomplex<f32>>
  %1 = stablehlo.exponential_minus_one %a : tensor<4xcomplex<f32>>
  %2 = stablehlo.rsqrt %a : tensor<4xcomplex<f32>>
  return %0, %1, %2 : tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>
}
// -----
// The same type for all operands and results may stand once; conversions between all kinds.
func.func @main(%a: tensor<2x2xf64>, %p: tensor<2x2xi1>, %u: tensor<2x2xui8>)
    -> (tensor<2x2xf64>, tensor<2x2xi4>, tensor<2x2xi1>) {
  %0 = stablehlo.select %p, %a, %a : (tensor<2x2xi1>, tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
  %1 = stablehlo.convert %u : (tensor<2x2xui8>) -> tensor<2x2xi4>
  %2 = stablehlo.convert %a : (tensor<2x2xf64>) -> tensor<2x2xi1>
  return %0, %1, %2 : tensor<2x2xf64>, tensor<2x2xi4>, tensor<2x2xi1>
}
