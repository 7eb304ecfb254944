/* Collectives of compiled HLO: what a program says of them, and the functions it calls for them.
 *
 * A program that is compiled for several devices runs once for each device, at the same time: in
 * threads of a process, or in processes that send messages to each other. Each run gets an
 * hlo_host (see hlo_ffi.h), which has the ids of its device and an hlo_collectives: a table of
 * three functions and what they need to know. A program calls nothing else to reach other devices.
 *
 * A collective is called as
 *
 *     status = table->run(call);
 *
 * or, where it begins in one place and its result is needed in another,
 *
 *     status = table->start(call);
 *     ... anything but writing to the operands or touching the results ...
 *     status = table->wait(call);
 *
 * with the same call, whose memory is the program's and stays where it is until `wait` returns.
 * Between the two, other collectives may run, start and end, in any order; all members of a group
 * start theirs in the same order for each channel. A status other than 0 ends the program.
 *
 * Members of a group are matched in the order in which each one calls, separately for each
 * channel_id and group. Their signatures have to be equal.
 *
 * Arrays are dense, with the first dimension slowest. pred and integers of less than a byte take a
 * byte each, a complex number two floats. Results overlap neither operands nor each other. Operands
 * may be any number of array addresses in any of the calls; they are only read.
 */
#ifndef HLO_COLLECTIVES_H
#define HLO_COLLECTIVES_H

#include "hlo_ffi.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hlo_collective_call;

/* A program in which collective number n fails returns HLO_COLLECTIVE_FAILED + n. */
#define HLO_COLLECTIVE_FAILED 0x40000000

/* Kinds of collectives. Of each pair of an operand and a result, `rows`, `columns` and `part` of
 * hlo_collective_array say how it is cut into the parts of the n members of a group. */
enum {
  /* result = rows x (n x part), where member j has sent rows x part */
  HLO_ALL_GATHER = 1,
  /* result = m0 + m1 + ..., on every member */
  HLO_ALL_REDUCE = 2,
  /* the same of rows x (n x part), of which member j gets part j of every row */
  HLO_REDUCE_SCATTER = 3,
  /* with parts: part i of every row of member j becomes part j of every row of member i. Without
   * (has_parts is 0): operand i of member j becomes result j of member i. */
  HLO_ALL_TO_ALL = 4,
  /* member j gets the operands of member sources[j], or zeros where that is -1 */
  HLO_COLLECTIVE_PERMUTE = 5,
  /* every member gets the operands of the root */
  HLO_COLLECTIVE_BROADCAST = 6,
  /* the root gets m0 + m1 + ..., the others zeros */
  HLO_COLLECTIVE_REDUCE = 7,
  /* Operands: input, output, input_offsets, send_sizes, output_offsets, recv_sizes; the last four
   * are s64 and have as many elements each, u, a multiple of n. A member sends update k, rows
   * input_offsets[k] and on, send_sizes[k] of them, to member k / (u / n), which gets them at row
   * output_offsets[k] (of the sender's table) of the result. The other rows of a result are those
   * of the member's own `output`. Where updates overlap, those of later members stay, and of one
   * member the later ones. */
  HLO_RAGGED_ALL_TO_ALL = 8
};

/* What a reduction applies, if it is one operation on the type of the operand. Minimum and maximum
 * of floats are NaN where either is; -0 is less than 0. Sums of pred are `or`. */
enum {
  HLO_REDUCE_OTHER = 0,
  HLO_REDUCE_SUM = 1,
  HLO_REDUCE_PRODUCT = 2,
  HLO_REDUCE_MIN = 3,
  HLO_REDUCE_MAX = 4,
  HLO_REDUCE_AND = 5,
  HLO_REDUCE_OR = 6,
  HLO_REDUCE_XOR = 7
};

/* out[i] = reduction(a[i], b[i]) for `count` elements; `out` may be `a` or `b`. Results have the
 * bits that the program's own definition gives: ((m0 + m1) + m2) + ..., each step rounded to the
 * type of the operand, m0 being the first member of the group. */
typedef void (*hlo_reduce_function)(const void *a, const void *b, void *out, int64_t count);

