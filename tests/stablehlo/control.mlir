// Calls, loops, branches, tuples, tokens, composites.
module @several attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%a: tensor<2xf32> {jax.buffer_donor = true}, %b: tensor<2xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<2xf32> {jax.result_info = "x"}, tensor<2xf32>) {
    %0:2 = call @swap(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %1 = func.call @"odd name"(%0#0) : (tensor<2xf32>) -> tensor<2xf32>
    return %1, %0#1 : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @swap(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = call @"odd name"(%b) : (tensor<2xf32>) -> tensor<2xf32>
    return %0, %a : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @"odd name"(%a: tensor<2xf32>) -> tensor<2xf32> attributes {no_inline} {
    %0 = stablehlo.negate %a : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @nobody_calls_it(%a: tensor<2xf32>) -> tensor<2xf32> {
    return %a : tensor<2xf32>
  }
}
// -----
// Loops and branches see the values around them.
func.func @main(%a: tensor<2x3xf32>, %k: tensor<i32>) -> (tensor<2x3xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<2x3xf32> attributes {mhlo.frontend_attributes = {a = "b"}}
  cond {
    %c = stablehlo.compare LT, %i, %three, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %y = stablehlo.add %x, %a : tensor<2x3xf32>
    stablehlo.return %j, %y : tensor<i32>, tensor<2x3xf32>
  }
  %r = "stablehlo.case"(%k) ({
    stablehlo.return %a : tensor<2x3xf32>
  }, {
    %n = stablehlo.negate %w#1 : tensor<2x3xf32>
    stablehlo.return %n : tensor<2x3xf32>
  }) : (tensor<i32>) -> tensor<2x3xf32>
  return %r, %w#0 : tensor<2x3xf32>, tensor<i32>
}
// -----
func.func @main(%p: tensor<i1>, %a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = "stablehlo.if"(%p) ({
    %1 = stablehlo.negate %a : tensor<f32>
    %2 = "stablehlo.if"(%p) ({
      stablehlo.return %1 : tensor<f32>
    }, {
      stablehlo.return %a : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    stablehlo.return %1, %2 : tensor<f32>, tensor<f32>
  }, {
    %3 = stablehlo.constant dense<1.0> : tensor<f32>
    stablehlo.return %3, %a : tensor<f32>, tensor<f32>
  }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
// -----
func.func @main(%a: tensor<2xf32>, %b: tensor<i32>) -> (tensor<2xf32>, tensor<i32>, tensor<2xf32>) {
  %t = stablehlo.tuple %a, %b : tuple<tensor<2xf32>, tensor<i32>>
  %u = stablehlo.tuple %t, %a : tuple<tuple<tensor<2xf32>, tensor<i32>>, tensor<2xf32>>
  %0 = stablehlo.get_tuple_element %u[0] : (tuple<tuple<tensor<2xf32>, tensor<i32>>, tensor<2xf32>>) -> tuple<tensor<2xf32>, tensor<i32>>
  %1 = "stablehlo.get_tuple_element"(%0) <{index = 1 : i32}> : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<i32>
  %2:2 = stablehlo.optimization_barrier %a, %1 : tensor<2xf32>, tensor<i32>
  %3 = stablehlo.optimization_barrier %a : tensor<2xf32>
  return %2#0, %2#1, %3 : tensor<2xf32>, tensor<i32>, tensor<2xf32>
}
// -----
// A tuple goes in and out.
func.func @main(%t: tuple<tensor<2xf32>, tuple<tensor<i32>>>) -> tuple<tensor<2xf32>, tuple<tensor<i32>>> {
  return %t : tuple<tensor<2xf32>, tuple<tensor<i32>>>
}
// -----
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>, !stablehlo.token) {
  %0 = stablehlo.create_token : !stablehlo.token
  %1 = stablehlo.after_all %0, %0 : !stablehlo.token
  %2 = stablehlo.after_all  : !stablehlo.token
  %3 = stablehlo.after_all %1, %2 : !stablehlo.token
  return %a, %3 : tensor<2xf32>, !stablehlo.token
}
// -----
// A composite is a call of what it is decomposed into.
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = stablehlo.composite "my.op" %a {composite_attributes = {x = 1 : i32, name = "n"}, decomposition = @impl, version = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "stablehlo.composite"(%0) <{composite_attributes = {}, decomposition = @impl, name = "my.op"}> : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
func.func private @impl(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// What a reduction, a sort or a map uses of its surroundings.
func.func @main(%a: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2x3xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %k = stablehlo.constant dense<2.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
      %s = stablehlo.multiply %y, %k : tensor<f32>
      %t = stablehlo.add %x, %s : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }
  %1 = "stablehlo.map"(%a) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%x: tensor<f32>):
    %s = stablehlo.multiply %x, %k : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2xf32>, tensor<2x3xf32>
}
// -----
// ERROR: uses %s from outside
func.func @main(%a: tensor<2x3xf32>, %s: tensor<f32>) -> tensor<2x3xf32> {
  %1 = "stablehlo.map"(%a) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%x: tensor<f32>):
    %0 = stablehlo.multiply %x, %s : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
