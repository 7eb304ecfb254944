/* Collectives of compiled HLO over MPI; see hlo_collectives_mpi.h. */
#include "hlo_collectives_mpi.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

/* Up to so many bytes of all members, each gets everything and combines all of it. */
#define SMALL_BYTES (1 << 14)
/* Larger arrays are reduced in pieces of so many bytes. */
#define PIECE_BYTES (1 << 23)

/* A group that has met, and the communicator whose rank k is its place k. */
typedef struct group {
  const hlo_collective *op;
  MPI_Comm comm;
  int n;
  int place;
  struct group *next;
} group;

/* What a call has begun. */
typedef struct pending {
  int count;
  MPI_Request requests[];
} pending;

typedef struct context {
  hlo_collectives table;
  MPI_Comm comm;
  group *groups;
} context;

#define TRY(call)                        \
  do {                                   \
    int status_ = (call);                \
    if (status_ != MPI_SUCCESS) {        \
      return status_;                    \
    }                                    \
  } while (0)

/* MPI's own statuses are positive; this is what `combine` or a missing group has said already. */
enum { SAID = -1, NO_MEMORY = -2 };

static int32_t finish(hlo_collective_call *call, int status) {
  char text[MPI_MAX_ERROR_STRING + 1];
  int size = 0;
  if (status == MPI_SUCCESS) {
    return 0;
  }
  if (status == NO_MEMORY) {
    return hlo_collective_fail(call, "out of memory");
  }
  if (status != SAID) {
    MPI_Error_string(status, text, &size);
    text[size] = 0;
    return hlo_collective_fail(call, text);
  }
  return 1;
}

static int64_t bytes_of(const hlo_collective_array *a) { return a->count * a->element_bytes; }

/* --- types ----------------------------------------------------------------------------------- */

/* A type of one member's part of `rows` rows of `row` bytes, whose next member's is `step` bytes
 * further on. Widths are in 64-bit MPI_Aint, so that large arrays need no large counts. */
static int part_type(int64_t rows, int64_t part, int64_t row, int64_t step, MPI_Datatype *type) {
  MPI_Datatype chunk, line, all;
  int64_t piece = 1 << 20;
  if (part <= INT_MAX) {
    TRY(MPI_Type_contiguous((int)part, MPI_BYTE, &line));
  } else {
    MPI_Datatype kinds[2];
    MPI_Aint at[2];
    int counts[2] = {1, 1};
    TRY(MPI_Type_contiguous((int)piece, MPI_BYTE, &chunk));
    TRY(MPI_Type_contiguous((int)(part / piece), chunk, &kinds[0]));
    TRY(MPI_Type_contiguous((int)(part % piece), MPI_BYTE, &kinds[1]));
    at[0] = 0;
    at[1] = (MPI_Aint)(part - part % piece);
    TRY(MPI_Type_create_struct(2, counts, at, kinds, &line));
    MPI_Type_free(&chunk);
    MPI_Type_free(&kinds[0]);
    MPI_Type_free(&kinds[1]);
  }
  TRY(MPI_Type_create_hvector((int)rows, 1, (MPI_Aint)row, line, &all));
  MPI_Type_free(&line);
  TRY(MPI_Type_create_resized(all, 0, (MPI_Aint)step, type));
  MPI_Type_free(&all);
  return MPI_Type_commit(type);
}

