/* Paths of the simulated trees through every function that takes a path. */
#include "check.h"
#include <sys/uio.h>

static void devices_are_character_devices(void) {
    struct stat st, at;
    CHECK(stat("/dev/kfd", &st) == 0 && S_ISCHR(st.st_mode));
    CHECK(stat("/dev/dri/renderD128", &st) == 0 && S_ISCHR(st.st_mode));
    CHECK(major(st.st_rdev) == 226 && minor(st.st_rdev) == 128);
    int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(fstat(fd, &at) == 0 && at.st_rdev == st.st_rdev && at.st_ino == st.st_ino && S_ISCHR(at.st_mode));
    CHECK(fstatat(fd, "", &at, AT_EMPTY_PATH) == 0 && at.st_rdev == st.st_rdev);
    struct statx sx;
    CHECK(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &sx) == 0);
    CHECK(sx.stx_rdev_major == 226 && sx.stx_rdev_minor == 128 && S_ISCHR(sx.stx_mode));
    CHECK(statx(AT_FDCWD, "/dev/kfd", 0, STATX_BASIC_STATS, &sx) == 0 && S_ISCHR(sx.stx_mode));
    CHECK(access("/dev/kfd", R_OK | W_OK) == 0);
    CHECK(access("/dev/kfd", X_OK) == -1 && errno == EACCES);
    CHECK(faccessat(AT_FDCWD, "/dev/dri", R_OK | X_OK, 0) == 0);
}

static void missing_paths_are_missing(void) {
    struct stat st;
    CHECK(open("/dev/dri/renderD255", O_RDWR) == -1 && errno == ENOENT);
    CHECK(stat(NODES "/99", &st) == -1 && errno == ENOENT);
    CHECK(open(NODES "/0/gpu_id/x", O_RDONLY) == -1 && errno == ENOTDIR);
    CHECK(fopen(NODES "/0/nothing", "r") == NULL && errno == ENOENT);
    CHECK(opendir(NODES "/0/gpu_id") == NULL && errno == ENOTDIR);
    CHECK(access(NODES "/0/nothing", F_OK) == -1 && errno == ENOENT);
    CHECK(realpath(NODES "/99", NULL) == NULL && errno == ENOENT);
    CHECK(open(NODES, O_RDWR) == -1 && errno == EISDIR);
    CHECK(open(NODES "/0/gpu_id", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOTDIR);
    CHECK(open(NODES "/0/gpu_id", O_WRONLY) == -1 && errno == EACCES);
}

static void success_keeps_errno(void) {
    errno = 1234;
    int fd = open("/dev/kfd", O_RDWR);
    CHECK(fd >= 0 && errno == 1234);
    CHECK(kfd_version_ok(fd) && errno == 1234);
    CHECK(dup(fd) >= 0 && close(fd) == 0 && errno == 1234);
    DIR *dir = opendir(NODES);
    while (readdir(dir))
        ;
    CHECK(errno == 1234 && closedir(dir) == 0);
}

static void files_have_their_text(void) {
    char one[4096], two[4096];
    int fd = open(NODES "/1/properties", O_RDONLY);
    CHECK(fd >= 0);
    ssize_t bytes = read(fd, one, sizeof one);
    CHECK(bytes > 100 && bytes < (ssize_t)sizeof one);
    CHECK(read(fd, two, 1) == 0);
    CHECK(pread(fd, two, sizeof two, 0) == bytes && memcmp(one, two, bytes) == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && read(fd, two, 10) == 10 && memcmp(one, two, 10) == 0);
    char *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(map != MAP_FAILED && memcmp(map, one, bytes) == 0);
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && S_ISREG(st.st_mode));
    FILE *file = fopen("/sys/class/kfd/kfd/topology/nodes/1/properties", "r");
    CHECK(file && fread(two, 1, sizeof two, file) == (size_t)bytes && memcmp(one, two, bytes) == 0);
    int number = fileno(file);
    CHECK(fclose(file) == 0);
    /* The number is free again, and whatever gets it is no file of the trees. */
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(zero == number && fstat(zero, &st) == 0 && S_ISCHR(st.st_mode));
    char key[64];
    unsigned long long value, simds = 0;
    file = fopen(NODES "/1/properties", "r");
    while (fscanf(file, "%63s %llu\n", key, &value) == 2)
        if (strcmp(key, "simd_count") == 0)
            simds = value;
    CHECK(simds > 0 && fclose(file) == 0);
}

