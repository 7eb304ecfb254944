/* Runs a launch plan: what is below comes from hlo-tools, the same for every program; the tables
 * that it reads follow. */

/* Memory of the device: so many bytes from the beginning of a region. */
typedef struct hlo_gpu_place {
  uint32_t region;
  uint64_t offset;
} hlo_gpu_place;

/* Regions by number; then one for each argument, and one for each result. */
enum { HLO_CONSTANTS, HLO_ARENA, HLO_SCALARS, HLO_COUNTERS, HLO_ARRAYS };

/* A step is an entry of one of the tables. */
typedef struct hlo_gpu_step {
  uint32_t kind;
  uint32_t number;
} hlo_gpu_step;
enum { HLO_LAUNCH, HLO_COPY, HLO_LOOP, HLO_SWITCH, HLO_CHECK, HLO_ID, HLO_CALL };

/* Steps one after the other, from the first up to before the last. */
typedef struct hlo_gpu_steps {
  uint32_t first;
  uint32_t last;
} hlo_gpu_steps;

/* A grid of threads. The places from the first on are the kernel's parameters. */
typedef struct hlo_gpu_launch {
  uint32_t kernel;
  uint32_t blocks;
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t first;
  uint32_t count;
  const char *instruction;
} hlo_gpu_launch;

typedef struct hlo_gpu_copy {
  hlo_gpu_place target;
  hlo_gpu_place source;
  uint64_t bytes;
} hlo_gpu_copy;

/* The body runs `trips` times, or as long as the byte at `flag` is not 0 after the condition has
 * run. If it would never end, its first turn is `status` instead. */
typedef struct hlo_gpu_loop {
  hlo_gpu_steps condition;
  hlo_gpu_steps body;
  hlo_gpu_place flag;
  int64_t trips;
  int status;
} hlo_gpu_loop;

/* Runs one of `count` branches, by the integer at `index`; the last for one out of range. */
typedef struct hlo_gpu_switch {
  hlo_gpu_place index;
  uint32_t first;
  uint32_t count;
} hlo_gpu_switch;

/* The program ends with a status unless the integer `size` is in [0, bound]; both have 4 bytes, or
 * 8. */
typedef struct hlo_gpu_check {
  hlo_gpu_place size;
  hlo_gpu_place bound;
  uint32_t bytes;
  int status;
} hlo_gpu_check;

/* The number of the replica, or of the partition, that the program runs as. */
typedef struct hlo_gpu_id {
  hlo_gpu_place place;
  int is_partition;
} hlo_gpu_id;

/* Calls a function of the host, by its number in the table. Its arrays are those from the first on:
 * operands, then results. */
typedef struct hlo_gpu_call {
  const struct hlo_ffi_op *operation;
  uint32_t function;
  uint32_t first;
  uint32_t operand_count, result_count;
} hlo_gpu_call;

/* An array of the device, and where it is meanwhile in the program's memory of the host. */
typedef struct hlo_gpu_call_array {
  hlo_gpu_place place;
  uint64_t bytes;
  uint64_t at;
} hlo_gpu_call_array;

typedef struct hlo_gpu_kernel {
  const char *name;
  uint32_t shared_bytes;
} hlo_gpu_kernel;

/* A result that is in the memory of an argument. */
typedef struct hlo_gpu_alias {
  uint32_t result;
  uint32_t argument;
} hlo_gpu_alias;

typedef struct hlo_gpu_plan {
  const void *code;
  /* Ten times the compute capability: of the first device that runs the code, and of the last. */
  int least_capability, most_capability;
  const hlo_gpu_step *steps;
  hlo_gpu_steps main;
  const hlo_gpu_launch *launches;
  const hlo_gpu_place *places;
  const hlo_gpu_copy *copies;
  const hlo_gpu_loop *loops;
  const hlo_gpu_switch *switches;
  const hlo_gpu_steps *branches;
  const hlo_gpu_check *checks;
  const hlo_gpu_id *ids;
  const hlo_gpu_call *calls;
  const hlo_gpu_call_array *call_arrays;
  uint32_t most_call_arrays;
  uint64_t host_bytes;
  const hlo_gpu_kernel *kernels;
  uint32_t kernel_count, most_parameters;
  const hlo_array *inputs, *outputs;
  uint32_t input_count, output_count;
  const hlo_gpu_alias *aliases;
  uint32_t alias_count;
  const void *constants;
  uint64_t constant_bytes, arena_bytes, scalar_bytes, counter_bytes;
  const char *const *messages;
  int message_count;
} hlo_gpu_plan;