/* The type and the operation with which MPI reduces an operand as the program does: integers. */
static int is_exact(const hlo_collective_array *a, MPI_Datatype *type, MPI_Op *op) {
  int is_pred = a->shape.type == HLO_FFI_PRED;
  switch (a->shape.type) {
    case HLO_FFI_PRED: *type = MPI_UINT8_T; break;
    case HLO_FFI_S8: *type = MPI_INT8_T; break;
    case HLO_FFI_S16: *type = MPI_INT16_T; break;
    case HLO_FFI_S32: *type = MPI_INT32_T; break;
    case HLO_FFI_S64: *type = MPI_INT64_T; break;
    case HLO_FFI_U8: *type = MPI_UINT8_T; break;
    case HLO_FFI_U16: *type = MPI_UINT16_T; break;
    case HLO_FFI_U32: *type = MPI_UINT32_T; break;
    case HLO_FFI_U64: *type = MPI_UINT64_T; break;
    default: return 0;
  }
  switch (a->reduction) {
    case HLO_REDUCE_SUM: *op = is_pred ? MPI_BOR : MPI_SUM; break;
    case HLO_REDUCE_PRODUCT: *op = is_pred ? MPI_BAND : MPI_PROD; break;
    case HLO_REDUCE_MIN: *op = is_pred ? MPI_BAND : MPI_MIN; break;
    case HLO_REDUCE_MAX: *op = is_pred ? MPI_BOR : MPI_MAX; break;
    case HLO_REDUCE_AND: *op = MPI_BAND; break;
    case HLO_REDUCE_OR: *op = MPI_BOR; break;
    case HLO_REDUCE_XOR: *op = MPI_BXOR; break;
    default: return 0;
  }
  return a->count <= INT_MAX;
}

/* --- reductions ------------------------------------------------------------------------------ */

/* out = (block 0 + block 1) + ..., of n blocks that are `stride` bytes apart; `out` may be the first. */
static void chain(const hlo_collective_array *a, const char *blocks, int64_t stride, int n,
                  char *out, int64_t count) {
  if (n == 1) {
    memmove(out, blocks, (size_t)(count * a->element_bytes));
  }
  for (int k = 1; k < n; ++k) {
    a->reduce(k == 1 ? blocks : out, blocks + k * stride, out, count);
  }
}

/* Reduce a few elements: an all-reduce of bits gathers them, where each member's own slot has its
 * data and the others are zero. Libraries have their fastest paths for small all-reduces. */
static int everyone_combines(const group *g, const hlo_collective_array *a, const char *in,
                             char *out, int64_t count) {
  int64_t size = count * a->element_bytes, slot = (size + 7) / 8 * 8;
  uint64_t memory[2 * SMALL_BYTES / 8];
  int64_t words = slot / 8 * g->n;
  uint64_t *sent = memory;
  int status;
  if (2 * words * 8 > (int64_t)sizeof memory) {
    sent = malloc((size_t)(2 * words * 8));
    if (sent == NULL) {
      return NO_MEMORY;
    }
  }
  memset(sent, 0, (size_t)(words * 8));
  memcpy((char *)sent + g->place * slot, in, (size_t)size);
  status = MPI_Allreduce(sent, sent + words, (int)words, MPI_UINT64_T, MPI_BOR, g->comm);
  if (status == MPI_SUCCESS) {
    chain(a, (const char *)(sent + words), slot, g->n, out, count);
  }
  if (sent != memory) {
    free(sent);
  }
  return status;
}

/* Reduce n * each elements: each member combines a part, then all gather the parts. Those of the
 * others come into the result's memory, which is free until then. */
static int each_combines(const group *g, const hlo_collective_array *a, const char *in, char *out,
                         int64_t each) {
  int64_t size = each * a->element_bytes;
  TRY(MPI_Alltoall(in, (int)size, MPI_BYTE, out, (int)size, MPI_BYTE, g->comm));
  chain(a, out, size, g->n, out, each);
  if (g->place != 0) {
    memcpy(out + g->place * size, out, (size_t)size);
  }
  return MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, out, (int)size, MPI_BYTE, g->comm);
}

