/* Memory that the program lent to the GPU and that goes away, seen by a hook or not, while the GPU uses it: each time the
   program lives on and hears of a memory fault. Signals of its own are none of the driver's business. */
#include "check.h"
#include <malloc.h>
#include <setjmp.h>
#include <sys/shm.h>
#include <time.h>

#define PAGE 4096ul
#define MIB (1ul << 20)
#define VRAM 1u
#define GTT 2u
#define USERPTR 4u
#define ACCESS (3u << 30)
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

enum { DMA = 1, AQL = 2 };

struct allocate { uint64_t at, bytes, handle, offset; uint32_t gpu, flags; };
struct map { uint64_t handle, gpus; uint32_t count, done; };
struct create_queue {
    uint64_t ring, write, read, doorbell;
    uint32_t ring_bytes, gpu, type, percentage, priority, id;
    uint64_t eop, eop_bytes, save;
    uint32_t save_bytes, stack_bytes, engine, pad;
};
struct event { uint32_t payload[8]; uint64_t more; uint32_t id, pad; };

#define CREATE_QUEUE _IOWR('K', 0x02, struct create_queue)
#define DESTROY_QUEUE 0xc0084b03u
#define UPDATE_QUEUE 0x40184b07u
#define CREATE_EVENT 0xc0204b08u
#define WAIT_EVENTS 0xc0184b0cu
#define ACQUIRE_VM 0x40084b15u
#define ALLOCATE _IOWR('K', 0x16, struct allocate)
#define FREE 0x40084b17u
#define MAP _IOWR('K', 0x18, struct map)
#define UNMAP _IOWR('K', 0x19, struct map)
#define SVM 0xc0204b20u

static int kfd, render;
static uint32_t gpu, memory_event;
static uint64_t handle;

static uint64_t property(const char *name) {
    FILE *file = fopen(NODES "/1/properties", "r");
    char key[64];
    unsigned long long value;
    CHECK(file);
    while (fscanf(file, "%63s %llu", key, &value) == 2)
        if (strcmp(key, name) == 0) {
            fclose(file);
            return value;
        }
    CHECK(!"the property is there");
    return 0;
}

static void open_gpu(void) {
    FILE *file = fopen(NODES "/1/gpu_id", "r");
    CHECK(file && fscanf(file, "%u", &gpu) == 1 && fclose(file) == 0);
    CHECK((kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC)) >= 0);
    CHECK((render = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC)) >= 0);
    uint32_t acquire[2] = {render, gpu};
    CHECK(ioctl(kfd, ACQUIRE_VM, acquire) == 0);
    struct { uint64_t page; uint32_t trigger, type, reset, node, id, slot; } create = {.type = 8, .reset = 1};
    CHECK(ioctl(kfd, CREATE_EVENT, &create) == 0);
    memory_event = create.id;
}

static char *room(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_NONE, ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static char *pages(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    memset(at, 7, bytes);
    return at;
}

/* Memory of the GPU; `host`: of the program's, at another address. */
static char *allocate(size_t bytes, uint32_t flags, void *host) {
    char *at = room(bytes);
    struct allocate args = {(uintptr_t)at, bytes, 0, (uintptr_t)host, gpu, flags | ACCESS};
    CHECK(ioctl(kfd, ALLOCATE, &args) == 0);
    if (!host)
        CHECK(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, render, args.offset) == at);
    struct map map = {args.handle, (uintptr_t)&gpu, 1, 0};
    CHECK(ioctl(kfd, MAP, &map) == 0);
    handle = args.handle;
    return at;
}

static void unmap(uint64_t which) {
    struct map map = {which, (uintptr_t)&gpu, 1, 0};
    CHECK(ioctl(kfd, UNMAP, &map) == 0);
}

struct queue { uint32_t *ring, id; volatile uint64_t *read, *write, *doorbell; uint64_t words; };

