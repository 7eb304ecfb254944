// STRUCTURE: Talking to the host and to other devices: send, recv, infeed, outfeed.
func.func @main(%a: tensor<2xf32>, %t: !stablehlo.token) -> !stablehlo.token {
  %0 = "stablehlo.send"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> {mhlo.frontend_attributes = {_xla_host_transfer_rendezvous = "x"}} : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  %1:2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
  return %1#1 : !stablehlo.token
}
// -----
// STRUCTURE
func.func @main(%a: tensor<2xf32>, %b: tensor<i32>, %t: !stablehlo.token) -> (tensor<2xf32>, tensor<i32>, !stablehlo.token) {
  %0:3 = "stablehlo.infeed"(%t) <{infeed_config = "cfg", layout = [[0], []]}> : (!stablehlo.token) -> (tensor<2xf32>, tensor<i32>, !stablehlo.token)
  %1 = "stablehlo.outfeed"(%0#0, %0#1, %0#2) <{outfeed_config = "out"}> : (tensor<2xf32>, tensor<i32>, !stablehlo.token) -> !stablehlo.token
  %2 = "stablehlo.outfeed"(%a, %1) <{outfeed_config = ""}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  return %0#0, %0#1, %2 : tensor<2xf32>, tensor<i32>, !stablehlo.token
}
// -----
// STRUCTURE
func.func @main(%t: !stablehlo.token) -> (tensor<3x3xi32>, !stablehlo.token) {
  %0:2 = "stablehlo.infeed"(%t) {infeed_config = "", layout = [[0, 1]]} : (!stablehlo.token) -> (tensor<3x3xi32>, !stablehlo.token)
  return %0#0, %0#1 : tensor<3x3xi32>, !stablehlo.token
}
// -----
// STRUCTURE
func.func @main(%t: !stablehlo.token) -> !stablehlo.token {
  %0 = "stablehlo.infeed"(%t) {infeed_config = "", layout = []} : (!stablehlo.token) -> !stablehlo.token
  %1 = "stablehlo.outfeed"(%0) : (!stablehlo.token) -> !stablehlo.token
  return %1 : !stablehlo.token
}
// -----
// STRUCTURE: between devices.
func.func @main(%a: tensor<2xf32>, %t: !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token) {
  %0 = "stablehlo.send"(%a, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  %1:2 = "stablehlo.recv"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
  return %1#0, %1#1 : tensor<2xf32>, !stablehlo.token
}
// -----
// STRUCTURE: custom calls of every version, with all they may say.
func.func @main(%a: tensor<2x3xf32>, %b: tensor<4xf32>) -> (tensor<2x3xf32>, tensor<4xf32>) {
  %0:2 = stablehlo.custom_call @foo(%a, %b) {backend_config = "opaque", has_side_effect = true, api_version = 2 : i32, operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 1, operand_tuple_indices = []>], mhlo.frontend_attributes = {k = "v"}, mhlo.sharding = "{{replicated}, {maximal device=0}}"} : (tensor<2x3xf32>, tensor<4xf32>) -> (tensor<2x3xf32>, tensor<4xf32>)
  %1 = stablehlo.custom_call @bar(%0#0) {api_version = 4 : i32, backend_config = {a = 1 : i64, b = "x\22y", c = [1.500000e+00 : f32, 2.500000e+00 : f32], d = true, e = array<i32: 1, 2>}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "stablehlo.custom_call"(%1) <{call_target_name = "baz", called_computations = [@g], api_version = 1 : i32, backend_config = ""}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.custom_call @three(%2) {api_version = 3 : i32, backend_config = "a=1"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %3, %0#1 : tensor<2x3xf32>, tensor<4xf32>
}
func.func private @f(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}
func.func private @g(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
// -----
// STRUCTURE: a custom call without results.
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  stablehlo.custom_call @foo(%a) {has_side_effect = true} : (tensor<2xf32>) -> ()
  %0 = stablehlo.custom_call @bar(%a) : (tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<i32>>
  %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
// -----
// Custom calls that say operations.
func.func @main(%a: tensor<3x7xf32>) -> (tensor<3x7xf32>, tensor<3x2xf32>, tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x2xi32>) {
  %0 = stablehlo.custom_call @mhlo.erf(%a) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<3x7xf32>) -> tensor<3x7xf32>
  %1:2 = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64} : (tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  %2 = stablehlo.iota dim = 1 : tensor<3x7xi32>
  %3 = stablehlo.constant dense<-1> : tensor<i32>
  %4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %5:2 = stablehlo.custom_call @ApproxTopK(%a, %2, %4, %3) {backend_config = "", called_computations = [@greater], mhlo.backend_config = {aggregate_to_topk = true, is_fallback = true, recall_target = 0.949999988 : f32, reduction_dim = 1 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<3x7xf32>, tensor<3x7xi32>, tensor<f32>, tensor<i32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0, %1#0, %1#1, %5#0, %5#1 : tensor<3x7xf32>, tensor<3x2xf32>, tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x2xi32>
}
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
