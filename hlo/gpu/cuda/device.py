"""A GPU of NVIDIA's as a device: kernels, memory and launches by the driver, on one stream."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np

from hlo.errors import HloError
from hlo.gpu.cuda.context import Context, Properties, open_context
from hlo.gpu.cuda.memory import Memory, Staging
from hlo.gpu.device import Device, Holder, Replay
from hlo.gpu.ptxas import assemble
from hlo.support.dlpack import CUDA
from hlo.support.memory import collector_paused

# A block has so much dynamic shared memory without asking for more.
_SHARED_BYTES = 48 << 10
_LOG_BYTES = 8 << 10
# Waiting looks again and again for so long, and then less often.
_SPIN_SECONDS, _MOST_PAUSE_SECONDS = 200e-6, 1e-3


class Kernels:
    """The kernels of a program, loaded on a device."""

    def __init__(self, context: Context, module: Any) -> None:
        self._context, self._module = context, module
        self._functions: dict[str, Any] = {}
        self._shared: dict[str, int] = {}

    def function(self, kernel: str, shared_bytes: int) -> Any:
        """Return a kernel that may have so much dynamic shared memory."""
        driver = self._context.driver
        cu, done = driver.cu, driver.done
        function = self._functions.get(kernel)
        if function is None:
            found = cu.cuModuleGetFunction(self._module, kernel.encode())
            function = self._functions[kernel] = done(found, f"finding kernel {kernel}")
        if shared_bytes > self._shared.get(kernel, _SHARED_BYTES):
            name = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
            attribute = getattr(cu.CUfunction_attribute, name)
            doing = f"giving kernel {kernel} {shared_bytes} bytes of shared memory"
            done(cu.cuFuncSetAttribute(function, attribute, shared_bytes), doing)
            self._shared[kernel] = shared_bytes
        return function

    def close(self) -> None:
        """Unload the kernels."""
        driver = self._context.driver
        with self._context:
            driver.done(driver.cu.cuModuleUnload(self._module), "unloading kernels")


class Graph(Replay):
    """Launches and copies that the device has as a graph."""

    def __init__(self, context: Context, stream: Any, executable: Any) -> None:
        self._context, self._stream, self._executable = context, stream, executable

    def run(self) -> None:
        driver = self._context.driver
        driver.done(driver.cu.cuGraphLaunch(self._executable, self._stream), "launching a graph")

    def close(self) -> None:
        driver = self._context.driver
        with self._context:
            driver.done(driver.cu.cuGraphExecDestroy(self._executable), "giving a graph back")


class CudaDevice(Device):
    """A device of this machine with a stream of its own; see `Device`."""

    def __init__(self, context: Context | None = None, memory: Memory | None = None) -> None:
        """Without a context it is the first device. Raises HloError, code `no-device`, if there is
        none."""
        self.context = open_context() if context is None else context
        self._driver = self.context.driver
        self._cu, self._done = self._driver.cu, self._driver.done
        self.memory = Memory(self.context) if memory is None else memory
        with self.context:
            flag = int(self._cu.CUstream_flags.CU_STREAM_NON_BLOCKING)
            self.stream = self._done(self._cu.cuStreamCreate(flag), "making a stream")
        self.dlpack_device = (CUDA, self.context.properties.number)
        self._staging = Staging(self.context, self.stream)
        # Launches are waited for one by one, so that what fails is known.
        self._is_blocking = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")

    @property
    def properties(self) -> Properties:
        """What is known of the device."""
        return self.context.properties

    def queue(self) -> CudaDevice:
        return CudaDevice(self.context, self.memory)

    def active(self) -> AbstractContextManager[None]:
        return self.context

    def close_queue(self) -> None:
        with self.context:
            self._done(self._cu.cuStreamSynchronize(self.stream), "waiting for the device")
            self._staging.close()
            self._done(self._cu.cuStreamDestroy(self.stream), "giving the stream back")

    def close(self) -> None:
        """Close the device, its memory and its context, at the end of a process."""
        with suppress(HloError):  # it may be lost
            self.close_queue()
            self.memory.close()
            self.context.close()

    # --- code -----------------------------------------------------------------------------------

    def load(self, code: str, binary: bytes = b"") -> Kernels:
        """Return kernels. binary: the code assembled, by `machine_code`; else, or where the driver
        is too old for it, the driver compiles the PTX."""
        cu = self._cu
        with self.context:
            if binary:
                status, module = cu.cuModuleLoadDataEx(binary, 0, [], [])
                if status == cu.CUresult.CUDA_SUCCESS:
                    return Kernels(self.context, module)
            log = bytearray(_LOG_BYTES)
            options = {
                cu.CUjit_option.CU_JIT_ERROR_LOG_BUFFER: log,
                cu.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: _LOG_BYTES,
            }
            text = code.encode() + b"\0"
            status, module = cu.cuModuleLoadDataEx(
                text, len(options), list(options), list(options.values())
            )
            if status != cu.CUresult.CUDA_SUCCESS:
                raise self._refused(status, bytes(log))
        return Kernels(self.context, module)

    def _refused(self, status: Any, log: bytes) -> HloError:
        said = log.split(b"\0")[0].decode(errors="replace").strip().splitlines()
        reason = "".join(f": {line}" for line in said[:1])
        hint = None
        if status == self._cu.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
            hint = "a newer driver, or ptxas: pip install 'hlo-tools[cuda]'"
        doing = f"loading the kernels on {self.properties.name}{reason}"
        error = self._driver.error(status, doing, "bad-ptx")
        return HloError.at("bad-ptx", error.diagnostics[0].message, hint=hint)

    def machine_code(self, code: str) -> bytes:
        """Return PTX assembled for this device, nothing where ptxas is missing or too old for it.

        Loading that takes no time.
        """
        try:
            return assemble(code, self.properties.cpu).cubin
        except HloError:
            return b""

    def unload(self, code: Kernels) -> None:
        code.close()

    # --- memory ---------------------------------------------------------------------------------

    def allocate(self, size: int, name: str = "") -> int:
        return self.memory.allocate(size, name)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def write(self, address: int, data: np.ndarray) -> None:
        with self.context:
            self._staging.write(address, data)

    def read(self, address: int, data: np.ndarray) -> None:
        with self.context:
            self._staging.read(address, data)
            self._synchronize()

    def copy(self, target: int, source: int, size: int) -> None:
        with self.context:
            returned = self._cu.cuMemcpyDtoDAsync(target, source, size, self.stream)
            self._done(returned, f"copying {size} bytes on the device")

    def on_shortage(self, holder: Holder) -> None:
        self.memory.holders.add(holder)

    def free_from_others(self, address: int) -> None:
        self.memory.settle()
        self.free(address)

    @property
    def allocated_bytes(self) -> int:
        return self.memory.allocated_bytes

    # --- launches -------------------------------------------------------------------------------

    def launch(
        self, code: Kernels, kernel: str, blocks: int, threads: int, shared_bytes: int,
        addresses: Sequence[int], instruction: str = "",
    ) -> None:  # fmt: skip
        with self.context:
            function = code.function(kernel, shared_bytes)
            values = np.array(addresses, np.uint64)
            pointers = np.arange(len(values), dtype=np.uint64) * 8 + values.ctypes.data
            # The driver has read both when it returns.
            returned = self._cu.cuLaunchKernel(
                function, blocks, 1, 1, threads, 1, 1, shared_bytes, self.stream,
                pointers.ctypes.data, 0,
            )  # fmt: skip
            doing = f"kernel {kernel} in {blocks} blocks of {threads} threads"
            self._done(returned, doing)
            if self._is_blocking:
                self._done(self._cu.cuStreamSynchronize(self.stream), doing)

    def capture(self, record: Callable[[], None]) -> Replay | None:
        if self._is_blocking:
            return None
        cu, done = self._cu, self._done
        # What the cycle collector finds may free memory, which a capture does not permit.
        with self.context, collector_paused():
            # Other threads may allocate meanwhile.
            mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            done(cu.cuStreamBeginCapture(self.stream, mode), "capturing a graph")
            try:
                record()
            except BaseException:
                cu.cuStreamEndCapture(self.stream)
                raise
            graph = done(cu.cuStreamEndCapture(self.stream), "capturing a graph")
            try:
                executable = done(cu.cuGraphInstantiate(graph, 0), "making a graph")
            finally:
                done(cu.cuGraphDestroy(graph), "giving a graph back")
        return Graph(self.context, self.stream, executable)

    def wait(self, check: Callable[[], None]) -> None:
        cu = self._cu
        pending = cu.CUresult.CUDA_ERROR_NOT_READY
        start = time.monotonic()
        with self.context:
            while True:
                [status] = cu.cuStreamQuery(self.stream)
                if status != pending:
                    self._done((status,), "running kernels")
                    return
                check()
                waited = time.monotonic() - start
                if waited > _SPIN_SECONDS:
                    # A small part of the wait, at most.
                    time.sleep(min(waited / 8, _MOST_PAUSE_SECONDS))

    def _synchronize(self) -> None:
        self._done(self._cu.cuStreamSynchronize(self.stream), "running kernels")

    # --- arrays of other libraries --------------------------------------------------------------

    def number_of(self, address: int) -> int:
        """Return the number of the device that an address is on, -1 for no memory of a device."""
        cu = self._cu
        with self.context:
            status, number = cu.cuPointerGetAttribute(
                cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address
            )
        return int(number) if status == cu.CUresult.CUDA_SUCCESS else -1

    def wait_for_stream(self, stream: int) -> None:
        """Wait for what another library has launched on a stream; 1 and 2 are the default ones."""
        with self.context:
            self._done(self._cu.cuStreamSynchronize(stream), "waiting for another library")

    # --- time -----------------------------------------------------------------------------------

    def mark(self) -> Any:
        with self.context:
            event = self._done(self._cu.cuEventCreate(0), "making an event")
            self._done(self._cu.cuEventRecord(event, self.stream), "recording an event")
        return event

    def seconds_between(self, start: Any, end: Any) -> float:
        with self.context:
            for event in (start, end):
                self._done(self._cu.cuEventSynchronize(event), "running kernels")
            return float(self._done(self._cu.cuEventElapsedTime(start, end), "timing")) / 1e3

    def forget_mark(self, mark: Any) -> None:
        with self.context:
            self._done(self._cu.cuEventDestroy(mark), "giving an event back")