static struct queue queue_of(uint32_t type) {
    struct queue queue = {.ring = (void *)allocate(4 * PAGE, GTT, NULL)};
    char *pointers = allocate(PAGE, GTT, NULL);
    /* An AQL queue's are those of its `amd_queue_t`. */
    queue.read = (void *)(pointers + 128);
    queue.write = (void *)(pointers + 56);
    struct create_queue args = {
        .ring = (uintptr_t)queue.ring, .write = (uintptr_t)queue.write, .read = (uintptr_t)queue.read,
        .ring_bytes = 4 * PAGE, .gpu = gpu, .type = type, .percentage = 100, .priority = 7,
        .save_bytes = property("cwsr_size"), .stack_bytes = property("ctl_stack_size"),
    };
    if (type == AQL) {
        uint32_t apertures[2] = {0x10000, 0x20000}, offset = 128;
        memcpy(pointers + 64, apertures, 8);
        memcpy(pointers + 136, &offset, 4);
        for (int i = 0; i < 256; i++)
            queue.ring[16 * i] = 1;
    }
    CHECK(ioctl(kfd, CREATE_QUEUE, &args) == 0);
    queue.id = args.id;
    uint64_t in_page = args.doorbell & 8191;
    char *doorbells = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, args.doorbell - in_page);
    CHECK(doorbells != MAP_FAILED);
    queue.doorbell = (void *)(doorbells + in_page);
    return queue;
}

static void put(struct queue *queue, const uint32_t *packet, int words) {
    memcpy(queue->ring + queue->words, packet, 4 * words);
    queue->words += words;
    CHECK(queue->words < PAGE);
    *queue->write = 4 * queue->words;
    __atomic_store_n(queue->doorbell, 4 * queue->words, __ATOMIC_RELEASE);
}

static void copy(struct queue *queue, void *to, const void *from, uint32_t bytes) {
    uint64_t a = (uintptr_t)from, b = (uintptr_t)to;
    put(queue, (uint32_t[]){1, bytes - 1, 0, a, a >> 32, b, b >> 32}, 7);
}

static void fill(struct queue *queue, void *to, uint32_t word, uint32_t bytes) {
    uint64_t at = (uintptr_t)to;
    put(queue, (uint32_t[]){11 | 2u << 30, at, at >> 32, word, bytes - 4}, 5);
}

enum end { DONE, FAULT, NOTHING };

static struct event fault;

static enum end end_of(struct queue *queue, int milliseconds) {
    for (int i = 0; i < milliseconds; i++) {
        if (*queue->read == 4 * queue->words)
            return DONE;
        fault = (struct event){.id = memory_event};
        struct { uint64_t events; uint32_t count, all, milliseconds, result; } wait = {(uintptr_t)&fault, 1, 0, 1, 9};
        CHECK(ioctl(kfd, WAIT_EVENTS, &wait) == 0);
        if (wait.result == 0)
            return FAULT;
    }
    return NOTHING;
}

/* The address that a fault named. */
static uint64_t fault_at(void) {
    uint64_t at;
    memcpy(&at, &fault.payload[4], 8);
    return at;
}

/* Lends `bytes` bytes at `at`, which a copy reads; takes them away by `take` and has a copy read them again. */
static void is_fault_without(char *at, size_t bytes, void (*take)(char *, size_t)) {
    struct queue queue = queue_of(DMA);
    char *to = allocate(bytes, VRAM, NULL);
    char *lent = allocate(bytes, USERPTR, at);
    copy(&queue, to, lent, bytes);
    CHECK(end_of(&queue, 10000) == DONE && to[bytes - 1] == 7);
    take(at, bytes);
    copy(&queue, to, lent, bytes);
    CHECK(end_of(&queue, 10000) == FAULT);
    CHECK(fault_at() >= (uintptr_t)lent && fault_at() < (uintptr_t)lent + bytes);
}

static int is_mapped(char *at) {
    return msync(at, PAGE, MS_ASYNC) == 0;
}

static void *block;

static void frees(char *at, size_t bytes) {
    free(block);
    CHECK(!is_mapped(at) && bytes);
}