typedef struct hlo_gpu_program {
  const hlo_gpu_plan *plan;
  CUdevice device;
  CUcontext context;
  int has_context;
  CUmodule module;
  CUfunction *functions;
  /* Of calls with arrays of the host, and the memory of those arrays. */
  CUstream stream;
  CUdeviceptr arrays;
  /* Constants, temporary memory and scalars. */
  CUdeviceptr memory;
  /* The addresses of all regions, and of a launch's parameters. */
  CUdeviceptr *regions;
  CUdeviceptr *addresses;
  void **parameters;
  /* Memory of the host that copies need not stage: a scalar, then the arrays of a call. */
  unsigned char *host_memory;
  void **call_arrays;
  /* Who runs the program, and its functions; null if it needs none. */
  const struct hlo_host *host;
  char message[512];
} hlo_gpu_program;

/* The first status of a message of the plan; the next one is one less. */
#define HLO_FIRST_MESSAGE (-16)

static const char *hlo_gpu_text(const hlo_gpu_plan *plan, int status) {
  const char *text = NULL;
  int message = HLO_FIRST_MESSAGE - status;
  switch (status) {
    case 0: return "no error";
    case HLO_BAD_PROCESSOR: return "the device does not run code of this architecture";
    case HLO_NO_MEMORY: return "no memory of the host";
    case HLO_BAD_ARGUMENT: return "an address is null, or not aligned";
#ifdef HLO_CALL_FAILED
    case HLO_CALL_FAILED: return "a function of the host fails";
#endif
    default: break;
  }
  if (message >= 0 && message < plan->message_count) return plan->messages[message];
  if (status > 0 && cuGetErrorString((CUresult)status, &text) == CUDA_SUCCESS && text != NULL) {
    return text;
  }
  return "unknown error";
}

/* Notes what went wrong, unless that is known already; returns the status. */
static int hlo_gpu_failed(hlo_gpu_program *p, int status, const char *what, const char *name) {
  if (p->message[0] == 0) {
    snprintf(p->message, sizeof p->message, "%s%s: %s", what, name, hlo_gpu_text(p->plan, status));
  }
  return status;
}

static uint64_t hlo_gpu_padded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

static CUdeviceptr hlo_gpu_address(const hlo_gpu_program *p, hlo_gpu_place place) {
  return p->regions[place.region] + place.offset;
}

/* --- running ---------------------------------------------------------------------------------- */

static int hlo_gpu_run_launch(hlo_gpu_program *p, const hlo_gpu_launch *launch, CUstream stream) {
  const hlo_gpu_plan *plan = p->plan;
  int status;
  for (uint32_t i = 0; i < launch->count; i++) {
    p->addresses[i] = hlo_gpu_address(p, plan->places[launch->first + i]);
  }
  status = (int)cuLaunchKernel(p->functions[launch->kernel], launch->blocks, 1, 1, launch->threads,
                               1, 1, launch->shared_bytes, stream, p->parameters, NULL);
  return status == 0 ? 0 : hlo_gpu_failed(p, status, "the kernel of ", launch->instruction);
}

/* Reads a few bytes when all launches before are done. */
static int hlo_gpu_read(hlo_gpu_program *p, hlo_gpu_place place, size_t bytes, CUstream stream,
                        void *value) {
  int status = (int)cuMemcpyDtoHAsync(p->host_memory, hlo_gpu_address(p, place), bytes, stream);
  if (status == 0) status = (int)cuStreamSynchronize(stream);
  if (status != 0) return hlo_gpu_failed(p, status, "reading a scalar", "");
  memcpy(value, p->host_memory, bytes);
  return 0;
}

static int hlo_gpu_read_integer(hlo_gpu_program *p, hlo_gpu_place place, uint32_t bytes,
                                CUstream stream, int64_t *value) {
  int32_t narrow = 0;
  int status;
  if (bytes == sizeof *value) return hlo_gpu_read(p, place, sizeof *value, stream, value);
  status = hlo_gpu_read(p, place, sizeof narrow, stream, &narrow);
  *value = narrow;
  return status;
}