static int all_reduce_array(const group *g, const hlo_collective_array *a, const char *in,
                            char *out) {
  MPI_Datatype type;
  MPI_Op op;
  int64_t size = a->element_bytes, whole = a->count / g->n, piece = PIECE_BYTES / (size * g->n);
  if (a->count == 0) {
    return MPI_SUCCESS;
  }
  if (is_exact(a, &type, &op)) {
    return MPI_Allreduce(in, out, (int)a->count, type, op, g->comm);
  }
  if (a->count * size * g->n <= SMALL_BYTES) {
    return everyone_combines(g, a, in, out, a->count);
  }
  piece = piece > 0 ? piece : 1;
  for (int64_t first = 0; first < whole; first += piece) {
    int64_t each = whole - first < piece ? whole - first : piece, at = first * g->n * size;
    TRY(each_combines(g, a, in + at, out + at, each));
  }
  whole *= g->n;
  if (whole == a->count) {
    return MPI_SUCCESS;
  }
  return everyone_combines(g, a, in + whole * size, out + whole * size, a->count - whole);
}

static int reduce_scatter_array(const group *g, const hlo_collective_array *a, const char *in,
                                char *out) {
  MPI_Datatype type;
  MPI_Op op;
  int64_t size = a->element_bytes, part = a->part, n = g->n, high, wide;
  char *room;
  int status = MPI_SUCCESS;
  if (a->count == 0) {
    return MPI_SUCCESS;
  }
  if (a->rows == 1 && is_exact(a, &type, &op)) {
    return MPI_Reduce_scatter_block(in, out, (int)part, type, op, g->comm);
  }
  high = PIECE_BYTES / (part * n * size);
  high = high < 1 ? 1 : high < a->rows ? high : a->rows;
  wide = high > 1 ? part : PIECE_BYTES / (n * size);
  wide = wide < 1 ? 1 : wide < part ? wide : part;
  room = malloc((size_t)(high * wide * n * size));
  if (room == NULL) {
    return NO_MEMORY;
  }
  for (int64_t row = 0; row < a->rows && status == MPI_SUCCESS; row += high) {
    for (int64_t column = 0; column < part && status == MPI_SUCCESS; column += wide) {
      int64_t rows = a->rows - row < high ? a->rows - row : high;
      int64_t columns = part - column < wide ? part - column : wide;
      status = part_type(rows, columns * size, n * part * size, part * size, &type);
      if (status == MPI_SUCCESS) {
        status = MPI_Alltoall(in + (row * n * part + column) * size, 1, type, room,
                              (int)(rows * columns * size), MPI_BYTE, g->comm);
        MPI_Type_free(&type);
      }
      if (status == MPI_SUCCESS) {
        chain(a, room, rows * columns * size, g->n, out + (row * part + column) * size,
              rows * columns);
      }
    }
  }
  free(room);
  return status;
}

/* --- what is computed from everything ---------------------------------------------------------- */

/* Gather all operands and have the program's own definition compute the results: for what has no
 * function of MPI, such as sizes that are known only now. */
