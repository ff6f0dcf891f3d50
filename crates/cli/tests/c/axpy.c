/* A program that uses the GPU through the driver alone, as a runtime does: dispatches `axpy` of a code object for gfx942
 * and looks at what it computes. Arguments: code object, then what to do: `run N`, `pm4 N`, `pair`, `child`, `hidden`,
 * `destroy FILE`, `exit FILE`. */
#define _GNU_SOURCE
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of linux/kfd_ioctl.h, which needs headers of libdrm. */
struct kfd_ioctl_create_queue_args {
    uint64_t ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
    uint32_t ring_size, gpu_id, queue_type, queue_percentage, queue_priority, queue_id;
    uint64_t eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
    uint32_t ctx_save_restore_size, ctl_stack_size, sdma_engine_id, pad;
};
struct kfd_ioctl_acquire_vm_args { uint32_t drm_fd, gpu_id; };
struct kfd_ioctl_alloc_memory_of_gpu_args { uint64_t va_addr, size, handle, mmap_offset; uint32_t gpu_id, flags; };
struct kfd_ioctl_map_memory_to_gpu_args { uint64_t handle, device_ids_array_ptr; uint32_t n_devices, n_success; };
#define AMDKFD_IOC_CREATE_QUEUE _IOWR('K', 0x02, struct kfd_ioctl_create_queue_args)
struct kfd_ioctl_destroy_queue_args { uint32_t queue_id, pad; };
#define AMDKFD_IOC_DESTROY_QUEUE _IOWR('K', 0x03, struct kfd_ioctl_destroy_queue_args)
#define AMDKFD_IOC_ACQUIRE_VM _IOW('K', 0x15, struct kfd_ioctl_acquire_vm_args)
#define AMDKFD_IOC_ALLOC_MEMORY_OF_GPU _IOWR('K', 0x16, struct kfd_ioctl_alloc_memory_of_gpu_args)
#define AMDKFD_IOC_MAP_MEMORY_TO_GPU _IOWR('K', 0x18, struct kfd_ioctl_map_memory_to_gpu_args)
enum { KFD_IOC_QUEUE_TYPE_COMPUTE = 0, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL = 2 };
/* GTT, writable, executable. */
#define FLAGS (1u << 1 | 1u << 31 | 1u << 30)

#define NEED(what) do { if (!(what)) { fprintf(stderr, "line %d: %s: %m\n", __LINE__, #what); exit(99); } } while (0)
#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes/1/"
enum { COUNT = 230 };

static int kfd, render;
static unsigned gpu, save_area, control_stack;

static unsigned property(const char *name) {
    FILE *file = fopen(NODES "properties", "r");
    char key[64];
    unsigned long value;
    NEED(file);
    while (fscanf(file, "%63s %lu", key, &value) == 2)
        if (!strcmp(key, name)) {
            fclose(file);
            return value;
        }
    NEED(!"property");
    return 0;
}

static void start(void) {
    FILE *id = fopen(NODES "gpu_id", "r");
    NEED(id && fscanf(id, "%u", &gpu) == 1);
    fclose(id);
    save_area = property("cwsr_size");
    control_stack = property("ctl_stack_size");
    char path[64];
    snprintf(path, sizeof path, "/dev/dri/renderD%u", property("drm_render_minor"));
    NEED((kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC)) >= 0);
    NEED((render = open(path, O_RDWR | O_CLOEXEC)) >= 0);
    struct kfd_ioctl_acquire_vm_args vm = {.drm_fd = render, .gpu_id = gpu};
    NEED(ioctl(kfd, AMDKFD_IOC_ACQUIRE_VM, &vm) == 0);
}

/* Memory at the same address for program and GPU. */
static void *allocate(size_t bytes) {
    bytes = (bytes + 4095) & ~4095ul;
    void *at = mmap(0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(at != MAP_FAILED);
    struct kfd_ioctl_alloc_memory_of_gpu_args args = {.va_addr = (uintptr_t)at, .size = bytes, .gpu_id = gpu, .flags = FLAGS};
    NEED(ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args) == 0);
    NEED(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, render, args.mmap_offset) == at);
    struct kfd_ioctl_map_memory_to_gpu_args map = {.handle = args.handle, .device_ids_array_ptr = (uintptr_t)&gpu, .n_devices = 1};
    NEED(ioctl(kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map) == 0);
    return at;
}