static void directories_list(void) {
    DIR *dir = opendir(NODES "/");
    CHECK(dir);
    int seen = 0;
    struct dirent *entry;
    long second = 0;
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, "0") == 0 || strcmp(entry->d_name, "1") == 0) {
            CHECK(entry->d_type == DT_DIR);
            seen++;
            if (seen == 1)
                second = telldir(dir);
        }
    }
    CHECK(seen == 2);
    seekdir(dir, second);
    CHECK((entry = readdir(dir)) && strcmp(entry->d_name, "1") == 0);
    rewinddir(dir);
    CHECK((entry = readdir(dir)) && strcmp(entry->d_name, ".") == 0);
    struct stat st;
    CHECK(fstat(dirfd(dir), &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(fstatat(dirfd(dir), "1/gpu_id", &st, 0) == 0 && S_ISREG(st.st_mode));
    int file = openat(dirfd(dir), "1/gpu_id", O_RDONLY);
    char text[32] = "";
    CHECK(file >= 0 && read(file, text, 31) > 0 && atoi(text) > 0);
    int old = dirfd(dir);
    CHECK(closedir(dir) == 0 && fstat(old, &st) == -1 && errno == EBADF);

    int fd = open(NODES, O_RDONLY | O_DIRECTORY);
    dir = fdopendir(fd);
    CHECK(dir && readdir(dir) && closedir(dir) == 0);

    struct dirent **list;
    int count = scandir(NODES, &list, NULL, alphasort);
    CHECK(count == 4 && strcmp(list[2]->d_name, "0") == 0 && strcmp(list[3]->d_name, "1") == 0);
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

static int has(const char *path, const char *name) {
    DIR *dir = opendir(path);
    CHECK(dir);
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)))
        count += strcmp(entry->d_name, name) == 0;
    closedir(dir);
    return count;
}

static void real_directories_get_more(void) {
    CHECK(has("/dev", "kfd") == 1 && has("/dev", "dri") == 1 && has("/dev", "null") == 1 && has("/dev", ".") == 1);
    CHECK(has("/dev/dri", "renderD128") == 1);
    CHECK(has("/sys/class", "kfd") == 1 && has("/sys/class", "drm") == 1);
    CHECK(has("/sys/module", "amdgpu") == 1);
    DIR *dir = opendir("/dev");
    int fd = openat(dirfd(dir), "kfd", O_RDWR);
    CHECK(fd >= 0 && kfd_version_ok(fd));
    CHECK(openat(dirfd(dir), "null", O_RDWR) >= 0);
    struct stat st;
    CHECK(fstat(dirfd(dir), &st) == 0 && S_ISDIR(st.st_mode));
}