static int combine_all(hlo_collective_call *call, const group *g) {
  const hlo_collective *op = call->op;
  int64_t n = g->n, each = 0, kept = 0, at;
  hlo_collective_call *members;
  const hlo_collective_call **table;
  const void **operands;
  void **results;
  char *data, *spare;
  int status = MPI_SUCCESS;
  int32_t wrong = 0;
  for (int64_t k = 0; k < op->num_operands; ++k) {
    each += bytes_of(&op->operands[k]);
  }
  for (int64_t k = 0; k < op->num_results; ++k) {
    kept += bytes_of(&op->results[k]);
  }
  members = calloc((size_t)n, sizeof *members);
  table = malloc((size_t)n * sizeof *table);
  operands = malloc((size_t)(n * op->num_operands + 1) * sizeof *operands);
  results = malloc((size_t)(n * op->num_results + 1) * sizeof *results);
  data = malloc((size_t)(n * each + 1));
  spare = malloc((size_t)(n * kept + 1));
  if (!members || !table || !operands || !results || !data || !spare) {
    status = NO_MEMORY;
  }
  at = 0;
  for (int64_t k = 0; k < op->num_operands && status == MPI_SUCCESS; ++k) {
    MPI_Datatype type;
    int64_t size = bytes_of(&op->operands[k]);
    if (size == 0) {
      continue;
    }
    status = part_type(1, size, size, size, &type);
    if (status == MPI_SUCCESS) {
      status = MPI_Allgather(call->operands[k], 1, type, data + n * at, 1, type, g->comm);
      MPI_Type_free(&type);
    }
    at += size;
  }
  for (int64_t j = 0; j < n && status == MPI_SUCCESS; ++j) {
    const void **o = operands + j * op->num_operands;
    void **r = results + j * op->num_results;
    at = 0;
    for (int64_t k = 0; k < op->num_operands; ++k) {
      o[k] = data + n * at + j * bytes_of(&op->operands[k]);
      at += bytes_of(&op->operands[k]);
    }
    at = j * kept;
    for (int64_t k = 0; k < op->num_results; ++k) {
      r[k] = j == g->place ? call->results[k] : spare + at;
      at += bytes_of(&op->results[k]);
    }
    members[j].size = sizeof members[j];
    members[j].op = op;
    members[j].operands = o;
    members[j].results = r;
    table[j] = &members[j];
  }
  for (int64_t j = 0; j < n && status == MPI_SUCCESS && wrong == 0; ++j) {
    wrong = op->combine(op, table, n, j);
  }
  if (wrong != 0) {
    hlo_collective_fail(call, op->errors[wrong - 1]);
    status = SAID;
  }
  free(members);
  free(table);
  free(operands);
  free(results);
  free(data);
  free(spare);
  return status;
}

/* --- calls ------------------------------------------------------------------------------------- */

/* Begin one transfer, or do it at once where there is nowhere to put its request. */
static int gather(const group *g, const void *in, int64_t sent, void *out, MPI_Datatype type,
                  int is_exchange, MPI_Request *request) {
  MPI_Datatype from = is_exchange ? type : MPI_DATATYPE_NULL;
  int status;
  if (!is_exchange) {
    TRY(part_type(1, sent, sent, sent, &from));
  }
  if (request != NULL) {
    status = is_exchange ? MPI_Ialltoall(in, 1, from, out, 1, type, g->comm, request)
                         : MPI_Iallgather(in, 1, from, out, 1, type, g->comm, request);
  } else {
    status = is_exchange ? MPI_Alltoall(in, 1, from, out, 1, type, g->comm)
                         : MPI_Allgather(in, 1, from, out, 1, type, g->comm);
  }
  if (!is_exchange) {
    MPI_Type_free(&from);
  }
  return status;
}

