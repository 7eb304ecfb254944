/* Functions that compiled HLO calls: custom calls, queues, random state.
 *
 * A program compiled from HLO refers to external functions by number. Its caller passes a table of
 * them, an hlo_host, and the program calls
 *
 *     int32_t function(hlo_ffi_call *call);
 *
 * with the addresses of operands and results and a description of the operation. The function
 * returns 0 on success; otherwise it writes a message to call->message (see hlo_ffi_fail) and
 * returns another value, which ends the program.
 *
 * A custom call with api_version=API_VERSION_TYPED_FFI calls a function of this type. The older
 * versions call functions of the types xla_custom_call_*, through the adapters at the end of this
 * file. From Python: `hlo-run --load lib.so`, or `Host(libraries=["lib.so"])`.
 *
 * Arrays are dense, with the dimensions in the order of the layout of the operation's shapes. pred
 * and integers of less than a byte take a byte each. Operands and results are the arrays of the
 * shapes' tuples in order, without tokens. An operand's memory must not be written unless the
 * operation declares that a result aliases it, and none of the memory may be used after the
 * function has returned.
 */
#ifndef HLO_FFI_H
#define HLO_FFI_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, numbered as XLA's PrimitiveType. */
enum {
  HLO_FFI_PRED = 1,
  HLO_FFI_S8 = 2,
  HLO_FFI_S16 = 3,
  HLO_FFI_S32 = 4,
  HLO_FFI_S64 = 5,
  HLO_FFI_U8 = 6,
  HLO_FFI_U16 = 7,
  HLO_FFI_U32 = 8,
  HLO_FFI_U64 = 9,
  HLO_FFI_F16 = 10,
  HLO_FFI_F32 = 11,
  HLO_FFI_F64 = 12,
  HLO_FFI_C64 = 15,
  HLO_FFI_BF16 = 16,
  HLO_FFI_C128 = 18,
  HLO_FFI_F8E5M2 = 19,
  HLO_FFI_F8E4M3FN = 20,
  HLO_FFI_S4 = 21,
  HLO_FFI_U4 = 22,
  HLO_FFI_F8E4M3B11FNUZ = 23,
  HLO_FFI_F8E5M2FNUZ = 24,
  HLO_FFI_F8E4M3FNUZ = 25,
  HLO_FFI_S2 = 26,
  HLO_FFI_U2 = 27,
  HLO_FFI_F8E4M3 = 28,
  HLO_FFI_F8E3M4 = 29,
  HLO_FFI_S1 = 30,
  HLO_FFI_U1 = 31,
  HLO_FFI_F4E2M1FN = 32,
  HLO_FFI_F8E8M0FNU = 33
};

/* The shape of an array. */
typedef struct hlo_ffi_shape {
  int32_t type; /* HLO_FFI_F32, ... */
  int32_t rank;
  const int64_t *dims;
  const int64_t *minor_to_major; /* the dimensions, fastest-varying first */
} hlo_ffi_shape;

enum {
  HLO_FFI_ATTR_BOOL = 1,
  HLO_FFI_ATTR_INTEGER = 2,
  HLO_FFI_ATTR_FLOAT = 3,
  HLO_FFI_ATTR_STRING = 4,
  HLO_FFI_ATTR_ARRAY = 5,
  HLO_FFI_ATTR_DICTIONARY = 6
};

/* An attribute of the operation, from its backend_config. */
typedef struct hlo_ffi_attribute {
  const char *name;
  int32_t kind;  /* HLO_FFI_ATTR_* */
  int32_t type;  /* the declared type of a number, or of an array's elements */
  int64_t count; /* bytes of a string, elements of an array, attributes of a dictionary */
  union {
    int64_t integer; /* also 0 or 1 for a bool; numbers of 64 bits without sign wrap */
    double real;
    const char *string; /* ends with a zero byte that count does not count */
    const int64_t *integers;
    const double *reals; /* where type is a floating-point type */
    const struct hlo_ffi_attribute *attributes;
  } value;
} hlo_ffi_attribute;

/* The static description of an operation. */
typedef struct hlo_ffi_op {
  const char *target; /* custom_call_target, or the opcode of any other operation */
  const char *config; /* backend_config as it is written; ends with a zero byte */
  int64_t config_size;
  int32_t api_version; /* 1 to 4; 0 for an operation that is no custom call */
  int32_t result_is_tuple;
  int64_t num_operands;
  const hlo_ffi_shape *operands;
  int64_t num_results;
  const hlo_ffi_shape *results;
  int64_t num_attributes;
  const hlo_ffi_attribute *attributes;
} hlo_ffi_op;