/* Inside of the C library, where no hook is. */
static void freed_blocks_are_faults(void) {
    open_gpu();
    block = malloc(4 * MIB);
    memset(block, 7, 4 * MIB);
    char *at = (char *)(((uintptr_t)block + PAGE - 1) & -PAGE);
    is_fault_without(at, MIB, frees);
    CHECK(!is_mapped(at) && !is_mapped(at + MIB - PAGE));
}

static void unmaps_behind_the_back(char *at, size_t bytes) {
    CHECK(syscall(SYS_munmap, at, bytes) == 0);
}

static void plain_system_calls_are_faults(void) {
    open_gpu();
    char *at = pages(MIB);
    is_fault_without(at, MIB, unmaps_behind_the_back);
    CHECK(!is_mapped(at) && !is_mapped(at + MIB - PAGE));
}

static void protects_behind_the_back(char *at, size_t bytes) {
    CHECK(syscall(SYS_mprotect, at, bytes, PROT_NONE) == 0);
}

static void protected_pages_are_faults_and_stay_protected(void) {
    open_gpu();
    char *at = pages(MIB);
    is_fault_without(at, MIB, protects_behind_the_back);
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    for (size_t i = 0; i < MIB; i += PAGE)
        CHECK(write(pipes[1], at + i, 1) == -1 && errno == EFAULT);
    CHECK(mprotect(at, MIB, PROT_READ) == 0);
    for (size_t i = 0; i < MIB; i++)
        CHECK(at[i] == 7);
}

static int file;

static void truncates(char *at, size_t bytes) {
    CHECK(ftruncate(file, 0) == 0 && at && bytes);
}

static void truncated_files_are_faults_and_stay_mapped(void) {
    open_gpu();
    CHECK((file = memfd_create("lent", MFD_CLOEXEC)) >= 0 && ftruncate(file, MIB) == 0);
    char *at = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(at, 7, MIB);
    is_fault_without(at, MIB, truncates);
    CHECK(ftruncate(file, MIB) == 0);
    for (size_t i = 0; i < MIB; i += PAGE) {
        CHECK(at[i] == 0 && pwrite(file, "x", 1, i) == 1 && at[i] == 'x');
    }
}

static void detaches(char *at, size_t bytes) {
    CHECK(shmdt(at) == 0 && bytes);
}

static void detached_segments_are_faults(void) {
    open_gpu();
    int id = shmget(IPC_PRIVATE, MIB, 0600 | IPC_CREAT);
    char *at = shmat(id, NULL, 0);
    CHECK(at != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    memset(at, 7, MIB);
    is_fault_without(at, MIB, detaches);
}

static void shrinks(char *at, size_t bytes) {
    CHECK(sbrk(-(4 * (long)MIB)) != (void *)-1 && !is_mapped(at) && bytes);
}

static void a_data_segment_that_shrinks_is_a_fault(void) {
    /* What is allocated from here on finds room before what follows. */
    CHECK(mallopt(M_TRIM_THRESHOLD, 256 * MIB) && mallopt(M_MMAP_THRESHOLD, 32 * MIB));
    free(malloc(16 * MIB));
    open_gpu();
    char *old = sbrk(4 * MIB);
    memset(old, 7, 4 * MIB);
    is_fault_without((char *)(((uintptr_t)old + PAGE - 1) & -PAGE), MIB, shrinks);
    CHECK(sbrk(4 * MIB) == old);
}

static void moves(char *at, size_t bytes) {
    CHECK(mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, room(bytes)) != MAP_FAILED);
}

static void moved_pages_are_faults(void) {
    open_gpu();
    is_fault_without(pages(MIB), MIB, moves);
}

/* Until the copy has come to its first byte. */
static void wait_for(volatile char *at, char value) {
    while (*at != value)
        usleep(100);
}