static int shift(const group *g, const void *in, int64_t sent, int to, void *out, int64_t received,
                 int from, MPI_Request *requests) {
  MPI_Datatype types[2];
  int status;
  TRY(part_type(1, sent, sent, sent, &types[0]));
  TRY(part_type(1, received, received, received, &types[1]));
  if (requests != NULL) {
    status = MPI_Irecv(out, 1, types[1], from, 0, g->comm, &requests[0]);
    if (status == MPI_SUCCESS) {
      status = MPI_Isend(in, 1, types[0], to, 0, g->comm, &requests[1]);
    }
  } else {
    status = MPI_Sendrecv(in, 1, types[0], to, 0, out, 1, types[1], from, 0, g->comm,
                          MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&types[0]);
  MPI_Type_free(&types[1]);
  return status;
}

/* Do a collective, or as much of it as can be begun: then `requests` has room for two an array and
 * member. What cannot be begun is done at once. */
static int transfer(hlo_collective_call *call, const group *g, MPI_Request *requests) {
  const hlo_collective *op = call->op;
  int64_t arrays = op->num_operands;
  if (op->has_dynamic_root) {
    return combine_all(call, g);
  }
  for (int64_t k = 0; k < arrays; ++k) {
    const hlo_collective_array *a = &op->operands[k];
    const char *in = call->operands[k];
    char *out = op->kind == HLO_ALL_TO_ALL && !op->has_parts ? NULL : call->results[k];
    MPI_Request *request = requests == NULL ? NULL : &requests[2 * k];
    int64_t part = a->part * a->element_bytes;
    MPI_Datatype type;
    MPI_Op sum;
    switch (op->kind) {
      case HLO_ALL_GATHER:
      case HLO_ALL_TO_ALL:
        if (op->kind == HLO_ALL_TO_ALL && !op->has_parts) {
          /* In step k the operand for the member k places further on, from the one k before. */
          int to = (int)((g->place + k) % g->n), from = (int)((g->place - k + g->n) % g->n);
          TRY(shift(g, call->operands[to], bytes_of(&op->operands[to]), to, call->results[from],
                    bytes_of(&op->results[from]), from, request));
          break;
        }
        if (a->count == 0) {
          break;
        }
        TRY(part_type(a->rows, part, g->n * part, part, &type));
        TRY(gather(g, in, bytes_of(a), out, type, op->kind == HLO_ALL_TO_ALL, request));
        MPI_Type_free(&type);
        break;
      case HLO_ALL_REDUCE:
        if (request != NULL && a->count > 0 && is_exact(a, &type, &sum)) {
          TRY(MPI_Iallreduce(in, out, (int)a->count, type, sum, g->comm, request));
        } else {
          TRY(all_reduce_array(g, a, in, out));
        }
        break;
      case HLO_COLLECTIVE_REDUCE:
        TRY(all_reduce_array(g, a, in, out));
        if (g->place != 0) {
          memset(out, 0, (size_t)bytes_of(a));
        }
        break;
      case HLO_REDUCE_SCATTER:
        TRY(reduce_scatter_array(g, a, in, out));
        break;
      case HLO_COLLECTIVE_BROADCAST:
        if (g->place == 0) {
          memcpy(out, in, (size_t)bytes_of(a));
        }
        TRY(part_type(1, bytes_of(a), bytes_of(a), bytes_of(a), &type));
        TRY(request != NULL ? MPI_Ibcast(out, 1, type, 0, g->comm, request)
                            : MPI_Bcast(out, 1, type, 0, g->comm));
        MPI_Type_free(&type);
        break;
      case HLO_COLLECTIVE_PERMUTE: {
        int source = (int)op->sources[g->place], to = MPI_PROC_NULL;
        for (int j = 0; j < g->n; ++j) {
          to = op->sources[j] == g->place ? j : to;
        }
        if (source < 0) {
          memset(out, 0, (size_t)bytes_of(&op->results[k]));
        }
        TRY(shift(g, in, bytes_of(a), to, out, bytes_of(&op->results[k]),
                  source < 0 ? MPI_PROC_NULL : source, request));
        break;
      }
      default:
        return combine_all(call, g);
    }
  }
  return MPI_SUCCESS;
}

/* Find the group of a call, made when it first meets: *found is NULL for a device that is in none. */
static int group_of(hlo_collective_call *call, group **found) {
  context *c = call->context;
  const hlo_collective *op = call->op;
  const int64_t *devices;
  int64_t place, n;
  MPI_Group all, members;
  int *ranks;
  group *g;
  for (g = c->groups; g != NULL; g = g->next) {
    if (g->op == op) {
      *found = g;
      return MPI_SUCCESS;
    }
  }
  n = hlo_collective_group(op, call->device, &devices, &place);
  *found = NULL;
  if (n == 0) {
    return MPI_SUCCESS;
  }
  /* Operations of one channel and group meet, whichever they are: they share a communicator. */
  g = malloc(sizeof *g);
  ranks = malloc((size_t)n * sizeof *ranks);
  if (g == NULL || ranks == NULL) {
    free(g);
    free(ranks);
    return NO_MEMORY;
  }
  *g = (group){op, MPI_COMM_NULL, (int)n, (int)place, c->groups};
  for (group *other = c->groups; other != NULL; other = other->next) {
    const int64_t *theirs;
    int64_t at, size = hlo_collective_group(other->op, call->device, &theirs, &at);
    if (other->op->channel_id == op->channel_id && size == n &&
        memcmp(theirs, devices, (size_t)n * sizeof *devices) == 0) {
      g->comm = other->comm;
      break;
    }
  }
  if (g->comm == MPI_COMM_NULL) {
    int tag = (int)((devices[0] * 31 + devices[n - 1] * 17 + op->channel_id) & 0x7fff);
    for (int64_t k = 0; k < n; ++k) {
      ranks[k] = (int)devices[k];
    }
    TRY(MPI_Comm_group(c->comm, &all));
    TRY(MPI_Group_incl(all, (int)n, ranks, &members));
    TRY(MPI_Comm_create_group(c->comm, members, tag, &g->comm));
    MPI_Group_free(&members);
    MPI_Group_free(&all);
  }
  free(ranks);
  c->groups = g;
  *found = g;
  return MPI_SUCCESS;
}

/* Do what needs no other device; returns whether that was all. */
static int alone(hlo_collective_call *call, const group *g, int *status) {
  const hlo_collective *op = call->op;
  *status = MPI_SUCCESS;
  if (g != NULL) {
    if (g->n == 1) {
      *status = combine_all(call, g);
    }
    return g->n == 1;
  }
  if (op->kind != HLO_COLLECTIVE_PERMUTE && op->kind != HLO_COLLECTIVE_BROADCAST &&
      op->kind != HLO_COLLECTIVE_REDUCE) {
    hlo_collective_fail(call, "the device is in no replica group");
    *status = SAID;
  }
  for (int64_t k = 0; k < op->num_results && *status == MPI_SUCCESS; ++k) {
    memset(call->results[k], 0, (size_t)bytes_of(&op->results[k]));
  }
  return 1;
}

static int32_t run(hlo_collective_call *call) {
  group *g;
  int status = group_of(call, &g);
  if (status == MPI_SUCCESS && !alone(call, g, &status)) {
    status = transfer(call, g, NULL);
  }
  return finish(call, status);
}

static int32_t start(hlo_collective_call *call) {
  int64_t room = 2 * call->op->num_operands;
  group *g;
  pending *p;
  int status = group_of(call, &g);
  call->request = NULL;
  if (status != MPI_SUCCESS || alone(call, g, &status)) {
    return finish(call, status);
  }
  p = malloc(sizeof *p + (size_t)room * sizeof p->requests[0]);
  if (p == NULL) {
    return finish(call, NO_MEMORY);
  }
  p->count = (int)room;
  for (int64_t k = 0; k < room; ++k) {
    p->requests[k] = MPI_REQUEST_NULL;
  }
  call->request = p;
  return finish(call, transfer(call, g, p->requests));
}

static int32_t wait(hlo_collective_call *call) {
  pending *p = call->request;
  int status;
  if (p == NULL) {
    return 0;
  }
  status = MPI_Waitall(p->count, p->requests, MPI_STATUSES_IGNORE);
  call->request = NULL;
  free(p);
  return finish(call, status);
}

hlo_collectives *hlo_collectives_mpi(MPI_Comm comm) {
  context *c = malloc(sizeof *c);
  if (c == NULL) {
    return NULL;
  }
  c->groups = NULL;
  if (MPI_Comm_dup(comm, &c->comm) != MPI_SUCCESS) {
    free(c);
    return NULL;
  }
  MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
  c->table = (hlo_collectives){sizeof c->table, c, run, start, wait};
  return &c->table;
}

void hlo_collectives_mpi_free(hlo_collectives *table) {
  context *c = table->context;
  while (c->groups != NULL) {
    group *g = c->groups;
    int is_shared = 0;
    c->groups = g->next;
    for (group *other = c->groups; other != NULL; other = other->next) {
      is_shared = is_shared || other->comm == g->comm;
    }
    if (!is_shared) {
      MPI_Comm_free(&g->comm);
    }
    free(g);
  }
  MPI_Comm_free(&c->comm);
  free(c);
}
