/* Buffers and pages: what the C library's functions say of exported buffers, and pages that vanish under the GPU. */
#include "check.h"
#include <sys/socket.h>

#define KFD_ACQUIRE_VM 0x40084b15u
#define KFD_ALLOC 0xc0284b16u
#define KFD_FREE 0x40084b17u
#define KFD_SVM 0xc0204b20u
#define KFD_EXPORT_DMABUF 0xc0104b24u

#define PAGE 4096ul

static int kfd;
static uint32_t gpu;

static void open_gpu(void) {
    FILE *file = fopen(NODES "/1/gpu_id", "r");
    CHECK(file && fscanf(file, "%u", &gpu) == 1 && fclose(file) == 0);
    kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    uint32_t acquire[2] = {open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC), gpu};
    CHECK(kfd >= 0 && ioctl(kfd, KFD_ACQUIRE_VM, acquire) == 0);
}

/* Device memory at an address of the GPU; its handle, or 0. */
static uint64_t allocate(uint64_t at, uint64_t bytes) {
    struct { uint64_t at, bytes, handle, offset; uint32_t gpu, flags; } args = {at, bytes, 0, 0, gpu, 1u << 31 | 1};
    return ioctl(kfd, KFD_ALLOC, &args) == 0 ? args.handle : 0;
}

static void sizes_are(int fd, off_t bytes) {
    struct stat st;
    struct statx sx;
    CHECK(fstat(fd, &st) == 0 && st.st_size == bytes && st.st_blocks == bytes / 512);
    CHECK(fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_size == bytes);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx) == 0);
    CHECK(sx.stx_size == (uint64_t)bytes && sx.stx_blocks == (uint64_t)bytes / 512);
    CHECK(lseek(fd, 0, SEEK_END) == bytes && lseek64(fd, 0, SEEK_END) == bytes);
}

static void exported_buffers_have_their_size(void) {
    open_gpu();
    struct { uint64_t handle; uint32_t flags, fd; } export = {allocate(0x100000000, 3 * PAGE - 1), O_CLOEXEC, 0};
    CHECK(export.handle && ioctl(kfd, KFD_EXPORT_DMABUF, &export) == 0);
    sizes_are(export.fd, 3 * PAGE);
    sizes_are(dup(export.fd), 3 * PAGE);
    errno = 1234;
    sizes_are(export.fd, 3 * PAGE);
    CHECK(errno == 1234);
    /* Files that are nobody's buffer keep theirs, with names and without. */
    char name[] = "/tmp/rocjitsu-XXXXXX";
    int file = mkstemp(name), memory = memfd_create("a program's", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(file >= 0 && memory >= 0 && ftruncate(memory, 5 * PAGE) == 0);
    for (int sealed = 0; sealed < 2; sealed++) {
        struct stat st;
        CHECK(fstat(memory, &st) == 0 && st.st_size == (off_t)(5 * PAGE));
        CHECK(lseek(memory, 0, SEEK_END) == (off_t)(5 * PAGE));
        CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == (sealed ? -1 : 0));
    }
    CHECK(write(file, name, 7) == 7 && lseek(file, 0, SEEK_END) == 7);
    CHECK(unlink(name) == 0 && lseek(file, 0, SEEK_END) == 7);
    struct stat st;
    CHECK(fstat(file, &st) == 0 && st.st_size == 7);
}

static int sent_and_received(int fd) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    char byte = 0, space[CMSG_SPACE(sizeof fd)];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    *control = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(control), &fd, sizeof fd);
    CHECK(sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
    return fd;
}

/* A device that comes in a message is the device. */
static void received_devices_are_devices(void) {
    open_gpu();
    int fd = sent_and_received(open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC));
    struct stat st, path;
    struct statx sx;
    CHECK(stat("/dev/dri/renderD128", &path) == 0);
    CHECK(fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == path.st_rdev && st.st_ino == path.st_ino);
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx) == 0 && sx.stx_rdev_minor == 128 && S_ISCHR(sx.stx_mode));
    uint64_t version[8] = {0};
    CHECK(ioctl(fd, 0xc0406400u, version) == 0 && (version[0] & 0xffffffff) == 3);
    int other = sent_and_received(kfd);
    CHECK(kfd_version_ok(other) && close(other) == 0 && close(fd) == 0);
    CHECK(fstat(fd, &st) == -1 && errno == EBADF && kfd_version_ok(kfd));
}

/* Two pages of the program's, which the GPU may reach at their own addresses. */
static char *lend(void) {
    char *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    struct { uint64_t at, bytes; uint32_t set, count, access, gpu; } args = {(uintptr_t)at, 2 * PAGE, 0, 1, 2, gpu};
    CHECK(ioctl(kfd, KFD_SVM, &args) == 0);
    CHECK(!allocate((uintptr_t)at, 2 * PAGE) && errno == EADDRINUSE);
    return at;
}

/* Whether device memory may lie where the program's page was. */
static int is_free(char *at) {
    uint64_t handle = allocate((uintptr_t)at, PAGE);
    CHECK(handle || errno == EADDRINUSE);
    return handle && ioctl(kfd, KFD_FREE, &handle) == 0;
}

static void pages_that_vanish_are_taken_from_the_gpu(void) {
    open_gpu();
    const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    /* One byte stands for its page, and for no other. */
    char *at = lend();
    CHECK(munmap(at, 1) == 0 && is_free(at) && !is_free(at + PAGE));
    CHECK(munmap(at + PAGE, 1) == 0 && is_free(at + PAGE));

    at = lend();
    CHECK(mmap(at, 1, PROT_READ, anonymous | MAP_FIXED, -1, 0) == at && is_free(at) && !is_free(at + PAGE));
    at = lend();
    CHECK(mmap64(at, 1, PROT_READ, anonymous | MAP_FIXED, -1, 0) == at && is_free(at) && !is_free(at + PAGE));

    /* Unmapped where nobody sees it, and mapped again. */
    at = lend();
    CHECK(syscall(SYS_munmap, at, PAGE) == 0 && mmap(at, PAGE, PROT_READ, anonymous, -1, 0) == at);
    CHECK(is_free(at) && !is_free(at + PAGE));

    /* What moves away, and what it moves over. */
    at = lend();
    char *other = lend();
    CHECK(mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
    CHECK(is_free(at) && !is_free(at + PAGE) && is_free(other) && !is_free(other + PAGE));

    at = lend();
    CHECK(mprotect(at, 1, PROT_NONE) == 0 && is_free(at));
}

static const struct check CHECKS[] = {
    {"exported_buffers_have_their_size", exported_buffers_have_their_size},
    {"received_devices_are_devices", received_devices_are_devices},
    {"pages_that_vanish_are_taken_from_the_gpu", pages_that_vanish_are_taken_from_the_gpu},
};

int main(int argc, char **argv) {
    return run_check(CHECKS, sizeof CHECKS / sizeof *CHECKS, argc > 1 ? argv[1] : "");
}