static int hlo_gpu_run_steps(hlo_gpu_program *p, hlo_gpu_steps steps, CUstream stream);

static int hlo_gpu_run_loop(hlo_gpu_program *p, const hlo_gpu_loop *loop, CUstream stream) {
  int status = 0;
  if (loop->trips >= 0) {
    for (int64_t i = 0; i < loop->trips && status == 0; i++) {
      status = hlo_gpu_run_steps(p, loop->body, stream);
    }
    return status;
  }
  for (;;) {
    unsigned char goes_on = 0;
    status = hlo_gpu_run_steps(p, loop->condition, stream);
    if (status == 0) status = hlo_gpu_read(p, loop->flag, 1, stream, &goes_on);
    if (status != 0 || goes_on == 0) return status;
    if (loop->status != 0) return hlo_gpu_failed(p, loop->status, "", "loop");
    status = hlo_gpu_run_steps(p, loop->body, stream);
    if (status != 0) return status;
  }
}

static int hlo_gpu_run_switch(hlo_gpu_program *p, const hlo_gpu_switch *choice, CUstream stream) {
  int64_t index = 0;
  int status = hlo_gpu_read_integer(p, choice->index, 4, stream, &index);
  if (status != 0) return status;
  if (index < 0 || index >= (int64_t)choice->count) index = (int64_t)choice->count - 1;
  return hlo_gpu_run_steps(p, p->plan->branches[choice->first + (uint32_t)index], stream);
}

static int hlo_gpu_run_check(hlo_gpu_program *p, const hlo_gpu_check *check, CUstream stream) {
  int64_t size = 0, bound = 0;
  int status = hlo_gpu_read_integer(p, check->size, check->bytes, stream, &size);
  if (status == 0) status = hlo_gpu_read_integer(p, check->bound, check->bytes, stream, &bound);
  if (status != 0 || (size >= 0 && size <= bound)) return status;
  return hlo_gpu_failed(p, check->status, "", "size");
}

static int hlo_gpu_run_copy(hlo_gpu_program *p, const hlo_gpu_copy *copy, CUstream stream) {
  CUdeviceptr target = hlo_gpu_address(p, copy->target), source = hlo_gpu_address(p, copy->source);
  int status = (int)cuMemcpyDtoDAsync(target, source, copy->bytes, stream);
  return status == 0 ? 0 : hlo_gpu_failed(p, status, "a copy", "");
}

#ifdef HLO_FFI_H
/* Only programs that use the host have its declarations. */

static int hlo_gpu_run_id(hlo_gpu_program *p, const hlo_gpu_id *id, CUstream stream) {
  uint32_t number = 0;
  int status;
  if (p->host != NULL) number = id->is_partition ? p->host->partition_id : p->host->replica_id;
  status = (int)cuMemsetD32Async(hlo_gpu_address(p, id->place), number, 1, stream);
  return status == 0 ? 0 : hlo_gpu_failed(p, status, "writing the number of the device", "");
}

/* Calls a function on arrays that are in the host's memory. */
static int hlo_gpu_call_function(hlo_gpu_program *p, const hlo_gpu_call *call) {
  const hlo_host *host = p->host;
  const hlo_ffi_import *import = host == NULL ? NULL : &host->imports[call->function];
  hlo_ffi_call made = {(int64_t)sizeof made, NULL, call->operation, NULL, NULL, NULL, 0};
  const char *why = "there is no function for it";
  if (import != NULL && import->function != NULL) {
    made.state = import->state;
    made.operands = (const void *const *)p->call_arrays;
    made.results = p->call_arrays + call->operand_count;
    made.message = host->message;
    made.message_size = host->message_size;
    if (made.message != NULL && made.message_size > 0) made.message[0] = 0;
    if (import->function(&made) == 0) return 0;
    why = made.message != NULL && made.message_size > 0 && made.message[0] != 0
              ? made.message
              : "the function fails";
  }
  snprintf(p->message, sizeof p->message, "%s: %s", call->operation->target, why);
  return HLO_CALL_FAILED;
}

