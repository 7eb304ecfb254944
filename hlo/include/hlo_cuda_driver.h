/* The functions of the CUDA driver that compiled HLO programs call, so that they compile without
 * NVIDIA's toolkit. The driver, libcuda.so.1, is all that they are linked with.
 *
 * With HLO_USE_CUDA_H defined, the toolkit's cuda.h is included instead.
 */
#ifndef HLO_CUDA_DRIVER_H
#define HLO_CUDA_DRIVER_H

#ifdef HLO_USE_CUDA_H
#include <cuda.h>
#else

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or what went wrong: cuGetErrorString says it in words. */
typedef int CUresult;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;

/* Numbers of a device's properties, of a function's, and of streams' kinds. */
typedef int CUdevice_attribute;
typedef int CUfunction_attribute;
enum {
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_STREAM_NON_BLOCKING = 1
};

/* Functions of which there have been several forms: names in libraries have a number. */
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemFree cuMemFree_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuStreamDestroy cuStreamDestroy_v2

CUresult cuInit(unsigned int flags);
CUresult cuGetErrorString(CUresult error, const char **text);

CUresult cuDeviceGet(CUdevice *device, int number);
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuCtxPopCurrent(CUcontext *context);
CUresult cuCtxGetDevice(CUdevice *device);

CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree(CUdeviceptr address);
CUresult cuMemAllocHost(void **address, size_t bytes);
CUresult cuMemFreeHost(void *address);
CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int word, size_t count, CUstream stream);

CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamDestroy(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuLaunchKernel(CUfunction function, unsigned int blocks_x, unsigned int blocks_y,
                        unsigned int blocks_z, unsigned int threads_x, unsigned int threads_y,
                        unsigned int threads_z, unsigned int shared_bytes, CUstream stream,
                        void **parameters, void **extra);

#ifdef __cplusplus
}
#endif

#endif /* HLO_USE_CUDA_H */

#endif /* HLO_CUDA_DRIVER_H */