/* One call. */
typedef struct hlo_ffi_call {
  int64_t size; /* of this struct; later versions may append to it */
  void *state;  /* the state next to the function in the table */
  const hlo_ffi_op *op;
  const void *const *operands;
  void *const *results;
  char *message; /* where to write an error message */
  int64_t message_size;
} hlo_ffi_call;

typedef int32_t (*hlo_ffi_function)(hlo_ffi_call *call);

struct hlo_collectives; /* see hlo_collectives.h */

typedef struct hlo_ffi_import {
  hlo_ffi_function function;
  void *state;
} hlo_ffi_import;

/* The table that a program gets from its caller. `collectives` may be NULL for a program that needs
 * no other device. `imports` has an entry for each function that it calls, in the order in which
 * the program's header lists them. */
typedef struct hlo_host {
  char *message; /* memory for the message of a call that fails */
  int64_t message_size;
  uint32_t replica_id;
  uint32_t partition_id;
  const struct hlo_collectives *collectives;
  hlo_ffi_import imports[1];
} hlo_host;

/* Write a message and return the status of a failed function. */
static inline int32_t hlo_ffi_fail(hlo_ffi_call *call, const char *message, size_t size) {
  if (call->message != NULL && call->message_size > 0) {
    size_t room = (size_t)call->message_size - 1;
    size_t n = size < room ? size : room;
    memcpy(call->message, message, n);
    call->message[n] = 0;
  }
  return 1;
}

/* Return an attribute by name, or NULL. */
static inline const hlo_ffi_attribute *hlo_ffi_find(const hlo_ffi_op *op, const char *name) {
  for (int64_t i = 0; i < op->num_attributes; ++i) {
    if (strcmp(op->attributes[i].name, name) == 0) {
      return &op->attributes[i];
    }
  }
  return NULL;
}

/* --- the older versions of custom calls --------------------------------------------------------
 *
 * `out` is the address of the result, or of an array of addresses where the result is a tuple.
 */
#ifndef HLO_FFI_NO_XLA_STATUS
typedef struct XlaCustomCallStatus_ {
  hlo_ffi_call *call;
  int32_t failed;
} XlaCustomCallStatus;

static inline void XlaCustomCallStatusSetSuccess(XlaCustomCallStatus *status) {
  status->failed = 0;
}

static inline void XlaCustomCallStatusSetFailure(XlaCustomCallStatus *status, const char *message,
                                                 size_t size) {
  status->failed = hlo_ffi_fail(status->call, message, size);
}

typedef void (*xla_custom_call_original)(void *out, const void **in);
typedef void (*xla_custom_call_status)(void *out, const void **in, XlaCustomCallStatus *status);
typedef void (*xla_custom_call_unified)(void *out, const void **in, const char *opaque,
                                        size_t opaque_size, XlaCustomCallStatus *status);

/* The function of an import of each of these types, whose state is the address of the actual
 * function. */
static inline void *hlo_ffi_out(const hlo_ffi_call *call) {
  return call->op->result_is_tuple   ? (void *)call->results
         : call->op->num_results > 0 ? call->results[0]
                                     : NULL;
}

static inline int32_t hlo_ffi_call_original(hlo_ffi_call *call) {
  xla_custom_call_original function;
  memcpy(&function, &call->state, sizeof function); /* C has no conversion to a function */
  function(hlo_ffi_out(call), (const void **)call->operands);
  return 0;
}

static inline int32_t hlo_ffi_call_status(hlo_ffi_call *call) {
  XlaCustomCallStatus status = {call, 0};
  xla_custom_call_status function;
  memcpy(&function, &call->state, sizeof function);
  function(hlo_ffi_out(call), (const void **)call->operands, &status);
  return status.failed;
}

static inline int32_t hlo_ffi_call_unified(hlo_ffi_call *call) {
  XlaCustomCallStatus status = {call, 0};
  xla_custom_call_unified function;
  memcpy(&function, &call->state, sizeof function);
  function(hlo_ffi_out(call), (const void **)call->operands, call->op->config,
           (size_t)call->op->config_size, &status);
  return status.failed;
}
#endif /* HLO_FFI_NO_XLA_STATUS */

#ifdef __cplusplus
}
#endif

#endif /* HLO_FFI_H */
