/* The smallest program with a GPU: opens the driver's files with plain calls of the C library, makes a queue and
 * runs one kernel of gfx942 on it. Says `done` when the kernel is, `stopped` if the queue stops at a fault.
 *
 *   dispatch exact|bounded      one instruction, whose result is exact, or within a bound of the hardware's
 *   dispatch load OFFSET        64 words of a page of VRAM that nobody has written, from that offset in bytes
 *   dispatch copied OFFSET      the same when the program has written the page */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* What is used of the driver's interface, Linux's `kfd_ioctl.h`. */
struct acquire_vm {
    uint32_t drm_fd, gpu_id;
};
struct allocate {
    uint64_t va_addr, size, handle, mmap_offset;
    uint32_t gpu_id, flags;
};
struct map {
    uint64_t handle, device_ids;
    uint32_t n_devices, n_success;
};
struct create_queue {
    uint64_t ring, write_pointer, read_pointer, doorbell_offset;
    uint32_t ring_size, gpu_id, type, percentage, priority, id;
    uint64_t eop, eop_size, save_area;
    uint32_t save_area_size, ctl_stack_size;
};
struct create_event {
    uint64_t page;
    uint32_t trigger, type, auto_reset, node, id, slot;
};
struct event_data {
    uint32_t payload[8];
    uint64_t extension;
    uint32_t id, pad;
};
struct wait_events {
    uint64_t events;
    uint32_t count, all, milliseconds, result;
};
#define CREATE_QUEUE _IOWR('K', 0x02, struct create_queue)
#define CREATE_EVENT _IOWR('K', 0x08, struct create_event)
#define WAIT_EVENTS _IOWR('K', 0x0c, struct wait_events)
#define ACQUIRE_VM _IOW('K', 0x15, struct acquire_vm)
#define ALLOCATE _IOWR('K', 0x16, struct allocate)
#define MAP _IOWR('K', 0x18, struct map)
#define VRAM 1u
#define GTT 2u
#define EXECUTABLE_AND_WRITABLE (3u << 30)
#define AQL 2
#define MEMORY_EXCEPTION 8

#define CHECK(is) do { if (!(is)) { perror(#is); exit(1); } } while (0)
#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes"

static int kfd, render;
static uint32_t gpu;

static uint32_t property(int node, const char *name) {
    char path[256], key[64];
    unsigned long long value;
    uint32_t found = 0;
    snprintf(path, sizeof path, NODES "/%d/properties", node);
    FILE *file = fopen(path, "r");
    CHECK(file);
    while (fscanf(file, "%63s %llu", key, &value) == 2)
        if (!strcmp(key, name)) found = value;
    fclose(file);
    return found;
}

static uint32_t gpu_id(int node) {
    char path[256];
    uint32_t id = 0;
    snprintf(path, sizeof path, NODES "/%d/gpu_id", node);
    FILE *file = fopen(path, "r");
    CHECK(file);
    CHECK(fscanf(file, "%u", &id) == 1);
    fclose(file);
    return id;
}

/* Memory at the same address for both; without `host` the program cannot reach it. */
static uint8_t *allocate(uint64_t bytes, uint32_t flags, int host) {
    /* An empty page lies on both sides. */
    uint8_t *at = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED);
    at += 4096;
    struct allocate alloc = {
        .va_addr = (uint64_t)at,
        .size = bytes,
        .gpu_id = gpu,
        .flags = flags | EXECUTABLE_AND_WRITABLE,
    };
    CHECK(!ioctl(kfd, ALLOCATE, &alloc));
    if (host)
        CHECK(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, render, alloc.mmap_offset) == at);
    struct map map = {
        .handle = alloc.handle,
        .device_ids = (uint64_t)&gpu,
        .n_devices = 1,
    };
    CHECK(!ioctl(kfd, MAP, &map));
    return at;
}

static void put(uint8_t *at, uint64_t value, int bytes) {
    memcpy(at, &value, bytes);
}