static int hlo_gpu_run_call(hlo_gpu_program *p, const hlo_gpu_call *call, CUstream stream) {
  const hlo_gpu_call_array *arrays = &p->plan->call_arrays[call->first];
  const hlo_gpu_call_array *results = arrays + call->operand_count;
  int status = 0;
  for (uint32_t i = 0; i < call->operand_count + call->result_count; i++) {
    p->call_arrays[i] = p->host_memory + arrays[i].at;
  }
  for (uint32_t i = 0; i < call->operand_count && status == 0; i++) {
    if (arrays[i].bytes == 0) continue;
    status = (int)cuMemcpyDtoHAsync(p->host_memory + arrays[i].at,
                                    hlo_gpu_address(p, arrays[i].place), arrays[i].bytes, stream);
  }
  /* Copies of an earlier call from the same memory have ended then, too. */
  if (status == 0) status = (int)cuStreamSynchronize(stream);
  if (status != 0) return hlo_gpu_failed(p, status, "operands of ", call->operation->target);
  status = hlo_gpu_call_function(p, call);
  if (status != 0) return status;
  for (uint32_t i = 0; i < call->result_count && status == 0; i++) {
    if (results[i].bytes == 0) continue;
    status = (int)cuMemcpyHtoDAsync(hlo_gpu_address(p, results[i].place),
                                    p->host_memory + results[i].at, results[i].bytes, stream);
  }
  return status == 0 ? 0 : hlo_gpu_failed(p, status, "results of ", call->operation->target);
}
#endif

static int hlo_gpu_run_steps(hlo_gpu_program *p, hlo_gpu_steps steps, CUstream stream) {
  const hlo_gpu_plan *plan = p->plan;
  int status = 0;
  for (uint32_t i = steps.first; i < steps.last && status == 0; i++) {
    hlo_gpu_step step = plan->steps[i];
    switch (step.kind) {
      case HLO_LAUNCH: status = hlo_gpu_run_launch(p, &plan->launches[step.number], stream); break;
      case HLO_COPY: status = hlo_gpu_run_copy(p, &plan->copies[step.number], stream); break;
      case HLO_LOOP: status = hlo_gpu_run_loop(p, &plan->loops[step.number], stream); break;
      case HLO_SWITCH: status = hlo_gpu_run_switch(p, &plan->switches[step.number], stream); break;
#ifdef HLO_FFI_H
      case HLO_ID: status = hlo_gpu_run_id(p, &plan->ids[step.number], stream); break;
      case HLO_CALL: status = hlo_gpu_run_call(p, &plan->calls[step.number], stream); break;
#endif
      default: status = hlo_gpu_run_check(p, &plan->checks[step.number], stream); break;
    }
  }
  return status;
}

/* Sets to 0 what blocks count in. Launches leave it so, unless they fail. */
static int hlo_gpu_clear_counters(hlo_gpu_program *p, CUstream stream) {
  if (p->plan->counter_bytes == 0) return 0;
  return (int)cuMemsetD32Async(p->regions[HLO_COUNTERS], 0, p->plan->counter_bytes / 4, stream);
}

/* Runs on arrays of the device, whose addresses are in the regions. */
static int hlo_gpu_run_plan(hlo_gpu_program *p, CUstream stream) {
  const hlo_gpu_plan *plan = p->plan;
  CUdeviceptr *arrays = p->regions + HLO_ARRAYS, *results = arrays + plan->input_count;
  int status;
  for (uint32_t i = 0; i < plan->alias_count; i++) {
    hlo_gpu_alias alias = plan->aliases[i];
    size_t bytes = plan->outputs[alias.result].bytes;
    status = 0;
    if (arrays[alias.argument] != results[alias.result] && bytes != 0) {
      status = (int)cuMemcpyDtoDAsync(results[alias.result], arrays[alias.argument], bytes, stream);
    }
    if (status != 0) {
      return hlo_gpu_failed(p, status, "a copy of ", plan->inputs[alias.argument].name);
    }
    arrays[alias.argument] = results[alias.result];
  }
  status = hlo_gpu_run_steps(p, plan->main, stream);
  if (status != 0) (void)hlo_gpu_clear_counters(p, stream);
  return status;
}

