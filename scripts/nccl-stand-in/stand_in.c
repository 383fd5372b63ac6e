/* Stands in for the parts of NCCL and of CUDA's driver that kvt calls. Device memory is host memory, processes are threads,
   and whatever takes time on a GPU is done by a thread some milliseconds later. A call that NCCL would not allow ends the
   program. */

#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7, NOT_READY = 600 };
enum { SUMS = 64, NUMBERS = 4096, GROUPS = 256, FLOAT32 = 7, SUM = 0 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local void *context;

static void require(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "not allowed: %s\n", what);
        abort();
    }
}

static int is(const char *what) {
    const char *set = getenv("STAND_IN");
    return set && strcmp(set, what) == 0;
}

static void start(void *(*work)(void *), void *of) {
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, of) == 0, "a thread");
    pthread_detach(thread);
}

/* CUDA */

typedef struct { long queued, done; } Stream;
typedef struct { Stream *stream; long behind; } Event;

int cuInit(unsigned flags) { (void)flags; return SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)attribute; (void)device; *value = 1; return SUCCESS; }
int cuDevicePrimaryCtxRetain(void **made, int device) { (void)device; *made = &lock; return SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return SUCCESS; }
int cuCtxGetCurrent(void **current) { *current = context; return SUCCESS; }
int cuCtxSetCurrent(void *current) { context = current; return SUCCESS; }
int cuCtxSynchronize(void) { return SUCCESS; }
int cuStreamCreate(void **made, unsigned flags) { (void)flags; *made = calloc(1, sizeof(Stream)); return SUCCESS; }
int cuStreamSynchronize(void *stream) { (void)stream; return SUCCESS; }
int cuStreamDestroy_v2(void *stream) { (void)stream; return SUCCESS; }
int cuEventCreate(void **made, unsigned flags) { (void)flags; *made = calloc(1, sizeof(Event)); return SUCCESS; }
int cuEventDestroy_v2(void *event) { free(event); return SUCCESS; }
int cuEventSynchronize(void *event) { (void)event; return SUCCESS; }
int cuGetErrorName(int error, const char **name) { (void)error; *name = "error"; return SUCCESS; }
int cuGetErrorString(int error, const char **text) { (void)error; *text = "an error"; return SUCCESS; }

int cuEventRecord(Event *event, Stream *stream) {
    require(context != NULL, "an event without a context");
    pthread_mutex_lock(&lock);
    *event = (Event){ stream, stream->queued };
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int cuEventQuery(Event *event) {
    pthread_mutex_lock(&lock);
    int is_done = !event->stream || event->stream->done >= event->behind;
    pthread_mutex_unlock(&lock);
    return is_done ? SUCCESS : NOT_READY;
}

/* NCCL */

typedef struct { char bytes[128]; } Id;

/* The first fields, which are all that version 2.14 has. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, later;
} Config;

typedef struct {
    int size, joined;
    int started[SUMS];
    float sums[SUMS][NUMBERS];
} Group;

typedef struct {
    Group *group;
    int state, sums, is_aborted;
} Communicator;

typedef struct { Communicator **place, *joining; } Join;

typedef struct {
    Communicator *of;
    const float *own;
    float *sum;
    size_t count;
    Stream *stream;
} Sum;

static Group *groups[GROUPS];

int ncclGetVersion(int *version) { *version = is("old") ? 2708 : 22705; return SUCCESS; }
int ncclGetUniqueId(Id *id) { memset(id, 0x85, sizeof *id); return SUCCESS; }
const char *ncclGetLastError(void *communicator) { (void)communicator; return "a cable is loose\n"; }

static void *join(void *of) {
    Join *join = of;
    usleep(30000);
    pthread_mutex_lock(&lock);
    Group *group = join->joining->group;
    group->joined++;
    /* As NCCL does once it has joined, or given up. */
    __atomic_store_n(join->place, join->joining, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    for (int joined = 0; !joined; usleep(1000)) {
        pthread_mutex_lock(&lock);
        joined = group->joined == group->size || is("lost");
        if (joined) join->joining->state = is("lost") ? REMOTE_ERROR : SUCCESS;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int ncclCommInitRankConfig(Communicator **place, int size, Id id, int rank, Config *config) {
    require(context != NULL, "to join without a context");
    require(config->magic == 0xcafebeef && config->version == 21400 && config->size >= sizeof *config, "these settings");
    require(config->blocking == 0 && config->later == INT_MIN, "a communicator that blocks");
    require(rank >= 0 && rank < size, "this rank");
    if (is("refused")) return INVALID_USAGE;
    unsigned char number = id.bytes[127];
    pthread_mutex_lock(&lock);
    if (!groups[number]) groups[number] = calloc(1, sizeof(Group));
    groups[number]->size = size;
    Communicator *made = calloc(1, sizeof *made);
    *made = (Communicator){ groups[number], IN_PROGRESS, 0, 0 };
    *place = made;
    pthread_mutex_unlock(&lock);
    Join *joining = malloc(sizeof *joining);
    *joining = (Join){ place, made };
    start(join, joining);
    return IN_PROGRESS;
}

int ncclCommGetAsyncError(Communicator *communicator, int *state) {
    require(communicator && !communicator->is_aborted, "to ask a communicator that is gone");
    pthread_mutex_lock(&lock);
    *state = communicator->state;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static void *add(void *of) {
    Sum *sum = of;
    Communicator *communicator = sum->of;
    usleep(3000);
    pthread_mutex_lock(&lock);
    Group *group = communicator->group;
    int number = communicator->sums++;
    require(number < SUMS && sum->count <= NUMBERS, "so many sums");
    for (size_t at = 0; at < sum->count; at++) group->sums[number][at] += sum->own[at];
    group->started[number]++;
    sum->stream->queued++;
    /* On the stream: only now may an event be recorded behind it, and another sum be started. */
    communicator->state = SUCCESS;
    pthread_mutex_unlock(&lock);
    for (int is_done = 0; !is_done; usleep(500)) {
        pthread_mutex_lock(&lock);
        is_done = communicator->is_aborted;
        if (!is_done && group->started[number] == group->size && sum->stream->done == number) {
            memcpy(sum->sum, group->sums[number], sum->count * sizeof(float));
            sum->stream->done++;
            is_done = 1;
        }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int ncclAllReduce(const float *own, float *sum, size_t count, int type, int operation, Communicator *communicator, Stream *stream) {
    require(context != NULL, "a sum without a context");
    require(own != sum && type == FLOAT32 && operation == SUM, "this sum");
    pthread_mutex_lock(&lock);
    require(!communicator->is_aborted && communicator->state == SUCCESS, "a sum while another call is in progress");
    communicator->state = IN_PROGRESS;
    pthread_mutex_unlock(&lock);
    Sum *starting = malloc(sizeof *starting);
    *starting = (Sum){ communicator, own, sum, count, stream };
    start(add, starting);
    return IN_PROGRESS;
}

int ncclCommAbort(Communicator *communicator) {
    pthread_mutex_lock(&lock);
    require(!communicator->is_aborted, "to abort twice");
    communicator->is_aborted = 1;
    pthread_mutex_unlock(&lock);
    /* It waits for the thread that joins. */
    usleep(60000);
    return SUCCESS;
}