/* However a path is spelled, and whatever it is relative to. */
static void paths_may_be_spelled_oddly(void) {
    const char *odd[] = {"//dev/kfd", "/dev//kfd", "/./dev/./kfd", "/sys//class/kfd/kfd/topology/generation_id"};
    for (int i = 0; i < 4; i++) {
        int fd = open(odd[i], O_RDONLY);
        CHECK(fd >= 0 && close(fd) == 0);
    }
    int dev = open("/dev", O_RDONLY | O_DIRECTORY), class = open("/sys/class", O_RDONLY | O_DIRECTORY);
    struct stat st;
    CHECK(dev >= 0 && kfd_version_ok(openat(dev, "kfd", O_RDWR)) && faccessat(dev, "dri/renderD128", R_OK, 0) == 0);
    CHECK(fstatat(class, "kfd/kfd/topology", &st, 0) == 0 && S_ISDIR(st.st_mode));
    CHECK(openat(class, "dri", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(chdir("/dev") == 0 && kfd_version_ok(open("kfd", O_RDWR)) && stat("dri", &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(chdir("/") == 0 && open("kfd", O_RDWR) == -1 && errno == ENOENT);
    FILE *file = fopen("/dev/null", "r");
    int id = 0;
    CHECK(file && (file = freopen(NODES "/1/gpu_id", "r", file)) && fscanf(file, "%d", &id) == 1 && id > 0);
    CHECK(fstat(fileno(file), &st) == 0 && (file = freopen("/dev/null", "r", file)) && fgetc(file) == EOF && fclose(file) == 0);
}

static void links_lead_somewhere(void) {
    char target[PATH_MAX], path[PATH_MAX];
    ssize_t bytes = readlink("/sys/class/drm/renderD128", target, sizeof target);
    CHECK(bytes > 0);
    CHECK(readlink("/sys/class/drm/renderD128", target, 3) == 3);
    CHECK(readlink(NODES, target, sizeof target) == -1 && errno == EINVAL);
    struct stat st;
    CHECK(lstat("/sys/class/drm/renderD128", &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(stat("/sys/class/drm/renderD128", &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(realpath("/sys/class/kfd/kfd/topology/../topology/./nodes//1", path));
    CHECK(strcmp(path, NODES "/1") == 0);
    char *made = realpath("/sys/class/drm/renderD128/device", NULL);
    CHECK(made && strncmp(made, "/sys/devices/pci", 16) == 0);
    free(made);
    CHECK((made = canonicalize_file_name("/dev/kfd")) && strcmp(made, "/dev/kfd") == 0);
    free(made);
    int fd = open("/dev/kfd", O_RDWR);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    CHECK((bytes = readlink(path, target, sizeof target)) == 8 && memcmp(target, "/dev/kfd", 8) == 0);
    CHECK(open("/sys/class/drm/renderD128", O_RDONLY | O_NOFOLLOW) == -1 && errno == ELOOP);
}

static void globbing_finds_the_trees(void) {
    glob_t found;
    CHECK(glob(NODES "/*/gpu_id", 0, NULL, &found) == 0);
    CHECK(found.gl_pathc == 2 && strcmp(found.gl_pathv[1], NODES "/1/gpu_id") == 0);
    globfree(&found);
    CHECK(glob("/dev/dri/render*", GLOB_NOSORT, NULL, &found) == 0 && found.gl_pathc == 1);
    globfree(&found);
    CHECK(glob("/etc/passw?", 0, NULL, &found) == 0 && found.gl_pathc == 1);
    globfree(&found);
}

/* What lies behind a device is nobody's to read or write but by mapping it. */
static void devices_are_not_read_written_or_sized(void) {
    const char *names[] = {"/dev/kfd", "/dev/dri/renderD128"};
    for (int i = 0; i < 2; i++) {
        int fd = open(names[i], O_RDWR | O_CLOEXEC);
        char bytes[8] = "seven";
        struct iovec part = {bytes, sizeof bytes};
        CHECK(fd >= 0);
        /* A display's events are read from a render node, and there are none. */
        int none = i == 0 ? EINVAL : EAGAIN;
        CHECK(read(fd, bytes, 8) == -1 && errno == none && pread(fd, bytes, 8, 4096) == -1 && errno == none);
        CHECK(pread64(fd, bytes, 8, 0) == -1 && errno == none && readv(fd, &part, 1) == -1 && errno == none);
        CHECK(write(fd, bytes, 8) == -1 && errno == EINVAL && pwrite(fd, bytes, 8, 4096) == -1 && errno == EINVAL);
        CHECK(pwrite64(fd, bytes, 8, 0) == -1 && errno == EINVAL && writev(fd, &part, 1) == -1 && errno == EINVAL);
        int hole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        CHECK(fallocate(fd, hole, 0, 1 << 20) == -1 && errno == ENODEV);
        CHECK(fallocate64(fd, hole, 0, 1 << 20) == -1 && errno == ENODEV);
        CHECK(ftruncate(fd, 0) == -1 && errno == EINVAL && ftruncate64(fd, 0) == -1 && errno == EINVAL);
        CHECK(read(dup(fd), bytes, 8) == -1 && errno == none);
        /* The number is another file's, which no hook has seen come. */
        char name[] = "/tmp/rocjitsu-XXXXXX";
        int other = mkstemp(name);
        CHECK(other >= 0 && unlink(name) == 0 && syscall(SYS_dup3, other, fd, O_CLOEXEC) == fd);
        CHECK(write(fd, "written", 7) == 7 && pread(fd, bytes, 8, 0) == 7 && memcmp(bytes, "written", 7) == 0);
    }
}

static const struct check CHECKS[] = {
    {"devices_are_character_devices", devices_are_character_devices},
    {"devices_are_not_read_written_or_sized", devices_are_not_read_written_or_sized},
    {"missing_paths_are_missing", missing_paths_are_missing},
    {"success_keeps_errno", success_keeps_errno},
    {"files_have_their_text", files_have_their_text},
    {"directories_list", directories_list},
    {"real_directories_get_more", real_directories_get_more},
    {"links_lead_somewhere", links_lead_somewhere},
    {"paths_may_be_spelled_oddly", paths_may_be_spelled_oddly},
    {"globbing_finds_the_trees", globbing_finds_the_trees},
};

int main(int argc, char **argv) {
    return run_check(CHECKS, sizeof CHECKS / sizeof *CHECKS, argc > 1 ? argv[1] : "");
}