/* Begins a call on tables of arrays, which are null where there are none. */
static int hlo_gpu_begin(hlo_gpu_program *p, const void *in, const void *out,
                         const struct hlo_host *host) {
  const hlo_gpu_plan *plan;
  if (p == NULL) return HLO_BAD_ARGUMENT;
  plan = p->plan;
  p->host = host;
  p->message[0] = 0;
  if ((in != NULL || plan->input_count == 0) && (out != NULL || plan->output_count == 0)) return 0;
  return hlo_gpu_failed(p, HLO_BAD_ARGUMENT, "a table of arrays", "");
}

/* Lets the calling thread use the device; what was current comes back with hlo_gpu_leave. */
static int hlo_gpu_enter(hlo_gpu_program *p) {
  int status;
  p->message[0] = 0;
  status = (int)cuCtxPushCurrent(p->context);
  return status == 0 ? 0 : hlo_gpu_failed(p, status, "the context", "");
}

static void hlo_gpu_leave(void) {
  CUcontext context;
  (void)cuCtxPopCurrent(&context);
}

/* Kernels read and write 16 bytes at a time. */
static int hlo_gpu_is_bad(CUdeviceptr address) { return address == 0 || address % 16 != 0; }

static int hlo_gpu_run(hlo_gpu_program *p, const hlo_device_address *in,
                       const hlo_device_address *out, CUstream stream,
                       const struct hlo_host *host) {
  const hlo_gpu_plan *plan;
  int status = hlo_gpu_begin(p, in, out, host);
  if (status == 0) status = hlo_gpu_enter(p);
  if (status != 0) return status;
  plan = p->plan;
  for (uint32_t i = 0; i < plan->input_count + plan->output_count; i++) {
    int is_input = i < plan->input_count;
    uint32_t n = is_input ? i : i - plan->input_count;
    const hlo_array *array = is_input ? &plan->inputs[n] : &plan->outputs[n];
    p->regions[HLO_ARRAYS + i] = is_input ? in[n] : out[n];
    if (array->bytes != 0 && hlo_gpu_is_bad(p->regions[HLO_ARRAYS + i]) && status == 0) {
      status = hlo_gpu_failed(p, HLO_BAD_ARGUMENT, "array ", array->name);
    }
  }
  if (status == 0) status = hlo_gpu_run_plan(p, stream);
  hlo_gpu_leave();
  return status;
}

/* --- arrays of the host ----------------------------------------------------------------------- */

/* Places the arrays in the program's own memory, which is allocated the first time. */
static int hlo_gpu_place_arrays(hlo_gpu_program *p) {
  const hlo_gpu_plan *plan = p->plan;
  CUdeviceptr at;
  if (p->arrays == 0) {
    uint64_t bytes = 0;
    int status;
    for (uint32_t i = 0; i < plan->input_count; i++) {
      bytes += hlo_gpu_padded(plan->inputs[i].bytes);
    }
    for (uint32_t i = 0; i < plan->output_count; i++) {
      bytes += hlo_gpu_padded(plan->outputs[i].bytes);
    }
    status = (int)cuMemAlloc(&p->arrays, bytes != 0 ? bytes : 1);
    if (status != 0) {
      p->arrays = 0;
      return hlo_gpu_failed(p, status, "memory for arguments and results", "");
    }
  }
  at = p->arrays;
  for (uint32_t i = 0; i < plan->input_count; i++) {
    p->regions[HLO_ARRAYS + i] = at;
    at += hlo_gpu_padded(plan->inputs[i].bytes);
  }
  for (uint32_t i = 0; i < plan->output_count; i++) {
    p->regions[HLO_ARRAYS + plan->input_count + i] = at;
    at += hlo_gpu_padded(plan->outputs[i].bytes);
  }
  return 0;
}

static int hlo_gpu_copy_arguments(hlo_gpu_program *p, const void *const *in) {
  const hlo_gpu_plan *plan = p->plan;
  for (uint32_t i = 0; i < plan->input_count; i++) {
    size_t bytes = plan->inputs[i].bytes;
    int status = 0;
    if (bytes == 0) continue;
    if (in[i] == NULL) return hlo_gpu_failed(p, HLO_BAD_ARGUMENT, "array ", plan->inputs[i].name);
    status = (int)cuMemcpyHtoDAsync(p->regions[HLO_ARRAYS + i], in[i], bytes, p->stream);
    if (status != 0) return hlo_gpu_failed(p, status, "copying ", plan->inputs[i].name);
  }
  return 0;
}

