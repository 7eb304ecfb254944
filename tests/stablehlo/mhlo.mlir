// MHLO has the same operations.
func.func @main(%a: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>) {
  %z = mhlo.constant dense<0.0> : tensor<f32>
  %0 = mhlo.add %a, %a : tensor<2x3xf32>
  %1 = mhlo.erf %0 : tensor<2x3xf32>
  %2 = mhlo.reduce(%0 init: %z) applies mhlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = "mhlo.copy"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "mhlo.map"(%a) ({
  ^bb0(%x: tensor<f32>):
    %5 = mhlo.sinh %x : tensor<f32>
    mhlo.return %5 : tensor<f32>
  }) {dimensions = dense<[0, 1]> : tensor<2xi64>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %i = mhlo.constant dense<0> : tensor<i32>
  %w = mhlo.while(%j = %i) : tensor<i32>
  cond {
    %n = mhlo.constant dense<4> : tensor<i32>
    %c = mhlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    mhlo.return %c : tensor<i1>
  } do {
    %k = mhlo.constant dense<3> : tensor<i32>
    %l = mhlo.add %j, %k : tensor<i32>
    mhlo.return %l : tensor<i32>
  }
  return %2, %1, %3, %4, %w : tensor<2xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>
}