/* An operand or a result. */
typedef struct hlo_collective_array {
  hlo_ffi_shape shape;
  int64_t element_bytes;
  int64_t count; /* of elements */
  int64_t rows;  /* rows * columns == count: a row is what follows the dimension that is cut */
  int64_t columns;
  int64_t part;      /* elements of a row that belong to one member; columns if nothing is cut */
  int32_t reduction; /* HLO_REDUCE_* of this operand */
  int32_t reserved;
  hlo_reduce_function reduce; /* NULL for what is not reduced */
} hlo_collective_array;

/* The static description of a collective. */
typedef struct hlo_collective {
  int64_t size;     /* of this struct; later versions may append to it */
  const char *name; /* of the instruction */
  const char *opcode;
  const char *signature; /* equal for what may meet: kind, shapes and attributes, as text */
  int32_t kind;          /* HLO_ALL_GATHER, ... */
  int32_t number;        /* among the program's collectives, from 0; <program>_COLLECTIVES in all */
  int64_t channel_id;    /* or 0 where there is none */
  int32_t num_replicas;  /* that the program is for; device = replica * num_partitions + */
  int32_t num_partitions; /* partition, as in the table below */
  /* The groups, as numbers of devices in the order of the group: those of group g are
   * devices[group_ends[g - 1]] (devices[0] for g = 0) up to before devices[group_ends[g]]. A device
   * is in one group at the most. One that is in none gets zeros for all results; that happens in
   * permutations, broadcasts and collective-reduce. */
  int64_t num_groups;
  const int64_t *group_ends;
  const int64_t *devices;
  const int64_t *sources; /* of a permutation: the place in the group that each place gets from */
  int32_t has_parts;      /* of an all-to-all */
  /* Where the last operand says which place in the group is the root of each result: an s32 for
   * all, or one for each. Else the root is place 0. All members have to say the same. */
  int32_t has_dynamic_root;
  int64_t num_operands;
  const hlo_collective_array *operands;
  int64_t num_results;
  const hlo_collective_array *results;
  /* The definition, for members whose memory one process can read. It does the share of the member
   * at a place of a group of n, whose calls are given in the order of the group: it reads operands
   * of all and writes results of all. When it has returned 0 for every place, in any order or at
   * the same time, all results are complete. It uses no fields of the calls but `operands` and
   * `results`. A status k other than 0 is the same for all places, and stands for errors[k - 1]. */
  int32_t (*combine)(const struct hlo_collective *op,
                     const struct hlo_collective_call *const *members, int64_t n, int64_t place);
  const char *const *errors;
} hlo_collective;

/* One call. The program sets all but `request`. */
typedef struct hlo_collective_call {
  int64_t size;  /* of this struct; later versions may append to it */
  void *context; /* of the table */
  const hlo_collective *op;
  const void *const *operands; /* op->num_operands addresses */
  void *const *results;        /* op->num_results addresses */
  void *request;               /* for the functions' own use between start and wait; begins as NULL */
  char *message;               /* where to write an error message */
  int64_t message_size;
  int64_t device; /* that calls */
} hlo_collective_call;

typedef struct hlo_collectives {
  int64_t size; /* of this struct; later versions may append to it */
  void *context;
  int32_t (*run)(hlo_collective_call *call);
  int32_t (*start)(hlo_collective_call *call);
  int32_t (*wait)(hlo_collective_call *call);
} hlo_collectives;

/* Find the group of a device and its place there. Returns the group's size, 0 if there is none;
 * *devices are its members. */
static inline int64_t hlo_collective_group(const hlo_collective *op, int64_t device,
                                           const int64_t **devices, int64_t *place) {
  int64_t begin = 0;
  for (int64_t g = 0; g < op->num_groups; begin = op->group_ends[g++]) {
    for (int64_t i = begin; i < op->group_ends[g]; ++i) {
      if (op->devices[i] == device) {
        *devices = op->devices + begin;
        *place = i - begin;
        return op->group_ends[g] - begin;
      }
    }
  }
  *devices = NULL;
  *place = -1;
  return 0;
}

/* Write a message and return the status of a failed call. */
static inline int32_t hlo_collective_fail(hlo_collective_call *call, const char *message) {
  if (call->message != NULL && call->message_size > 0) {
    size_t room = (size_t)call->message_size - 1;
    size_t n = strlen(message);
    n = n < room ? n : room;
    memcpy(call->message, message, n);
    call->message[n] = 0;
  }
  return 1;
}

#ifdef __cplusplus
}
#endif

#endif /* HLO_COLLECTIVES_H */