static int hlo_gpu_copy_results(hlo_gpu_program *p, void *const *out) {
  const hlo_gpu_plan *plan = p->plan;
  const CUdeviceptr *results = p->regions + HLO_ARRAYS + plan->input_count;
  for (uint32_t i = 0; i < plan->output_count; i++) {
    size_t bytes = plan->outputs[i].bytes;
    int status = 0;
    if (bytes == 0) continue;
    if (out[i] == NULL) return hlo_gpu_failed(p, HLO_BAD_ARGUMENT, "array ", plan->outputs[i].name);
    status = (int)cuMemcpyDtoHAsync(out[i], results[i], bytes, p->stream);
    if (status != 0) return hlo_gpu_failed(p, status, "copying ", plan->outputs[i].name);
  }
  return 0;
}

static int hlo_gpu_run_on_host(hlo_gpu_program *p, const void *const *in, void *const *out,
                               const struct hlo_host *host) {
  int finished, status = hlo_gpu_begin(p, in, out, host);
  if (status == 0) status = hlo_gpu_enter(p);
  if (status != 0) return status;
  status = hlo_gpu_place_arrays(p);
  if (status == 0) status = hlo_gpu_copy_arguments(p, in);
  if (status == 0) status = hlo_gpu_run_plan(p, p->stream);
  if (status == 0) status = hlo_gpu_copy_results(p, out);
  /* The caller's memory is free of copies also where something has failed. */
  finished = (int)cuStreamSynchronize(p->stream);
  if (status == 0 && finished != 0) status = hlo_gpu_failed(p, finished, "running", "");
  hlo_gpu_leave();
  return status;
}

/* --- creation --------------------------------------------------------------------------------- */

static void hlo_gpu_destroy(hlo_gpu_program *p) {
  if (p == NULL) return;
  if (p->context != NULL && cuCtxPushCurrent(p->context) == CUDA_SUCCESS) {
    if (p->stream != NULL) {
      (void)cuStreamSynchronize(p->stream);
      (void)cuStreamDestroy(p->stream);
    }
    if (p->arrays != 0) (void)cuMemFree(p->arrays);
    if (p->memory != 0) (void)cuMemFree(p->memory);
    if (p->host_memory != NULL) (void)cuMemFreeHost(p->host_memory);
    if (p->module != NULL) (void)cuModuleUnload(p->module);
    hlo_gpu_leave();
  }
  if (p->has_context) (void)cuDevicePrimaryCtxRelease(p->device);
  free(p->functions);
  free(p->regions);
  free(p->addresses);
  free(p->parameters);
  free(p->call_arrays);
  free(p);
}

static int hlo_gpu_allocate_tables(hlo_gpu_program *p) {
  const hlo_gpu_plan *plan = p->plan;
  size_t arrays = (size_t)plan->input_count + plan->output_count;
  size_t parameters = plan->most_parameters;
  p->functions = calloc(plan->kernel_count + (size_t)1, sizeof *p->functions);
  p->regions = calloc(HLO_ARRAYS + arrays, sizeof *p->regions);
  p->addresses = calloc(parameters + 1, sizeof *p->addresses);
  p->parameters = calloc(parameters + 1, sizeof *p->parameters);
  p->call_arrays = calloc(plan->most_call_arrays + (size_t)1, sizeof *p->call_arrays);
  if (!p->functions || !p->regions || !p->addresses || !p->parameters || !p->call_arrays) {
    return HLO_NO_MEMORY;
  }
  for (size_t i = 0; i < parameters; i++) p->parameters[i] = &p->addresses[i];
  return 0;
}

