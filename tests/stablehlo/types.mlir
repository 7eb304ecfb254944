// Element types and constants in every spelling.
func.func @main() -> (tensor<2xf8E4M3FN>, tensor<2xf8E5M2>, tensor<2xf8E4M3FNUZ>, tensor<2xf8E5M2FNUZ>, tensor<2xf8E4M3B11FNUZ>, tensor<2xf8E4M3>, tensor<2xf8E3M4>, tensor<2xf8E8M0FNU>, tensor<2xf4E2M1FN>) {
  %0 = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf8E4M3FN>
  %1 = stablehlo.constant dense<[1.0, 0x7C]> : tensor<2xf8E5M2>
  %2 = stablehlo.constant dense<[1.0, 0x80]> : tensor<2xf8E4M3FNUZ>
  %3 = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf8E5M2FNUZ>
  %4 = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf8E4M3B11FNUZ>
  %5 = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf8E4M3>
  %6 = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf8E3M4>
  %7 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E8M0FNU>
  %8 = stablehlo.constant dense<[1.0, -3.0]> : tensor<2xf4E2M1FN>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<2xf8E4M3FN>, tensor<2xf8E5M2>, tensor<2xf8E4M3FNUZ>, tensor<2xf8E5M2FNUZ>, tensor<2xf8E4M3B11FNUZ>, tensor<2xf8E4M3>, tensor<2xf8E3M4>, tensor<2xf8E8M0FNU>, tensor<2xf4E2M1FN>
}
// -----
// SINCE 0.12
func.func @main() -> (tensor<2xf6E2M3FN>, tensor<2xf6E3M2FN>) {
  %0 = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf6E2M3FN>
  %1 = stablehlo.constant dense<[28.0, 0x3F]> : tensor<2xf6E3M2FN>
  return %0, %1 : tensor<2xf6E2M3FN>, tensor<2xf6E3M2FN>
}
// -----
func.func @main() -> (tensor<4xi2>, tensor<3xui2>, tensor<4xi4>, tensor<3xui4>, tensor<2xi8>, tensor<2xui8>, tensor<2xi16>, tensor<2xui16>, tensor<2xi64>, tensor<2xui64>) {
  %0 = stablehlo.constant dense<[1, -2, 0, -1]> : tensor<4xi2>
  %1 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xui2>
  %2 = stablehlo.constant dense<[1, -8, 0, 7]> : tensor<4xi4>
  %3 = stablehlo.constant dense<[1, 2, 15]> : tensor<3xui4>
  %4 = stablehlo.constant dense<[-128, 127]> : tensor<2xi8>
  %5 = stablehlo.constant dense<[0, 255]> : tensor<2xui8>
  %6 = stablehlo.constant dense<"0x0100FEFF"> : tensor<2xi16>
  %7 = stablehlo.constant dense<[0xFF, 65535]> : tensor<2xui16>
  %8 = stablehlo.constant dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>
  %9 = stablehlo.constant dense<[0, 18446744073709551615]> : tensor<2xui64>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<4xi2>, tensor<3xui2>, tensor<4xi4>, tensor<3xui4>, tensor<2xi8>, tensor<2xui8>, tensor<2xi16>, tensor<2xui16>, tensor<2xi64>, tensor<2xui64>
}
// -----
func.func @main() -> (tensor<2xf16>, tensor<2xbf16>, tensor<2x2xf32>, tensor<f64>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f64>>, tensor<complex<f32>>, tensor<3xi1>, tensor<8xi1>, tensor<0x2xf32>, tensor<3xf64>) {
  %0 = stablehlo.constant dense<[0x7E00, -1.5]> : tensor<2xf16>
  %1 = stablehlo.constant dense<[0xFF80, 1.0e10]> : tensor<2xbf16>
  %2 = stablehlo.constant dense<[[1.0, 0x7FC00000], [-0.0, 0xFF800000]]> : tensor<2x2xf32>
  %3 = stablehlo.constant dense<1.0000000000000002> : tensor<f64>
  %4 = stablehlo.constant dense<[(1.0, -2.5), (0x7FC00000, 0.0)]> : tensor<2xcomplex<f32>>
  %5 = stablehlo.constant dense<(1.0, -2.5)> : tensor<2xcomplex<f64>>
  %6 = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
  %7 = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
  %8 = stablehlo.constant dense<"0x0100010000010001"> : tensor<8xi1>
  %9 = stablehlo.constant dense<> : tensor<0x2xf32>
  %10 = stablehlo.constant dense<0x7FF8000000000000> : tensor<3xf64>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10 : tensor<2xf16>, tensor<2xbf16>, tensor<2x2xf32>, tensor<f64>, tensor<2xcomplex<f32>>, tensor<2xcomplex<f64>>, tensor<complex<f32>>, tensor<3xi1>, tensor<8xi1>, tensor<0x2xf32>, tensor<3xf64>
}
// -----
// XLA REFUSES: constants whose bytes stand at the end.
func.func @main() -> (tensor<4xf32>, tensor<2xi32>, tensor<3xi1>) {
  %0 = stablehlo.constant dense_resource<a> : tensor<4xf32>
  %1 = stablehlo.constant dense_resource<"b c"> : tensor<2xi32>
  %2 = stablehlo.constant dense_resource<d> : tensor<3xi1>
  return %0, %1, %2 : tensor<4xf32>, tensor<2xi32>, tensor<3xi1>
}
{-#
  dialect_resources: {
    builtin: {
      a: "0x040000000000803F000000400000404000008040",
      "b c": "0x0400000001000000FFFFFFFF",
      d: "0x01000000010001"
    }
  },
  external_resources: {
    mlir_reproducer: {
      verify_each: true
    }
  }
#-}
// -----
// XLA REFUSES: quantized types become integers; `quantized.mlir` has more.
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
// -----
// An alias of a type.
!t = tensor<2x3xf32>
func.func @main(%a: !t) -> !t {
  %0 = stablehlo.abs %a : !t
  return %0 : !t
}
// -----
// One bit is a predicate, signed or not.
func.func @main(%a: tensor<2xui1>) -> tensor<2xui1> {
  return %a : tensor<2xui1>
}
// -----
// XLA REFUSES: sizes may be of type index, which is s64 here.
func.func @main(%a: tensor<2xindex>) -> tensor<2xindex> {
  return %a : tensor<2xindex>
}
// -----
// ERROR: an array of unknown rank
func.func @main(%a: tensor<*xf32>) -> tensor<*xf32> {
  return %a : tensor<*xf32>
}
// -----
// ERROR: tf32
func.func @main(%a: tensor<2xtf32>) -> tensor<2xtf32> {
  return %a : tensor<2xtf32>
}