/* A loaded code object: its descriptor, and its first instruction. */
struct kernel {
    uint8_t *descriptor;
    uint32_t *entry;
};

/* Loads a code object as ROCr's loader does, header and symbols included. */
static struct kernel load(const char *path) {
    static uint8_t file[1 << 16];
    int fd = open(path, O_RDONLY);
    NEED(fd >= 0 && read(fd, file, sizeof file) > 0);
    close(fd);
    Elf64_Ehdr *header = (void *)file;
    Elf64_Phdr *segments = (void *)(file + header->e_phoff);
    uint8_t *base = allocate(1 << 16);
    Elf64_Dyn *dynamic = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD)
            memcpy(base + segments[i].p_vaddr, file + segments[i].p_offset, segments[i].p_filesz);
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = (void *)(base + segments[i].p_vaddr);
    }
    NEED(dynamic);
    Elf64_Sym *symbols = 0;
    char *names = 0;
    uint32_t count = 0;
    for (; dynamic->d_tag; dynamic++) {
        uint8_t *at = base + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_SYMTAB) symbols = (void *)at;
        if (dynamic->d_tag == DT_STRTAB) names = (void *)at;
        if (dynamic->d_tag == DT_HASH) count = ((uint32_t *)at)[1];
    }
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(names + symbols[i].st_name, "axpy.kd")) {
            uint8_t *descriptor = base + symbols[i].st_value;
            int64_t offset;
            memcpy(&offset, descriptor + 16, 8);
            return (struct kernel){descriptor, (uint32_t *)(descriptor + offset)};
        }
    NEED(!"axpy.kd");
    exit(99);
}

struct queue {
    uint8_t *ring, *state;
    volatile uint64_t *doorbell;
    uint64_t next;
    uint32_t id;
    int is_pm4;
};

static struct queue make_queue_of(uint32_t type) {
    struct queue queue = {.ring = allocate(4096), .state = allocate(4096), .is_pm4 = type == KFD_IOC_QUEUE_TYPE_COMPUTE};
    for (int i = 0; i < 64 && !queue.is_pm4; i++)
        *(uint16_t *)(queue.ring + 64 * i) = 1;
    *(uint32_t *)(queue.state + 64) = 0x10000;
    *(uint32_t *)(queue.state + 68) = 0x20000;
    *(uint32_t *)(queue.state + 136) = 128;
    struct kfd_ioctl_create_queue_args args = {.ring_base_address = (uintptr_t)queue.ring,
        .write_pointer_address = (uintptr_t)queue.state + 56, .read_pointer_address = (uintptr_t)queue.state + 128,
        .ring_size = 4096, .gpu_id = gpu, .queue_type = type, .queue_percentage = 100,
        .queue_priority = 7, .ctx_save_restore_size = save_area, .ctl_stack_size = control_stack};
    NEED(ioctl(kfd, AMDKFD_IOC_CREATE_QUEUE, &args) == 0);
    queue.id = args.queue_id;
    uint64_t page = args.doorbell_offset & ~8191ul;
    uint8_t *doorbells = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, page);
    NEED(doorbells != MAP_FAILED);
    queue.doorbell = (void *)(doorbells + (args.doorbell_offset & 8191));
    return queue;
}

static struct queue make_queue(void) { return make_queue_of(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL); }

static void put(struct queue *queue, uint32_t word) { ((uint32_t *)queue->ring)[queue->next++ % 1024] = word; }

/* A PM4 packet of `count` words behind its header. */
static void packet(struct queue *queue, uint32_t opcode, const uint32_t *words, int count) {
    put(queue, 3u << 30 | (uint32_t)(count - 1) << 16 | opcode << 8);
    for (int i = 0; i < count; i++)
        put(queue, words[i]);
}

/* SET_SH_REG: `count` registers of the compute pipe from `first` on. */
static void set_registers(struct queue *queue, uint32_t first, const uint32_t *values, int count) {
    uint32_t words[16] = {first - 0x2c00};
    memcpy(words + 1, values, 4 * count);
    packet(queue, 0x76, words, count + 1);
}