static int hlo_gpu_find_device(hlo_gpu_program *p, int device, CUcontext context) {
  const hlo_gpu_plan *plan = p->plan;
  int status = (int)cuInit(0), major = 0, minor = 0, capability;
  if (status != 0) return status;
  if (context == NULL) {
    status = (int)cuDeviceGet(&p->device, device);
    if (status == 0) status = (int)cuDevicePrimaryCtxRetain(&context, p->device);
    if (status != 0) return status;
    p->has_context = 1;
  }
  p->context = context;
  status = hlo_gpu_enter(p);
  if (status != 0) return status;
  status = (int)cuCtxGetDevice(&p->device);
  if (status == 0) {
    status = (int)cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                       p->device);
  }
  if (status == 0) {
    status = (int)cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                       p->device);
  }
  hlo_gpu_leave();
  capability = 10 * major + minor;
  if (status != 0) return status;
  return capability < plan->least_capability || capability > plan->most_capability
             ? HLO_BAD_PROCESSOR
             : 0;
}

static int hlo_gpu_load(hlo_gpu_program *p) {
  const hlo_gpu_plan *plan = p->plan;
  int status = plan->kernel_count == 0 ? 0 : (int)cuModuleLoadData(&p->module, plan->code);
  for (uint32_t i = 0; i < plan->kernel_count && status == 0; i++) {
    const hlo_gpu_kernel *kernel = &plan->kernels[i];
    status = (int)cuModuleGetFunction(&p->functions[i], p->module, kernel->name);
    if (status == 0 && kernel->shared_bytes != 0) {
      status = (int)cuFuncSetAttribute(p->functions[i],
                                       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       (int)kernel->shared_bytes);
    }
  }
  return status;
}

/* The device memory of a program. */
static uint64_t hlo_gpu_device_bytes(const hlo_gpu_plan *plan) {
  return hlo_gpu_padded(plan->constant_bytes) + hlo_gpu_padded(plan->arena_bytes) +
         hlo_gpu_padded(plan->scalar_bytes) + hlo_gpu_padded(plan->counter_bytes);
}

static int hlo_gpu_allocate_host(hlo_gpu_program *p) {
  void *memory = NULL;
  int status = (int)cuMemAllocHost(&memory, p->plan->host_bytes);
  if (status == 0) p->host_memory = memory;
  return status;
}

static int hlo_gpu_allocate(hlo_gpu_program *p) {
  const hlo_gpu_plan *plan = p->plan;
  uint64_t bytes = hlo_gpu_device_bytes(plan);
  int status = (int)cuStreamCreate(&p->stream, CU_STREAM_NON_BLOCKING);
  if (status == 0) status = hlo_gpu_allocate_host(p);
  if (status == 0 && bytes != 0) status = (int)cuMemAlloc(&p->memory, bytes);
  if (status != 0) return status;
  p->regions[HLO_CONSTANTS] = p->memory;
  p->regions[HLO_ARENA] = p->regions[HLO_CONSTANTS] + hlo_gpu_padded(plan->constant_bytes);
  p->regions[HLO_SCALARS] = p->regions[HLO_ARENA] + hlo_gpu_padded(plan->arena_bytes);
  p->regions[HLO_COUNTERS] = p->regions[HLO_SCALARS] + hlo_gpu_padded(plan->scalar_bytes);
  if (plan->constant_bytes != 0) {
    status = (int)cuMemcpyHtoDAsync(p->memory, plan->constants, plan->constant_bytes, p->stream);
  }
  if (status == 0) status = hlo_gpu_clear_counters(p, p->stream);
  if (status == 0) status = (int)cuStreamSynchronize(p->stream);
  return status;
}

static int hlo_gpu_create(hlo_gpu_program **program, const hlo_gpu_plan *plan, int device,
                          CUcontext context) {
  hlo_gpu_program *p;
  int status;
  if (program == NULL) return HLO_BAD_ARGUMENT;
  *program = NULL;
  p = calloc(1, sizeof *p);
  if (p == NULL) return HLO_NO_MEMORY;
  p->plan = plan;
  status = hlo_gpu_allocate_tables(p);
  if (status == 0) status = hlo_gpu_find_device(p, device, context);
  if (status == 0) status = hlo_gpu_enter(p);
  if (status == 0) {
    status = hlo_gpu_load(p);
    if (status == 0) status = hlo_gpu_allocate(p);
    hlo_gpu_leave();
  }
  if (status != 0) {
    hlo_gpu_destroy(p);
    return status;
  }
  *program = p;
  return 0;
}
