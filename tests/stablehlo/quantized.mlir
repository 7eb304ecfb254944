// XLA REFUSES: quantized types, per tensor and per axis, by an alias, with a range, without a zero point.
!q = !quant.uniform<u8:f32, 0.5:128>
func.func @main(%a: tensor<2x3xf32>, %w: tensor<2x3x!quant.uniform<i8<-127:127>:f32:1, {0.1, 0.2:3, 0.25:-1}>>) -> (tensor<2x3x!q>, tensor<2x3xf32>, tensor<3x2x!quant.uniform<i8<-127:127>:f32:0, {0.1, 0.2:3, 0.25:-1}>>, tensor<2x3xui8>) {
  %0 = stablehlo.uniform_quantize %a : (tensor<2x3xf32>) -> tensor<2x3x!q>
  %1 = "stablehlo.add"(%0, %0) : (tensor<2x3x!q>, tensor<2x3x!q>) -> tensor<2x3x!q>
  %2 = stablehlo.uniform_dequantize %w : (tensor<2x3x!quant.uniform<i8<-127:127>:f32:1, {0.1, 0.2:3, 0.25:-1}>>) -> tensor<2x3xf32>
  %3 = stablehlo.transpose %w, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8<-127:127>:f32:1, {0.1, 0.2:3, 0.25:-1}>>) -> tensor<3x2x!quant.uniform<i8<-127:127>:f32:0, {0.1, 0.2:3, 0.25:-1}>>
  %4 = stablehlo.bitcast_convert %1 : (tensor<2x3x!q>) -> tensor<2x3xui8>
  return %1, %2, %3, %4 : tensor<2x3x!q>, tensor<2x3xf32>, tensor<3x2x!quant.uniform<i8<-127:127>:f32:0, {0.1, 0.2:3, 0.25:-1}>>, tensor<2x3xui8>
}
// -----
// XLA REFUSES: loops, branches, calls and reductions hand quantized values on.
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%a: tensor<4x!q>, %p: tensor<i1>) -> (tensor<4x!q>, tensor<!q>) {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %w:2 = stablehlo.while(%k = %i, %x = %a) : tensor<i32>, tensor<4x!q>
  cond {
    %n = stablehlo.constant dense<2> : tensor<i32>
    %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %k, %one : tensor<i32>
    %y = func.call @f(%x) : (tensor<4x!q>) -> tensor<4x!q>
    stablehlo.return %j, %y : tensor<i32>, tensor<4x!q>
  }
  %b = "stablehlo.if"(%p) ({
    stablehlo.return %w#1 : tensor<4x!q>
  }, {
    %n = stablehlo.negate %a : tensor<4x!q>
    stablehlo.return %n : tensor<4x!q>
  }) : (tensor<i1>) -> tensor<4x!q>
  %z = "stablehlo.constant"() <{value = dense<3> : tensor<i8>}> : () -> tensor<!q>
  %r = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4x!q>, tensor<!q>) -> tensor<!q>
  return %b, %r : tensor<4x!q>, tensor<!q>
}
func.func private @f(%x: tensor<4x!q>) -> tensor<4x!q> {
  %0 = stablehlo.add %x, %x : tensor<4x!q>
  return %0 : tensor<4x!q>
}
// -----
// ERROR: 2 scales do not fit dimension 0 of [3]
func.func @main(%a: tensor<3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>) -> tensor<3x!quant.uniform<i8:f32:0, {0.1, 0.2}>> {
  return %a : tensor<3x!quant.uniform<i8:f32:0, {0.1, 0.2}>>
}
// -----
// ERROR: %a is quantized in another way than its type says
func.func @main(%a: tensor<3x!quant.uniform<i8:f32, 0.1>>) -> tensor<3xf32> {
  %0 = stablehlo.uniform_dequantize %a : (tensor<3x!quant.uniform<i8:f32, 0.2>>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ERROR: neither its operand nor its result is quantized
func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.uniform_quantize %a : tensor<3xf32>
  return %0 : tensor<3xf32>
}
// -----
// ERROR: scales are positive numbers of f32
func.func @main(%a: tensor<3x!quant.uniform<i8:f32, 0.0>>) -> tensor<3x!quant.uniform<i8:f32, 0.0>> {
  return %a : tensor<3x!quant.uniform<i8:f32, 0.0>>
}
// -----
// ERROR: zero points are from -128 to 127
func.func @main(%a: tensor<3x!quant.uniform<i8:f32, 0.5:128>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:128>> {
  return %a : tensor<3x!quant.uniform<i8:f32, 0.5:128>>
}
// -----
// ERROR: expected !quant.uniform<..>
func.func @main(%a: tensor<3x!quant.any<i8:f32>>) -> tensor<3x!quant.any<i8:f32>> {
  return %a : tensor<3x!quant.any<i8:f32>>
}
