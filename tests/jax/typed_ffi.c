/* Functions of XLA's typed FFI, for tests/jax/test_typed_ffi.py. */
#include <string.h>

#include "xla/ffi/api/c_api.h"

static XLA_FFI_Error* fail(XLA_FFI_CallFrame* frame, const char* message) {
  XLA_FFI_Error_Create_Args args = {sizeof args, NULL, message, XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return frame->api->XLA_FFI_Error_Create(&args);
}

static void* attribute(XLA_FFI_Attrs* attrs, const char* name, int type) {
  for (int64_t i = 0; i < attrs->size; ++i) {
    XLA_FFI_ByteSpan* span = attrs->names[i];
    if (span->len == strlen(name) && !memcmp(span->ptr, name, span->len))
      return attrs->types[i] == type ? attrs->attrs[i] : NULL;
  }
  return NULL;
}

/* XLA asks a handler what it is when it is registered: then there is no call. */
static int is_question(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (!extension || extension->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  metadata->traits = 0;
  return 1;
}

static XLA_FFI_Buffer* arg(XLA_FFI_CallFrame* frame, int n) { return frame->args.args[n]; }
static XLA_FFI_Buffer* ret(XLA_FFI_CallFrame* frame, int n) { return frame->rets.rets[n]; }

/* y[i] = by * x[i] + sizes[last], in memory order; counts what it got. */
XLA_FFI_Error* scale(XLA_FFI_CallFrame* frame) {
  if (is_question(frame)) return NULL;
  XLA_FFI_Scalar* by = attribute(&frame->attrs, "by", XLA_FFI_AttrType_SCALAR);
  XLA_FFI_Array* sizes = attribute(&frame->attrs, "sizes", XLA_FFI_AttrType_ARRAY);
  XLA_FFI_ByteSpan* name = attribute(&frame->attrs, "name", XLA_FFI_AttrType_STRING);
  XLA_FFI_Attrs* inner = attribute(&frame->attrs, "inner", XLA_FFI_AttrType_DICTIONARY);
  if (!by || by->dtype != XLA_FFI_DataType_F32) return fail(frame, "by is no f32");
  if (!sizes || sizes->dtype != XLA_FFI_DataType_S64) return fail(frame, "no sizes");
  if (!name || name->len != 2 || memcmp(name->ptr, "hi", 2)) return fail(frame, "no name");
  if (!inner || !attribute(inner, "flag", XLA_FFI_AttrType_SCALAR)) return fail(frame, "no flag");
  for (int64_t i = 1; i < frame->attrs.size; ++i)
    if (strcmp(frame->attrs.names[i - 1]->ptr, frame->attrs.names[i]->ptr) > 0)
      return fail(frame, "names are not in order");
  float factor = *(float*)by->value;
  if (factor < 0) return fail(frame, "by is negative");
  XLA_FFI_Buffer *x = arg(frame, 0), *y = ret(frame, 0);
  int64_t count = 1;
  for (int64_t d = 0; d < x->rank; ++d) count *= x->dims[d];
  for (int64_t i = 0; i < count; ++i)
    ((float*)y->data)[i] = factor * ((float*)x->data)[i] + ((int64_t*)sizes->data)[sizes->size - 1];
  *(int32_t*)ret(frame, 1)->data = (int32_t)(100 * x->rank + 10 * x->dims[0] + sizes->size);
  return NULL;
}

/* The state is a counter, which begins at the attribute. */
static XLA_FFI_TypeId counter_type = {7};

XLA_FFI_Error* make_counter(XLA_FFI_CallFrame* frame) {
  if (is_question(frame)) return NULL;
  static int32_t counters[8], made;
  XLA_FFI_Scalar* from = attribute(&frame->attrs, "from", XLA_FFI_AttrType_SCALAR);
  int32_t* counter = &counters[made++ % 8];
  *counter = *(int32_t*)from->value;
  XLA_FFI_State_Set_Args args = {sizeof args, NULL, frame->ctx, frame->stage, &counter_type, counter};
  return frame->api->XLA_FFI_State_Set(&args);
}

static void increment(void* counter) { ++*(int32_t*)counter; }

XLA_FFI_Error* count(XLA_FFI_CallFrame* frame) {
  if (is_question(frame)) return NULL;
  const XLA_FFI_Api* api = frame->api;
  XLA_FFI_State_Get_Args state = {
      sizeof state, NULL, frame->ctx, XLA_FFI_ExecutionStage_INSTANTIATE, &counter_type, NULL};
  XLA_FFI_Error* error = api->XLA_FFI_State_Get(&state);
  if (error) return error;
  XLA_FFI_DeviceMemory_Allocate_Args memory = {sizeof memory, NULL, frame->ctx, 100, 256, NULL};
  error = api->XLA_FFI_DeviceMemory_Allocate(&memory);
  if (error || (uintptr_t)memory.data % 256) return fail(frame, "no memory");
  memset(memory.data, 1, 100);
  XLA_FFI_DeviceMemory_Free_Args release = {sizeof release, NULL, frame->ctx, 100, memory.data};
  api->XLA_FFI_DeviceMemory_Free(&release);
  XLA_FFI_ThreadPool_Schedule_Args task = {sizeof task, NULL, frame->ctx, increment, state.state};
  api->XLA_FFI_ThreadPool_Schedule(&task);
  *(int32_t*)ret(frame, 0)->data = *(int32_t*)state.state;
  return NULL;
}

/* A result that is there later, or an error. */
XLA_FFI_Error* later(XLA_FFI_CallFrame* frame) {
  if (is_question(frame)) return NULL;
  const XLA_FFI_Api* api = frame->api;
  XLA_FFI_Future_Create_Args made = {sizeof made, NULL, NULL};
  api->XLA_FFI_Future_Create(&made);
  frame->future = made.future;
  float x = *(float*)arg(frame, 0)->data;
  if (x < 0) {
    XLA_FFI_Future_SetError_Args bad = {sizeof bad, NULL, made.future, fail(frame, "too late")};
    return api->XLA_FFI_Future_SetError(&bad);
  }
  *(float*)ret(frame, 0)->data = x + 1;
  XLA_FFI_Future_SetAvailable_Args done = {sizeof done, NULL, made.future};
  return api->XLA_FFI_Future_SetAvailable(&done);
}

/* An error of the runtime's own. */
XLA_FFI_Error* ask_for_stream(XLA_FFI_CallFrame* frame) {
  if (is_question(frame)) return NULL;
  XLA_FFI_Stream_Get_Args args = {sizeof args, NULL, frame->ctx, NULL};
  return frame->api->XLA_FFI_Stream_Get(&args);
}

/* With the interface that came before. */
void untyped(float* result, const float** operands) { result[0] = operands[0][0] + 2; }