static void memory_may_go_in_the_middle_of_a_copy(void) {
    open_gpu();
    const size_t bytes = 256 * MIB;
    for (int in_order = 0; in_order < 2; in_order++) {
        struct queue queue = queue_of(DMA);
        char *to = allocate(bytes, VRAM, NULL), *at = pages(bytes), *lent = allocate(bytes, USERPTR, at);
        copy(&queue, to, lent, bytes);
        wait_for(to, 7);
        if (in_order) {
            unmap(handle);
            CHECK(ioctl(kfd, FREE, &handle) == 0);
        }
        CHECK(munmap(at, bytes) == 0);
        CHECK(end_of(&queue, 10000) == FAULT && fault_at() > (uintptr_t)lent && fault_at() < (uintptr_t)lent + bytes);
        CHECK(to[bytes - 1] == 0);
    }
}

static size_t filled(const char *at, size_t bytes) {
    size_t length = 0;
    while (length < bytes && at[length] == 0x55)
        length += 64;
    return length;
}

static void nothing_is_written_once_it_is_unmapped(void) {
    open_gpu();
    const size_t bytes = 256 * MIB;
    for (int lent = 0; lent < 2; lent++) {
        struct queue queue = queue_of(DMA);
        char *at = lent ? pages(bytes) : NULL;
        char *to = allocate(bytes, lent ? USERPTR : VRAM, at);
        char *seen = lent ? at : to;
        fill(&queue, to, 0x55555555, bytes);
        wait_for(seen, 0x55);
        unmap(handle);
        size_t then = filled(seen, bytes);
        CHECK(end_of(&queue, 10000) == FAULT && then < bytes);
        CHECK(filled(seen, bytes) == then && fault_at() == (uintptr_t)to + then);
    }
}

/* A queue in the middle of a large packet is suspended and destroyed at once. */
static void large_packets_do_not_hold_up_the_program(void) {
    open_gpu();
    const size_t bytes = 1024 * MIB - 4;
    struct queue queue = queue_of(DMA);
    char *to = allocate(1024 * MIB, VRAM, NULL);
    fill(&queue, to, 0x55555555, bytes);
    wait_for(to, 0x55);
    struct { uint64_t ring; uint32_t id, bytes, percentage, priority; } update = {
        (uintptr_t)queue.ring, queue.id, 4 * PAGE, 0, 7};
    CHECK(ioctl(kfd, UPDATE_QUEUE, &update) == 0);
    size_t then = filled(to, bytes);
    usleep(20000);
    CHECK(then < bytes && filled(to, bytes) == then);
    update.percentage = 100;
    CHECK(ioctl(kfd, UPDATE_QUEUE, &update) == 0);
    wait_for(to + then + MIB, 0x55);
    uint32_t destroy[2] = {queue.id, 0};
    CHECK(ioctl(kfd, DESTROY_QUEUE, destroy) == 0);
    CHECK(to[bytes - 1] == 0);
}

/* s_load_dwordx2 s[2:3], s[0:1], 0; v_lshlrev_b32 v1, 2, v0; then for ever: global_store_dword v1, v0, s[2:3] */
static const uint32_t STORES[] = {
    0xc0060080, 0, 0xbf8cc07f, 0x24020082, 0xdc708000, 0x00020001, 0xbf8c0f70, 0xbf82fffc,
};

/* Starts a kernel that stores to `at` for ever. */
static struct queue storing(char *at) {
    struct queue queue = queue_of(AQL);
    char *code = allocate(PAGE, GTT, NULL);
    uint64_t entry = 256, one = 1, argument = (uintptr_t)at;
    uint32_t kernarg = 8, registers[3] = {1, 0x00ac0000, 0x84};
    uint16_t properties = 8;
    memcpy(code + 8, &kernarg, 4);
    memcpy(code + 16, &entry, 8);
    memcpy(code + 44, registers, 12);
    memcpy(code + 56, &properties, 2);
    memcpy(code + 256, STORES, sizeof STORES);
    memcpy(code + 1024, &argument, 8);
    memcpy(code + 2048, &one, 8);
    memcpy(code + 2056, &one, 8);
    uint16_t *packet = (void *)queue.ring;
    uint64_t object = (uintptr_t)code, kernargs = object + 1024, signal = object + 2048;
    uint16_t setup[4] = {1, 64, 1, 1};
    uint32_t grid[3] = {64, 1, 1};
    memcpy(packet + 1, setup, 8);
    memcpy(packet + 6, grid, 12);
    memcpy(packet + 16, &object, 8);
    memcpy(packet + 20, &kernargs, 8);
    memcpy(packet + 28, &signal, 8);
    __atomic_store_n(packet, 0x1402, __ATOMIC_RELEASE);
    *queue.write = 1;
    __atomic_store_n(queue.doorbell, 0, __ATOMIC_RELEASE);
    /* Lane 1 stores its number. */
    queue.words = 1;
    return queue;
}

