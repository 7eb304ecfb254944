/* Collectives of compiled HLO over MPI: the table of hlo_collectives.h, for one device a process.
 *
 *     MPI_Init(&argc, &argv);
 *     hlo_collectives *table = hlo_collectives_mpi(MPI_COMM_WORLD);
 *     hlo_host host = {message, sizeof message, rank / partitions, rank % partitions, table, ...};
 *     ... call the program, on every rank ...
 *     hlo_collectives_mpi_free(table);
 *     MPI_Finalize();
 *
 * Compile hlo_collectives_mpi.c with mpicc and link it with the program's object. Results are bit
 * by bit those of a run in one process: reductions that depend on the order combine the members in
 * the order of their group, with the program's own functions.
 *
 * Calls come from one thread at a time (MPI_THREAD_SERIALIZED where that is not the main thread).
 * The ranks have to run the same program. A call that fails writes a message and returns a status;
 * the other ranks do not know: the caller ends them (MPI_Abort).
 */
#ifndef HLO_COLLECTIVES_MPI_H
#define HLO_COLLECTIVES_MPI_H

#include <mpi.h>

#include "hlo_collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Return a table whose device n is rank n of a communicator, NULL for want of memory. All ranks
 * call this. Communicators of groups are made when a group first meets. */
hlo_collectives *hlo_collectives_mpi(MPI_Comm comm);

/* Free a table and its communicators. All ranks call this, before MPI_Finalize. */
void hlo_collectives_mpi_free(hlo_collectives *table);

#ifdef __cplusplus
}
#endif

#endif /* HLO_COLLECTIVES_MPI_H */
