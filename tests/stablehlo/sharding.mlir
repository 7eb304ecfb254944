// STRUCTURE: shardings as text, on arguments, results and operations.
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%a: tensor<4x2xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}", mhlo.layout_mode = "default"}, %b: tensor<4x2xf32> {mhlo.sharding = "{replicated}", mhlo.layout_mode = "{0,1}", mhlo.memory_kind = "device"}) -> (tensor<4x2xf32> {mhlo.sharding = "{devices=[1,2,2]<=[4] last_tile_dim_replicate}", mhlo.layout_mode = "{0,1}"}, tensor<4x2xf32>) {
    %0 = stablehlo.custom_call @Sharding(%a) {backend_config = "", mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %1 = stablehlo.add %0, %b {mhlo.sharding = "{devices=[4,1]<=[4]}", mhlo.frontend_attributes = {x = "y"}} : tensor<4x2xf32>
    return %1, %0 : tensor<4x2xf32>, tensor<4x2xf32>
  }
}
// -----
// STRUCTURE: Shardy's: a mesh, and axes of it.
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%a: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}]>}) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) {
    %0 = sdy.sharding_constraint %a <@mesh, [{}, {"y"}]> : tensor<4x2xf32>
    %1 = stablehlo.add %0, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}], replicated={"y"}>]>} : tensor<4x2xf32>
    return %1 : tensor<4x2xf32>
  }
}
// -----
// STRUCTURE: meshes with device ids, of one device, inlined; parts of axes; priorities.
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[3, 2, 1, 0]>
  sdy.mesh @one = <[], device_ids=[1]>
  sdy.mesh @four = <["z"=4]>
  func.func @main(%a: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {"y"}p0]>}, %b: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@one, []>}, %c: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@four, [{"z":(1)2}, {"z":(2)2}]>}, %e: tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) -> tensor<4x2xf32> {
    return %a : tensor<4x2xf32>
  }
}
// -----
// STRUCTURE: what shard_map makes.
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<2xf32>) {
      %1 = stablehlo.negate %b : tensor<2xf32>
      sdy.return %1 : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
// XLA REFUSES: a computation with a name.
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %1 = sdy.named_computation<"n">(%a) (%b: tensor<4xf32>) {
      %2 = stablehlo.negate %b : tensor<4xf32>
      sdy.return %2 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    %3 = sdy.propagation_barrier %1 allowed_direction=BACKWARD : tensor<4xf32>
    sdy.sharding_group %3 group_id=21 : tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}
// -----
// ERROR: sdy.all_slice: HLO has no such operation: it appears only during partitioning
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.all_slice [{"x"}] %a out_sharding=<@mesh, [{"x"}]> : tensor<4xf32>
    %1 = sdy.all_gather [{"x"}] %0 out_sharding=<@mesh, [{}]> : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
// -----
// STRUCTURE
module @m {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main() -> tensor<4xf32> {
    %0 = sdy.constant dense<1.0> : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
// STRUCTURE: several operands, some of them whole.
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4x2xf32>, %c: tensor<f32>) -> (tensor<4xf32>, tensor<4x2xf32>) {
    %0:2 = sdy.manual_computation(%a, %b, %c) in_shardings=[<@mesh, [{"x"}]>, <@mesh, [{}, {"x"}]>, <@mesh, []>] out_shardings=[<@mesh, [{"x"}]>, <@mesh, [{}, {"x"}]>] manual_axes={"x"} (%d: tensor<2xf32>, %e: tensor<4x1xf32>, %f: tensor<f32>) {
      %g = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %1 = stablehlo.add %d, %g : tensor<2xf32>
      sdy.return %1, %e : tensor<2xf32>, tensor<4x1xf32>
    } : (tensor<4xf32>, tensor<4x2xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4x2xf32>)
    return %0#0, %0#1 : tensor<4xf32>, tensor<4x2xf32>
  }
}
// -----
// STRUCTURE: no operands.
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main() -> tensor<4xf32> {
    %0 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} () {
      %1 = stablehlo.constant dense<1.0> : tensor<2xf32>
      sdy.return %1 : tensor<2xf32>
    } : () -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
// STRUCTURE: parts of a sum.
module @m attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
  func.func public @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}], unreduced={"y"}>}, %b: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"z"}], replicated={"x"}, unreduced={"y"}>}, %c: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"z", "x"}, {"y"}]>}, %d: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}], unreduced={"x", "y", "z"}>}) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}
// -----
// STRUCTURE: results of functions, groups, barriers.
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<4xf32>) {
    %0:2 = call @f(%a, %b) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, [{}]>]>} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    sdy.sharding_group %0#0 group_id=21 : tensor<4xf32>
    %3 = sdy.propagation_barrier %0#0 allowed_direction=BACKWARD : tensor<4xf32>
    return %3, %0#1 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @f(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<4xf32>) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<4xf32>) {
    return %b, %a : tensor<4xf32>, tensor<4xf32>
  }
}
// -----
// XLA REFUSES: a value takes another sharding.
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.reshard %a <@mesh, [{"x"}]> : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