static void memory_may_go_under_a_kernel(void) {
    open_gpu();
    void (*const ways[])(char *, size_t) = {NULL, unmaps_behind_the_back, protects_behind_the_back, moves};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *at = pages(PAGE), *lent = allocate(PAGE, USERPTR, at);
        struct queue queue = storing(lent);
        wait_for(at + 4, 1);
        if (ways[i])
            ways[i](at, PAGE);
        else
            CHECK(munmap(at, PAGE) == 0);
        CHECK(end_of(&queue, 10000) == FAULT && fault_at() == (uintptr_t)lent);
    }
}

/* What replaces lent memory at once is not written by those that had the old one. */
static void what_comes_after_is_not_touched(void) {
    open_gpu();
    char *at = pages(PAGE);
    struct { uint64_t at, bytes; uint32_t set, count, access, gpu; } args = {(uintptr_t)at, PAGE, 0, 1, 2, gpu};
    CHECK(ioctl(kfd, SVM, &args) == 0);
    struct queue queue = storing(at);
    wait_for(at + 4, 1);
    CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, ANONYMOUS | MAP_FIXED, -1, 0) == at);
    CHECK(end_of(&queue, 10000) == FAULT && fault_at() == (uintptr_t)at);
    for (size_t i = 0; i < PAGE; i++)
        CHECK(at[i] == 0);
}

static int is_registered(char *at) {
    struct allocate args = {(uintptr_t)at, PAGE, 0, 0, gpu, VRAM | ACCESS};
    return ioctl(kfd, ALLOCATE, &args) == -1 && errno == EADDRINUSE;
}

/* Calls that fail, or leave a part where it is, take nothing from the GPU. */
static void what_stays_keeps_its_registration(void) {
    open_gpu();
    char *at = pages(4 * PAGE), *to = allocate(4 * PAGE, VRAM, NULL);
    struct { uint64_t at, bytes; uint32_t set, count, access, gpu; } args = {(uintptr_t)at, 4 * PAGE, 0, 1, 2, gpu};
    CHECK(ioctl(kfd, SVM, &args) == 0);
    struct queue queue = queue_of(DMA);
    CHECK(munmap(at + 1, PAGE) == -1 && errno == EINVAL && is_registered(at));
    CHECK(mmap(at, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EBADF && is_registered(at));
    CHECK(mremap(at, 4 * PAGE, 4 * PAGE, 0x40) == MAP_FAILED && is_registered(at));
    copy(&queue, to, at, 4 * PAGE);
    CHECK(end_of(&queue, 10000) == DONE && to[4 * PAGE - 1] == 7);
    CHECK(mremap(at, 4 * PAGE, 2 * PAGE, 0) == at && is_registered(at) && is_registered(at + PAGE));
    CHECK(!is_registered(at + 2 * PAGE) && !is_registered(at + 3 * PAGE));
    copy(&queue, to, at, 2 * PAGE);
    CHECK(end_of(&queue, 10000) == DONE);
    copy(&queue, to, at + 2 * PAGE, 1);
    CHECK(end_of(&queue, 10000) == FAULT);
}

static sigjmp_buf back;
static volatile int came;
static siginfo_t seen;
static void *volatile stack_seen;

static void catch(int signal, siginfo_t *info, void *context) {
    came = signal;
    seen = *info;
    stack_seen = context;
    siglongjmp(back, 1);
}

static void catch_plainly(int signal) {
    came = signal;
    siglongjmp(back, 1);
}

/* Stores where nothing is. */
static void stumble(char *at) {
    came = 0;
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)at = 1;
}