/* The same dispatch by registers: COMPUTE_PGM_LO, _RSRC1, _RSRC3, _USER_DATA_0, _START_X; the packet behind it writes the signal. */
static void dispatch_pm4(struct queue *queue, struct kernel kernel, void *kernarg, uint8_t *signal) {
    uint64_t entry = (uintptr_t)kernel.entry, arguments = (uintptr_t)kernarg, done = (uintptr_t)(signal + 8);
    uint32_t *descriptor = (uint32_t *)kernel.descriptor;
    set_registers(queue, 0x2e0c, (uint32_t[]){entry >> 8, entry >> 40}, 2);
    set_registers(queue, 0x2e12, descriptor + 12, 2);
    set_registers(queue, 0x2e2d, descriptor + 11, 1);
    set_registers(queue, 0x2e40, (uint32_t[]){arguments, arguments >> 32}, 2);
    set_registers(queue, 0x2e04, (uint32_t[]){0, 0, 0, 64, 1, 1, 0, 0}, 8);
    packet(queue, 0x15, (uint32_t[]){4, 1, 1, 1 | 4}, 4); /* DISPATCH_DIRECT */
    packet(queue, 0x37, (uint32_t[]){5 << 8 | 1 << 20, done, done >> 32, 0, 0}, 5); /* WRITE_DATA to memory */
    atomic_store((_Atomic uint64_t *)(queue->state + 56), queue->next);
    *queue->doorbell = queue->next;
}

/* Four workgroups of a wave each; `signal` becomes 0 at the end. */
static void dispatch(struct queue *queue, struct kernel kernel, void *kernarg, uint8_t *signal) {
    memset(signal, 0, 64);
    *(int64_t *)signal = 1;
    *(int64_t *)(signal + 8) = 1;
    if (queue->is_pm4) {
        dispatch_pm4(queue, kernel, kernarg, signal);
        return;
    }
    uint8_t *packet = queue->ring + 64 * (queue->next % 64);
    *(uint16_t *)(packet + 2) = 1;
    uint16_t group[3] = {64, 1, 1};
    uint32_t grid[3] = {256, 1, 1};
    memcpy(packet + 4, group, sizeof group);
    memcpy(packet + 12, grid, sizeof grid);
    memset(packet + 24, 0, 8);
    uintptr_t addresses[3] = {(uintptr_t)kernel.descriptor, (uintptr_t)kernarg, 0};
    memcpy(packet + 32, addresses, sizeof addresses);
    *(uint64_t *)(packet + 56) = (uintptr_t)signal;
    /* A kernel dispatch that acquires and releases for the system. */
    atomic_store((_Atomic uint16_t *)packet, 2 | 2 << 9 | 2 << 11);
    atomic_store((_Atomic uint64_t *)(queue->state + 56), queue->next + 1);
    *queue->doorbell = queue->next++;
}

static void wait_for(uint8_t *signal) {
    for (int i = 0; atomic_load((_Atomic int64_t *)(signal + 8)) != 0; i++) {
        NEED(i < 120000);
        usleep(500);
    }
}

/* Begins axpy. Its arguments are at 12 KiB of the memory that is returned, its signal 256 bytes behind. */
static float *begin(struct queue *queue, struct kernel kernel, int turn) {
    float *memory = allocate(4096 * 4), *out = memory, *x = memory + 1024, *y = memory + 2048;
    uint8_t *kernarg = (void *)(memory + 3072);
    for (int i = 0; i < COUNT; i++) {
        x[i] = i + turn;
        y[i] = 3 * i;
    }
    struct { float *out, *x, *y; float alpha; uint32_t count; } arguments = {out, x, y, 0.5f, COUNT};
    memcpy(kernarg, &arguments, sizeof arguments);
    dispatch(queue, kernel, kernarg, kernarg + 256);
    return memory;
}

/* Runs axpy; whether all elements are right. */
static int axpy(struct queue *queue, struct kernel kernel, int turn) {
    float *memory = begin(queue, kernel, turn), *out = memory, *x = memory + 1024, *y = memory + 2048;
    wait_for((uint8_t *)(memory + 3072) + 256);
    int right = 1;
    for (int i = 0; i < COUNT; i++)
        right &= out[i] == 0.5f * x[i] + y[i];
    printf("dispatch %d is %s\n", turn, right ? "right" : "wrong");
    fflush(stdout);
    return right;
}

