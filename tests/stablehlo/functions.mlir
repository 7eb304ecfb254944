// CHLO's functions on numbers and pairs of them, in each precision.
func.func @main(%a: tensor<30xf32>, %b: tensor<30xf32>) -> (tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>) {
  %0 = chlo.acos %a : tensor<30xf32> -> tensor<30xf32>
  %1 = chlo.acosh %a : tensor<30xf32> -> tensor<30xf32>
  %2 = chlo.asin %a : tensor<30xf32> -> tensor<30xf32>
  %3 = chlo.asinh %a : tensor<30xf32> -> tensor<30xf32>
  %4 = chlo.atan %a : tensor<30xf32> -> tensor<30xf32>
  %5 = chlo.atanh %a : tensor<30xf32> -> tensor<30xf32>
  %6 = chlo.bessel_i1e %a : tensor<30xf32> -> tensor<30xf32>
  %7 = chlo.cosh %a : tensor<30xf32> -> tensor<30xf32>
  %8 = chlo.digamma %a : tensor<30xf32> -> tensor<30xf32>
  %9 = chlo.erf %a : tensor<30xf32> -> tensor<30xf32>
  %10 = chlo.erf_inv %a : tensor<30xf32> -> tensor<30xf32>
  %11 = chlo.erfc %a : tensor<30xf32> -> tensor<30xf32>
  %12 = chlo.lgamma %a : tensor<30xf32> -> tensor<30xf32>
  %13 = chlo.sinh %a : tensor<30xf32> -> tensor<30xf32>
  %14 = chlo.square %a : tensor<30xf32> -> tensor<30xf32>
  %15 = chlo.tan %a : tensor<30xf32> -> tensor<30xf32>
  %16 = chlo.conj %a : tensor<30xf32> -> tensor<30xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16 : tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>
}
// -----
func.func @main(%a: tensor<30xf32>, %b: tensor<30xf32>) -> (tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xi1>, tensor<30xi1>, tensor<30xi1>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>) {
  %0 = chlo.next_after %a, %b : tensor<30xf32>, tensor<30xf32> -> tensor<30xf32>
  %1 = chlo.polygamma %a, %b : tensor<30xf32>, tensor<30xf32> -> tensor<30xf32>
  %2 = chlo.zeta %a, %b : tensor<30xf32>, tensor<30xf32> -> tensor<30xf32>
  %3 = chlo.is_inf %a : tensor<30xf32> -> tensor<30xi1>
  %4 = chlo.is_neg_inf %a : tensor<30xf32> -> tensor<30xi1>
  %5 = chlo.is_pos_inf %a : tensor<30xf32> -> tensor<30xi1>
  %6 = chlo.broadcast_next_after %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %7 = chlo.broadcast_polygamma %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %8 = chlo.broadcast_zeta %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %9 = chlo.broadcast_maximum %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %10 = chlo.broadcast_minimum %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %11 = chlo.broadcast_divide %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %12 = chlo.broadcast_multiply %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %13 = chlo.broadcast_power %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %14 = chlo.broadcast_remainder %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %15 = chlo.broadcast_atan2 %a, %b : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15 : tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xi1>, tensor<30xi1>, tensor<30xi1>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>, tensor<30xf32>
}
// -----
func.func @main(%a: tensor<30xf64>, %b: tensor<30xf64>) -> (tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>) {
  %0 = chlo.acos %a : tensor<30xf64> -> tensor<30xf64>
  %1 = chlo.acosh %a : tensor<30xf64> -> tensor<30xf64>
  %2 = chlo.asin %a : tensor<30xf64> -> tensor<30xf64>
  %3 = chlo.asinh %a : tensor<30xf64> -> tensor<30xf64>
  %4 = chlo.atan %a : tensor<30xf64> -> tensor<30xf64>
  %5 = chlo.atanh %a : tensor<30xf64> -> tensor<30xf64>
  %6 = chlo.bessel_i1e %a : tensor<30xf64> -> tensor<30xf64>
  %7 = chlo.cosh %a : tensor<30xf64> -> tensor<30xf64>
  %8 = chlo.digamma %a : tensor<30xf64> -> tensor<30xf64>
  %9 = chlo.erf %a : tensor<30xf64> -> tensor<30xf64>
  %10 = chlo.erf_inv %a : tensor<30xf64> -> tensor<30xf64>
  %11 = chlo.erfc %a : tensor<30xf64> -> tensor<30xf64>
  %12 = chlo.lgamma %a : tensor<30xf64> -> tensor<30xf64>
  %13 = chlo.sinh %a : tensor<30xf64> -> tensor<30xf64>
  %14 = chlo.square %a : tensor<30xf64> -> tensor<30xf64>
  %15 = chlo.tan %a : tensor<30xf64> -> tensor<30xf64>
  %16 = chlo.conj %a : tensor<30xf64> -> tensor<30xf64>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16 : tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>
}
// -----
func.func @main(%a: tensor<30xf64>, %b: tensor<30xf64>) -> (tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xi1>, tensor<30xi1>, tensor<30xi1>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>) {
  %0 = chlo.next_after %a, %b : tensor<30xf64>, tensor<30xf64> -> tensor<30xf64>
  %1 = chlo.polygamma %a, %b : tensor<30xf64>, tensor<30xf64> -> tensor<30xf64>
  %2 = chlo.zeta %a, %b : tensor<30xf64>, tensor<30xf64> -> tensor<30xf64>
  %3 = chlo.is_inf %a : tensor<30xf64> -> tensor<30xi1>
  %4 = chlo.is_neg_inf %a : tensor<30xf64> -> tensor<30xi1>
  %5 = chlo.is_pos_inf %a : tensor<30xf64> -> tensor<30xi1>
  %6 = chlo.broadcast_next_after %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %7 = chlo.broadcast_polygamma %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %8 = chlo.broadcast_zeta %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %9 = chlo.broadcast_maximum %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %10 = chlo.broadcast_minimum %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %11 = chlo.broadcast_divide %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %12 = chlo.broadcast_multiply %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %13 = chlo.broadcast_power %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %14 = chlo.broadcast_remainder %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  %15 = chlo.broadcast_atan2 %a, %b : (tensor<30xf64>, tensor<30xf64>) -> tensor<30xf64>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15 : tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xi1>, tensor<30xi1>, tensor<30xi1>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>, tensor<30xf64>
}
// -----
func.func @main(%a: tensor<30xbf16>, %b: tensor<30xbf16>) -> (tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>) {
  %0 = chlo.acos %a : tensor<30xbf16> -> tensor<30xbf16>
  %1 = chlo.acosh %a : tensor<30xbf16> -> tensor<30xbf16>
  %2 = chlo.asin %a : tensor<30xbf16> -> tensor<30xbf16>
  %3 = chlo.asinh %a : tensor<30xbf16> -> tensor<30xbf16>
  %4 = chlo.atan %a : tensor<30xbf16> -> tensor<30xbf16>
  %5 = chlo.atanh %a : tensor<30xbf16> -> tensor<30xbf16>
  %6 = chlo.bessel_i1e %a : tensor<30xbf16> -> tensor<30xbf16>
  %7 = chlo.cosh %a : tensor<30xbf16> -> tensor<30xbf16>
  %8 = chlo.digamma %a : tensor<30xbf16> -> tensor<30xbf16>
  %9 = chlo.erf %a : tensor<30xbf16> -> tensor<30xbf16>
  %10 = chlo.erf_inv %a : tensor<30xbf16> -> tensor<30xbf16>
  %11 = chlo.erfc %a : tensor<30xbf16> -> tensor<30xbf16>
  %12 = chlo.lgamma %a : tensor<30xbf16> -> tensor<30xbf16>
  %13 = chlo.sinh %a : tensor<30xbf16> -> tensor<30xbf16>
  %14 = chlo.square %a : tensor<30xbf16> -> tensor<30xbf16>
  %15 = chlo.tan %a : tensor<30xbf16> -> tensor<30xbf16>
  %16 = chlo.conj %a : tensor<30xbf16> -> tensor<30xbf16>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16 : tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>
}
// -----
func.func @main(%a: tensor<30xbf16>, %b: tensor<30xbf16>) -> (tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xi1>, tensor<30xi1>, tensor<30xi1>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>) {
  %0 = chlo.next_after %a, %b : tensor<30xbf16>, tensor<30xbf16> -> tensor<30xbf16>
  %1 = chlo.polygamma %a, %b : tensor<30xbf16>, tensor<30xbf16> -> tensor<30xbf16>
  %2 = chlo.zeta %a, %b : tensor<30xbf16>, tensor<30xbf16> -> tensor<30xbf16>
  %3 = chlo.is_inf %a : tensor<30xbf16> -> tensor<30xi1>
  %4 = chlo.is_neg_inf %a : tensor<30xbf16> -> tensor<30xi1>
  %5 = chlo.is_pos_inf %a : tensor<30xbf16> -> tensor<30xi1>
  %6 = chlo.broadcast_next_after %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %7 = chlo.broadcast_polygamma %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %8 = chlo.broadcast_zeta %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %9 = chlo.broadcast_maximum %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %10 = chlo.broadcast_minimum %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %11 = chlo.broadcast_divide %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %12 = chlo.broadcast_multiply %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %13 = chlo.broadcast_power %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %14 = chlo.broadcast_remainder %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  %15 = chlo.broadcast_atan2 %a, %b : (tensor<30xbf16>, tensor<30xbf16>) -> tensor<30xbf16>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15 : tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xi1>, tensor<30xi1>, tensor<30xi1>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>, tensor<30xbf16>
}
// -----
func.func @main(%a: tensor<30xcomplex<f32>>) -> (tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>) {
  %0 = chlo.acos %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %1 = chlo.acosh %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %2 = chlo.asin %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %3 = chlo.asinh %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %4 = chlo.atan %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %5 = chlo.atanh %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %6 = chlo.conj %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %7 = chlo.cosh %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %8 = chlo.sinh %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %9 = chlo.square %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  %10 = chlo.tan %a : tensor<30xcomplex<f32>> -> tensor<30xcomplex<f32>>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10 : tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>, tensor<30xcomplex<f32>>
}
// -----
func.func @main(%a: tensor<6xi32>, %b: tensor<6xi32>) -> (tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>) {
  %0 = chlo.mulhi %a, %b : tensor<6xi32>, tensor<6xi32> -> tensor<6xi32>
  %1 = chlo.broadcast_and %a, %b : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
  %2 = chlo.broadcast_or %a, %b : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
  %3 = chlo.broadcast_xor %a, %b : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
  %4 = chlo.broadcast_shift_left %a, %b : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
  %5 = chlo.broadcast_shift_right_arithmetic %a, %b : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
  %6 = chlo.broadcast_shift_right_logical %a, %b : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
  %7 = chlo.broadcast_subtract %a, %b : (tensor<6xi32>, tensor<6xi32>) -> tensor<6xi32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>, tensor<6xi32>
}
// -----
func.func @main(%a: tensor<6xui8>, %b: tensor<6xui8>) -> (tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>) {
  %0 = chlo.mulhi %a, %b : tensor<6xui8>, tensor<6xui8> -> tensor<6xui8>
  %1 = chlo.broadcast_and %a, %b : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
  %2 = chlo.broadcast_or %a, %b : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
  %3 = chlo.broadcast_xor %a, %b : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
  %4 = chlo.broadcast_shift_left %a, %b : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
  %5 = chlo.broadcast_shift_right_arithmetic %a, %b : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
  %6 = chlo.broadcast_shift_right_logical %a, %b : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
  %7 = chlo.broadcast_subtract %a, %b : (tensor<6xui8>, tensor<6xui8>) -> tensor<6xui8>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>, tensor<6xui8>
}
// -----
func.func @main(%a: tensor<6xi64>, %b: tensor<6xi64>) -> (tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>) {
  %0 = chlo.mulhi %a, %b : tensor<6xi64>, tensor<6xi64> -> tensor<6xi64>
  %1 = chlo.broadcast_and %a, %b : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  %2 = chlo.broadcast_or %a, %b : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  %3 = chlo.broadcast_xor %a, %b : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  %4 = chlo.broadcast_shift_left %a, %b : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  %5 = chlo.broadcast_shift_right_arithmetic %a, %b : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  %6 = chlo.broadcast_shift_right_logical %a, %b : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  %7 = chlo.broadcast_subtract %a, %b : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>, tensor<6xi64>
}
// -----
func.func @main(%a: tensor<60xcomplex<f32>>, %b: tensor<60xcomplex<f64>>) -> (tensor<60xcomplex<f32>>, tensor<60xcomplex<f64>>) {
  %0 = chlo._asin_acos_kernel %a : tensor<60xcomplex<f32>> -> tensor<60xcomplex<f32>>
  %1 = chlo._asin_acos_kernel %b : tensor<60xcomplex<f64>> -> tensor<60xcomplex<f64>>
  return %0, %1 : tensor<60xcomplex<f32>>, tensor<60xcomplex<f64>>
}
// -----
// Names that are types in HLO text.
module @f32 {
  func.func public @main(%s4: tensor<3xf32>) -> tensor<3xf32> {
    %0 = call @pred(%s4) : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
  func.func private @pred(%token: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %token, %token : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