static int dies_of(int signal, void (*how)(char *), char *at) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        how(at);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

static void store(char *at) { *(volatile char *)at = 1; }
static void send(char *at) { CHECK(kill(getpid(), SIGSEGV) == 0 && at); }

static void handlers_of_the_program_are_its_own(void) {
    struct sigaction mine = {.sa_sigaction = catch, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;
    sigaddset(&mine.sa_mask, SIGUSR1);
    CHECK(sigaction(SIGSEGV, &mine, NULL) == 0);
    open_gpu();
    char *at = pages(MIB);
    char *nothing = room(PAGE);
    char stack[64 * 1024];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct queue queue = queue_of(DMA);
    char *to = allocate(MIB, VRAM, NULL), *lent = allocate(MIB, USERPTR, at);
    /* Set before there was a handler of the driver's. */
    CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_sigaction == catch);
    CHECK(old.sa_flags & SA_SIGINFO && old.sa_flags & SA_ONSTACK && sigismember(&old.sa_mask, SIGUSR1) == 1);
    stumble(nothing);
    CHECK(came == SIGSEGV && seen.si_addr == nothing && seen.si_code == SEGV_ACCERR);
    CHECK((char *)stack_seen >= stack && (char *)stack_seen < stack + sizeof stack);
    /* And where memory was lent. */
    CHECK(syscall(SYS_munmap, at, MIB) == 0);
    stumble(at);
    CHECK(came == SIGSEGV && seen.si_addr == at && seen.si_code == SEGV_MAPERR);
    /* Set since. */
    CHECK(signal(SIGSEGV, catch_plainly) == (void (*)(int))catch);
    stumble(nothing);
    CHECK(came == SIGSEGV);
    CHECK(sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == catch_plainly && !(old.sa_flags & SA_SIGINFO));
    copy(&queue, to, lent, MIB);
    CHECK(end_of(&queue, 10000) == FAULT);
    /* Once only. */
    mine.sa_flags |= SA_RESETHAND;
    CHECK(sigaction(SIGSEGV, &mine, NULL) == 0);
    stumble(nothing);
    CHECK(came == SIGSEGV && sigaction(SIGSEGV, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(dies_of(SIGSEGV, store, nothing) && dies_of(SIGSEGV, store, at) && dies_of(SIGSEGV, send, at));
    CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
    CHECK(dies_of(SIGSEGV, store, nothing) && !dies_of(SIGSEGV, send, at));
    CHECK(signal(SIGSEGV, SIG_DFL) == SIG_IGN && signal(SIGBUS, SIG_DFL) == SIG_DFL);
}

static const struct check CHECKS[] = {
    {"freed_blocks_are_faults", freed_blocks_are_faults},
    {"plain_system_calls_are_faults", plain_system_calls_are_faults},
    {"protected_pages_are_faults_and_stay_protected", protected_pages_are_faults_and_stay_protected},
    {"truncated_files_are_faults_and_stay_mapped", truncated_files_are_faults_and_stay_mapped},
    {"detached_segments_are_faults", detached_segments_are_faults},
    {"a_data_segment_that_shrinks_is_a_fault", a_data_segment_that_shrinks_is_a_fault},
    {"moved_pages_are_faults", moved_pages_are_faults},
    {"memory_may_go_in_the_middle_of_a_copy", memory_may_go_in_the_middle_of_a_copy},
    {"nothing_is_written_once_it_is_unmapped", nothing_is_written_once_it_is_unmapped},
    {"large_packets_do_not_hold_up_the_program", large_packets_do_not_hold_up_the_program},
    {"memory_may_go_under_a_kernel", memory_may_go_under_a_kernel},
    {"what_comes_after_is_not_touched", what_comes_after_is_not_touched},
    {"what_stays_keeps_its_registration", what_stays_keeps_its_registration},
    {"handlers_of_the_program_are_its_own", handlers_of_the_program_are_its_own},
};

int main(int argc, char **argv) {
    return run_check(CHECKS, sizeof CHECKS / sizeof *CHECKS, argc > 1 ? argv[1] : "");
}