/* One kernel waits in one queue for what another one stores in another queue. */
static int pair(const char *path) {
    static const uint32_t waits[] = {0xc00a0200, 0, 0xbf8cc07f, /* s_load_dwordx4 s[8:11], s[0:1], 0x0; s_waitcnt lgkmcnt(0) */
        0xc0030084, 0, 0xbf8cc07f, 0xbf068002, 0xbf85fffb, 0xbf810000}; /* s_load_dword s2, s[8:9], 0x0 glc; loop while 0 */
    static const uint32_t stores[] = {0xc00a0200, 0, 0xbf8cc07f,
        0x7e020280, 0x7e040281, 0xdc708000, 0x00080201, 0xbf810000}; /* global_store_dword v1, v2, s[8:9] of 0, 1 */
    struct kernel first = load(path), second = load(path);
    memcpy(first.entry, waits, sizeof waits);
    memcpy(second.entry, stores, sizeof stores);
    struct queue one = make_queue(), other = make_queue();
    uint8_t *memory = allocate(4096);
    uint64_t flag = (uintptr_t)memory + 2048;
    memcpy(memory, &flag, 8);
    dispatch(&one, first, memory, memory + 256);
    usleep(100000);
    dispatch(&other, second, memory, memory + 512);
    wait_for(memory + 256);
    wait_for(memory + 512);
    puts("both have ended");
    return 0;
}

/* Sockets of this process: none among the low numbers, all closed on exec. */
static void check_hidden(void) {
    DIR *all = opendir("/proc/self/fd");
    struct dirent *entry;
    int sockets = 0;
    NEED(all);
    while ((entry = readdir(all))) {
        int fd = atoi(entry->d_name);
        struct stat st;
        if (fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode) || fd < 3)
            continue;
        sockets++;
        NEED(fd > 100 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    }
    closedir(all);
    printf("%d sockets\n", sockets);
}

/* Waits until somebody has made a file. */
static void until_there(const char *path) {
    for (int i = 0; access(path, F_OK) != 0; i++) {
        NEED(i < 120000);
        usleep(500);
    }
}

/* A dispatch is under way when the file FILE appears. Destroys its queue then, makes FILE.done, and uses another queue. */
static int destroy(const char *code, const char *file) {
    struct kernel kernel = load(code);
    struct queue first = make_queue();
    begin(&first, kernel, 1);
    until_there(file);
    struct kfd_ioctl_destroy_queue_args args = {.queue_id = first.id};
    NEED(ioctl(kfd, AMDKFD_IOC_DESTROY_QUEUE, &args) == 0);
    char done[512];
    snprintf(done, sizeof done, "%s.done", file);
    NEED(close(open(done, O_CREAT | O_WRONLY, 0600)) == 0);
    struct queue second = make_queue();
    return !axpy(&second, kernel, 2);
}

int main(int argc, char **argv) {
    NEED(argc >= 3);
    start();
    if (!strcmp(argv[2], "destroy"))
        return destroy(argv[1], argv[3]);
    if (!strcmp(argv[2], "exit")) {
        struct queue queue = make_queue();
        begin(&queue, load(argv[1]), 1);
        until_there(argv[3]);
        exit(5);
    }
    if (!strcmp(argv[2], "pair"))
        return pair(argv[1]);
    struct kernel kernel = load(argv[1]);
    struct queue queue = strcmp(argv[2], "pm4") ? make_queue() : make_queue_of(KFD_IOC_QUEUE_TYPE_COMPUTE);
    int wrong = 0;
    int turns = argc > 3 ? atoi(argv[3]) : 1;
    for (int turn = 1; turn <= turns; turn++)
        wrong += !axpy(&queue, kernel, turn);
    if (!strcmp(argv[2], "hidden"))
        check_hidden();
    if (!strcmp(argv[2], "child")) {
        int pipes[2];
        char byte = 0;
        NEED(pipe(pipes) == 0);
        if (fork() == 0) {
            close(pipes[0]);
            start();
            struct kernel own = load(argv[1]);
            struct queue other = make_queue();
            byte = axpy(&other, own, 100) ? 'y' : 'n';
            NEED(write(pipes[1], &byte, 1) == 1);
            /* Outlives its parent. */
            sleep(20);
            _exit(0);
        }
        close(pipes[1]);
        NEED(read(pipes[0], &byte, 1) == 1 && byte == 'y');
        _exit(7);
    }
    return wrong;
}