int main(int argc, char **argv) {
    static const uint32_t exact[] = {0x02020100, 0xbf810000};
    static const uint32_t bounded[] = {0x7e024100, 0xbf810000};
    static const uint32_t load[] = {
        0xc0060080, 0x00000000, /* s_load_dwordx2 s[2:3], s[0:1], 0x0 */
        0xbf8cc07f,             /* s_waitcnt lgkmcnt(0) */
        0x24020082,             /* v_lshlrev_b32 v1, 2, v0 */
        0xdc508000, 0x02020001, /* global_load_dword v2, v1, s[2:3] */
        0xbf8c0f70,             /* s_waitcnt vmcnt(0) */
        0xbf810000,
    };
    CHECK(argc > 1);
    int loads = !strcmp(argv[1], "load") || !strcmp(argv[1], "copied");
    const uint32_t *code = loads ? load : !strcmp(argv[1], "exact") ? exact : bounded;
    size_t bytes = loads ? sizeof load : sizeof exact;

    CHECK((kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC)) >= 0);
    int node = 0;
    while (!(gpu = gpu_id(node))) node++;
    char path[64];
    snprintf(path, sizeof path, "/dev/dri/renderD%u", property(node, "drm_render_minor"));
    CHECK((render = open(path, O_RDWR | O_CLOEXEC)) >= 0);
    struct acquire_vm vm = {.drm_fd = render, .gpu_id = gpu};
    CHECK(!ioctl(kfd, ACQUIRE_VM, &vm));

    uint8_t *ring = allocate(4096, GTT, 1);
    uint8_t *state = allocate(4096, GTT, 1);
    uint8_t *kernel = allocate(4096, GTT, 1);
    uint8_t *data = allocate(4096, VRAM, !strcmp(argv[1], "copied"));
    if (!strcmp(argv[1], "copied")) memset(data, 0, 4096);
    for (int slot = 0; slot < 64; slot++) put(ring + 64 * slot, 1, 2);

    /* amd_queue_t: the apertures of LDS and scratch, where the read index lies. */
    put(state + 64, 0x00010000, 4);
    put(state + 68, 0x00020000, 4);
    put(state + 136, 128, 4);
    /* Set when a kernel accesses what it must not. */
    struct create_event event = {.type = MEMORY_EXCEPTION};
    CHECK(!ioctl(kfd, CREATE_EVENT, &event));
    struct create_queue queue = {
        .ring = (uint64_t)ring,
        .write_pointer = (uint64_t)state + 56,
        .read_pointer = (uint64_t)state + 128,
        .ring_size = 4096,
        .gpu_id = gpu,
        .type = AQL,
        .percentage = 100,
        .priority = 7,
        .save_area_size = property(node, "cwsr_size"),
        .ctl_stack_size = property(node, "ctl_stack_size"),
    };
    CHECK(!ioctl(kfd, CREATE_QUEUE, &queue));
    uint64_t page = queue.doorbell_offset & 8191;
    uint8_t *doorbells = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, queue.doorbell_offset - page);
    CHECK(doorbells != MAP_FAILED);

    /* A kernel descriptor, the code behind it, its argument and a signal. */
    put(kernel + 8, 8, 4);
    put(kernel + 16, 256, 8);
    put(kernel + 44, 1, 4);
    put(kernel + 48, 0x00ac0000, 4);
    put(kernel + 52, 0x84, 4);
    put(kernel + 56, 8, 2);
    memcpy(kernel + 256, code, bytes);
    put(kernel + 1024, (uint64_t)data + (argc > 2 ? strtoll(argv[2], NULL, 0) : 0), 8);
    put(kernel + 2048, 1, 8);
    put(kernel + 2056, 1, 8);

    put(ring + 2, 1, 2);
    put(ring + 4, 64, 2);
    put(ring + 6, 1, 2);
    put(ring + 8, 1, 2);
    put(ring + 12, 64, 4);
    put(ring + 16, 1, 4);
    put(ring + 20, 1, 4);
    put(ring + 32, (uint64_t)kernel, 8);
    put(ring + 40, (uint64_t)kernel + 1024, 8);
    put(ring + 56, (uint64_t)kernel + 2048, 8);
    __atomic_store_n((uint64_t *)(state + 56), 1, __ATOMIC_RELEASE);
    __atomic_store_n((uint16_t *)ring, 0x1402, __ATOMIC_RELEASE);
    __atomic_store_n((uint64_t *)(doorbells + page), 0, __ATOMIC_RELEASE);
    for (int i = 0; i < 20000; i++) {
        if (!__atomic_load_n((uint64_t *)(kernel + 2056), __ATOMIC_ACQUIRE)) {
            puts("done");
            return 0;
        }
        struct event_data data = {.id = event.id};
        struct wait_events wait = {.events = (uint64_t)&data, .count = 1, .milliseconds = 1};
        CHECK(!ioctl(kfd, WAIT_EVENTS, &wait));
        if (wait.result == 0) {
            puts("stopped");
            return 3;
        }
    }
    puts("the kernel does not end");
    return 4;
}
