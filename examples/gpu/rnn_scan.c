/* Runs a recurrent network over two pieces of a sequence on a GPU. The weights are copied to the
 * device once; the state stays there: it is a result of the first call and an argument of the
 * second. The toolkit of CUDA is not needed, only the driver.
 *
 *     hlo-compile examples/rnn_scan.hlo --target nvptx64 -o rnn_scan.c --header rnn_scan.h
 *     cc -O2 -I. examples/gpu/rnn_scan.c rnn_scan.c -lcuda -o rnn_scan
 *     ./rnn_scan
 */
#include <stdio.h>
#include <stdlib.h>

#include "hlo_cuda_driver.h"
#include "rnn_scan.h"

static void need(int status, const char *what) {
  if (status == 0) return;
  fprintf(stderr, "%s: %s\n", what, rnn_scan_status_text(status));
  exit(1);
}

/* Returns an array on the device, with numbers that depend on `seed`. */
static CUdeviceptr new_array(size_t bytes, int seed, CUstream stream) {
  size_t count = bytes / sizeof(float);
  float *values = malloc(bytes);
  CUdeviceptr at;
  if (values == NULL) exit(1);
  for (size_t i = 0; i < count; i++) values[i] = (float)((int)(i * 37 % 101) - 50) / (float)seed;
  need((int)cuMemAlloc(&at, bytes), "memory of the device");
  need((int)cuMemcpyHtoDAsync(at, values, bytes, stream), "copying to the device");
  need((int)cuStreamSynchronize(stream), "copying to the device");
  free(values);
  return at;
}

int main(void) {
  rnn_scan_program *program;
  CUdevice device;
  CUcontext context;
  CUstream stream;
  static float states[rnn_scan_BYTES_out1 / sizeof(float)];
  double sum = 0;

  need((int)cuInit(0), "the driver");
  need((int)cuDeviceGet(&device, 0), "the device");
  need((int)cuDevicePrimaryCtxRetain(&context, device), "the device");
  need((int)cuCtxPushCurrent(context), "the device");
  need((int)cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "a stream");
  need(rnn_scan_create(&program, 0, context), "the program");

  /* In the order of the header: the state, the sequence, the weights. */
  hlo_device_address in[rnn_scan_INPUTS], out[rnn_scan_OUTPUTS];
  for (int i = 0; i < rnn_scan_INPUTS; i++) {
    in[i] = new_array(rnn_scan_inputs[i].bytes, 500 + 100 * i, stream);
  }
  for (int i = 0; i < rnn_scan_OUTPUTS; i++) {
    need((int)cuMemAlloc(&out[i], rnn_scan_outputs[i].bytes), "memory of the device");
  }
  for (int piece = 0; piece < 2; piece++) {
    hlo_device_address state = in[0];
    if (rnn_scan_run(program, in, out, stream) != 0) {
      fprintf(stderr, "rnn_scan: %s\n", rnn_scan_error(program));
      return 1;
    }
    in[0] = out[0];
    out[0] = state;
  }
  need((int)cuMemcpyDtoHAsync(states, out[1], sizeof states, stream), "copying from the device");
  need((int)cuStreamSynchronize(stream), "running");
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) sum += states[i];
  printf("%s %s: %.5f %.5f ..., sum %.4f\n", rnn_scan_outputs[1].name, rnn_scan_outputs[1].type,
         states[0], states[1], sum);

  for (int i = 0; i < rnn_scan_INPUTS; i++) need((int)cuMemFree(in[i]), "freeing");
  for (int i = 0; i < rnn_scan_OUTPUTS; i++) need((int)cuMemFree(out[i]), "freeing");
  rnn_scan_destroy(program);
  need((int)cuStreamDestroy(stream), "freeing");
  need((int)cuCtxPopCurrent(&context), "freeing");
  need((int)cuDevicePrimaryCtxRelease(device), "freeing");
  return 0;
}
