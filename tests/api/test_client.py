"""The client: data on devices, and programs that run on one or on several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo
from hlo.frontends.builder import XlaBuilder, XlaComputation, literal_of
from tests.harness.devices import BACKENDS

X = np.arange(3, dtype=np.float32)


@pytest.fixture(params=BACKENDS)
def client(request: pytest.FixtureRequest) -> hlo.Client:
    return hlo.Client(2, backend=request.param, cache=False)


def axpy(client: hlo.Client | None = None) -> XlaComputation:
    b = XlaBuilder("axpy", client)
    alpha, x, y = (b.parameter(n, s) for n, s in enumerate(["f32[]", "f32[3]", "f32[3]"]))
    return b.build(alpha * x + y)


def ids() -> XlaComputation:
    b = XlaBuilder("ids")
    return b.build(b.replica_id())


# --- data ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [
    2.5, [1, 2], True, X, np.array([[1, 2]], ml_dtypes.bfloat16), literal_of([1.0]),
    (1.0, (X, np.int8(3))), np.zeros((0, 3)),
], ids=str)  # fmt: skip
def test_values_come_back_from_a_device(client: hlo.Client, value: Any) -> None:
    data = client.transfer_to_server(value, device=1)
    assert (data.client, data.device, data.shape) == (client, 1, literal_of(value).shape)
    assert client.transfer(data) == literal_of(value)


def test_data_on_a_device_is_a_copy_that_does_not_change(client: hlo.Client) -> None:
    mine = X.copy()
    data, shared = client.transfer_to_server(mine), client.transfer_in_process(mine)
    mine[0] = 7
    assert np.asarray(data)[0] == 0
    assert np.asarray(shared)[0] == 7
    assert np.shares_memory(np.asarray(shared), mine)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(data)[0] = 1


def test_tuples_are_taken_apart(client: hlo.Client) -> None:
    data = client.transfer_to_server((1.0, X), device=1)
    number, array = client.deconstruct_tuple(data)
    assert (number.device, array.shape.to_string(False)) == (1, "f32[3]")
    np.testing.assert_array_equal(np.asarray(array), X)
    with pytest.raises(TypeError, match="deconstruct_tuple"):
        np.asarray(data)


# --- runs ---------------------------------------------------------------------------------------


def test_a_program_runs_where_its_arguments_are(client: hlo.Client) -> None:
    arguments = [client.transfer_to_server(v, device=1) for v in (2.0, X, [1.0, 1.0, 1.0])]
    program = axpy(client)
    result = client.execute(program, arguments)
    assert result.device == 1
    assert client.transfer(result) == literal_of([1.0, 3.0, 5.0])
    # Results are arguments of the next run.
    again = client.execute(program, [arguments[0], result, arguments[2]])
    assert client.transfer(again) == literal_of([3.0, 7.0, 11.0])


def test_results_are_transferred_at_once(client: hlo.Client) -> None:
    for program in (axpy(), axpy().module(), client.compile(axpy())):
        got = client.execute_and_transfer(program, [2.0, X, literal_of([1.0, 1.0, 1.0])], device=1)
        assert got == literal_of([1.0, 3.0, 5.0])


def test_what_was_built_runs_on_as_many_replicas_as_there_are_arguments(client: hlo.Client) -> None:
    got = client.execute_replicated(ids(), [[], []])
    assert [(d.device, int(np.asarray(d))) for d in got] == [(0, 0), (1, 1)]
    got = client.execute_replicated(client.compile(ids(), num_partitions=2), [[], []])
    assert [int(np.asarray(d)) for d in got] == [0, 0]
    assert int(np.asarray(client.execute(ids(), device=1))) == 0


def test_programs_send_to_each_other(client: hlo.Client) -> None:
    # Send and receive of two computations that share a channel.
    b = XlaBuilder("sends")
    b.send(b.parameter(0, "f32[3]") * b.constant_r0(2.0), 7)
    sends = b.build(b.tuple_([]))
    b = XlaBuilder("receives")
    receives = b.build(b.recv("f32[3]", 7) + b.parameter(0, "f32[]"))
    for _ in range(2):
        _, got = client.execute_parallel([(sends, [X]), (receives, [1.0])])
        assert client.transfer(got) == literal_of((2 * X + 1).tolist())
    for programs, words in (
        ([(receives, [1.0]), (receives, [1.0])], "devices 0 and 1 both receive on channel 7"),
        ([(axpy(), [1.0, X, X]), (receives, [1.0])], "for device 0; device 0 came to the end"),
    ):
        with pytest.raises(hlo.HloError, match=words):
            client.execute_parallel(programs)


def test_programs_meet_on_a_channel(client: hlo.Client) -> None:
    def part(value: float) -> hlo.Module:
        b = XlaBuilder("part")
        total = b.all_reduce(b.constant(value), lambda x, y: x * y, [[0, 1]], channel_id=1,
                             use_global_device_ids=True)  # fmt: skip
        return b.build(total).module(num_partitions=2)

    got = client.execute_parallel([(part(2.0), []), (part(3.0), [])])
    assert [client.transfer(d) for d in got] == [literal_of(6.0)] * 2


def test_queues_are_those_of_the_device(client: hlo.Client) -> None:
    b = XlaBuilder("queues")
    b.outfeed(b.infeed("f32[3]") + b.constant_r0(1.0))
    program = b.build(b.tuple_([]))
    client.transfer_to_infeed(X, device=1)
    client.execute(program, device=1)
    assert client.transfer_from_outfeed(device=1) == literal_of((X + 1).tolist())
    with pytest.raises(hlo.HloError, match="infeed: the queue is empty"):
        client.execute(program, device=0)


def test_constants_are_found_without_running_on_a_device(client: hlo.Client) -> None:
    b = XlaBuilder("six")
    assert client.compute_constant(b.build(b.constant(2) * b.constant(3))) == literal_of(6)


def test_a_builder_knows_its_client() -> None:
    client = hlo.Client()
    b = XlaBuilder("b", client)
    assert b.client is client
    assert b.create_sub_builder("inner").client is client
    assert XlaBuilder("b").client is None


# --- errors -------------------------------------------------------------------------------------

ERRORS: dict[str, tuple[Callable[[hlo.Client], Any], str, str]] = {
    "too few arguments": (
        lambda c: c.execute(axpy(), [1.0, X]), "argument-count", "2 arguments for 3 parameters"),
    "an argument of another shape": (
        lambda c: c.execute(axpy(), [1.0, X, c.transfer_to_server([1.0])]),
        "shape-mismatch", "dimensions [1], f32[3] is needed"),
    "an argument of another type": (
        lambda c: c.execute(axpy(), [1.0, X, c.transfer_to_server([1, 2, 3])]),
        "type-mismatch", "f32[3] is needed"),
    "an argument on another device": (
        lambda c: c.execute(axpy(), [1.0, X, c.transfer_to_server(X, 1)], device=0),
        "bad-device", "<GlobalData f32[3] on device 1> is an argument on device 0"),
    "an argument of another client": (
        lambda c: c.execute(axpy(), [1.0, X, hlo.Client().transfer_to_server(X)]),
        "bad-device", "not on a device of this client"),
    "a program of another client": (
        lambda c: c.execute(hlo.Client(cache=False).compile(axpy()), [1.0, X, X]),
        "bad-device", "axpy is of another client"),
    "no such device": (
        lambda c: c.transfer_to_server(1.0, device=2), "bad-device", "there is no device 2"),
    "too few devices": (
        lambda c: c.execute_replicated(ids(), [[]] * 3), "bad-device", "the client has 2"),
    "a program for several devices on one": (
        lambda c: c.execute(ids().module(replica_count=2)),
        "bad-device", "2 devices (2 replicas, 1 partitions), execute runs on one device"),
    "programs for other devices": (
        lambda c: c.execute_parallel([(ids().module(replica_count=3), [])] * 2),
        "bad-device", "2 programs, which run on 3 devices"),
    "arguments for other devices": (
        lambda c: c.execute_replicated(ids().module(num_partitions=2), [[]]),
        "argument-count", "there are arguments for 1"),
    "a program that is not valid": (
        lambda c: c.compile(hlo.parse("HloModule m\nENTRY e { ROOT x = f32[2] iota(), "
                                      "iota_dimension=1 }")), "bad-dimension", "iota"),
    "no value": (lambda c: c.transfer_to_server("x"), "bad-value", "'x' is not a number"),
    "no number": (
        lambda c: c.transfer_in_process(np.array(["x"])), "unknown-type", "not an element type"),
    "no tuple": (
        lambda c: c.deconstruct_tuple(c.transfer_to_server(1.0)), "type-mismatch", "is not a "
                                                                                   "tuple"),
    "an empty outfeed": (
        lambda c: c.transfer_from_outfeed(1), "empty-queue", "the outfeed of device 1"),
    "no constant": (lambda c: c.compute_constant(axpy()), "not-constant", "depends on parameter"),
    "no devices": (lambda c: hlo.Client(0), "bad-device", "1 to 4096 devices, not 0"),
    "no backend": (lambda c: hlo.Client(backend="tpu"), "bad-value", "compiled, reference"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_what_does_not_fit_is_an_error_before_the_run(client: hlo.Client, name: str) -> None:
    call, code, words = ERRORS[name]
    with pytest.raises(hlo.HloError) as e:
        call(client)
    assert e.value.code == code
    assert words in str(e.value)
