/* Descriptors, threads, and processes that come and go. */
#include "check.h"
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/time.h>

extern char **environ;

#define DRM_GEM_CREATE 0xc0206440u
#define DRM_GEM_MMAP 0xc0086441u

static void duplicates_are_the_same_device(void) {
    int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    int copies[] = {dup(fd), dup2(fd, 100), dup3(fd, 101, O_CLOEXEC), fcntl(fd, F_DUPFD, 200), fcntl(fd, F_DUPFD_CLOEXEC, 300)};
    CHECK(close(fd) == 0 && !kfd_version_ok(fd) && errno == EBADF);
    for (int i = 0; i < 5; i++)
        CHECK(copies[i] >= 0 && kfd_version_ok(copies[i]));
    /* A foreign file over a device makes the number foreign. */
    int null = open("/dev/null", O_RDWR);
    CHECK(dup2(null, 100) == 100 && !kfd_version_ok(100) && errno == ENOTTY);
    struct stat st;
    CHECK(fstat(100, &st) == 0 && major(st.st_rdev) == 1);
    CHECK(close_range(150, 250, 0) == 0 && !kfd_version_ok(copies[3]) && errno == EBADF);
    CHECK(kfd_version_ok(copies[4]));
    CHECK(fcntl(open("/dev/kfd", O_RDWR), F_GETFD) == 0);
}

static void a_forked_child_opens_anew(void) {
    int fd = open("/dev/kfd", O_RDWR);
    CHECK(kfd_version_ok(fd));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(!kfd_version_ok(fd) && errno == EBADF);
        int again = open("/dev/kfd", O_RDWR);
        CHECK(again >= 0 && kfd_version_ok(again));
        CHECK(!kfd_version_ok(fd) && errno == EBADF);
        CHECK(close(fd) == 0);
        struct stat st;
        CHECK(stat(NODES "/1", &st) == 0);
        exit(42);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK(kfd_version_ok(fd));
}

/* Children that no handler of pthread_atfork sees. */
static void unseen_children_open_anew(void) {
    int fd = open("/dev/kfd", O_RDWR);
    CHECK(kfd_version_ok(fd));
    for (int raw = 0; raw < 2; raw++) {
        fflush(NULL);
        pid_t child = raw ? syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : _Fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (raw) {
                int early = open("/dev/kfd", O_RDWR);
                CHECK(early >= 0 && kfd_version_ok(early) && close(early) == 0);
            }
            CHECK(!kfd_version_ok(fd) && errno == EBADF);
            int again = open("/dev/kfd", O_RDWR);
            CHECK(again >= 0 && kfd_version_ok(again) && !kfd_version_ok(fd) && errno == EBADF);
            closefrom(3);
            again = open("/dev/kfd", O_RDWR);
            CHECK(again >= 0 && kfd_version_ok(again));
            _exit(42);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
    }
    CHECK(kfd_version_ok(fd));
}

static void a_vforked_child_leaves_the_parent_alone(void) {
    int fd = open("/dev/kfd", O_RDWR);
    CHECK(kfd_version_ok(fd));
    pid_t child = vfork();
    if (child == 0) {
        close(fd);
        dup2(2, fd);
        close_range(3, 1000, 0);
        _exit(7);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    CHECK(kfd_version_ok(fd));
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) != 136);
}

static void spawned_programs_have_gpus_too(void) {
    int fd = open("/dev/kfd", O_RDWR);
    CHECK(kfd_version_ok(fd));
    char self[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(bytes > 0);
    self[bytes] = 0;
    char *arguments[] = {self, "duplicates_are_the_same_device", NULL};
    pid_t child;
    CHECK(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    char command[PATH_MAX + 100];
    snprintf(command, sizeof command, "exec '%s' a_forked_child_opens_anew", self);
    CHECK(system(command) == 0);
    FILE *pipe = popen("cat " NODES "/1/gpu_id", "r");
    int id = 0;
    CHECK(pipe && fscanf(pipe, "%d", &id) == 1 && id > 0 && pclose(pipe) == 0);
    CHECK(kfd_version_ok(fd));
}

static void *open_and_close(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0 && kfd_version_ok(fd));
        DIR *dir = opendir(NODES);
        CHECK(dir && readdir(dir) && closedir(dir) == 0);
        CHECK(close(fd) == 0);
    }
    return NULL;
}

static void threads_share_the_driver(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, open_and_close, NULL) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static volatile int stop;

static void *open_until_stopped(void *unused) {
    while (!stop)
        open_and_close(unused);
    return NULL;
}

static void forks_while_threads_work(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, open_until_stopped, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20);
            int fd = open("/dev/kfd", O_RDWR);
            CHECK(fd >= 0 && kfd_version_ok(fd));
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = 1;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static int before_main;

__attribute__((constructor)) static void early(void) {
    if (getenv("OPEN_EARLY"))
        before_main = open("/dev/kfd", O_RDWR);
}

static void constructors_may_open(void) {
    CHECK(before_main > 0 && kfd_version_ok(before_main));
}

/* An offset that only the driver hands out: mapped past the C library, it must be the same pages. */
static void raw_mappings_are_the_same_pages(void) {
    int fd = open("/dev/dri/renderD128", O_RDWR);
    CHECK(fd >= 0);
    uint64_t create[4] = {4096, 4096, 4, 0};
    CHECK(ioctl(fd, DRM_GEM_CREATE, create) == 0);
    uint64_t offset = (uint32_t)create[0];
    CHECK(ioctl(fd, DRM_GEM_MMAP, &offset) == 0 && offset != 0);
    char *hooked = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    CHECK(hooked != MAP_FAILED);
    /* No buffer begins there; it has no second page. */
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, offset + (1 << 20)) == MAP_FAILED && errno == EINVAL);
    CHECK(mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, offset) == MAP_FAILED && errno == EINVAL);
    char *raw = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    CHECK(raw != MAP_FAILED && raw != hooked);
    strcpy(hooked, "the same pages");
    CHECK(strcmp(raw, "the same pages") == 0);
    CHECK(munmap(hooked, 4096) == 0);
    CHECK(strcmp(raw, "the same pages") == 0);
}

/* A driver has files in memory; a program that touches no GPU must have none. */
static int memory_files(void) {
    int count = 0;
    for (int fd = 0; fd < 5000; fd++) {
        char path[64], target[PATH_MAX] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        count += readlink(path, target, sizeof target - 1) > 0 && strncmp(target, "/memfd:", 7) == 0;
    }
    return count;
}

static void no_gpu_is_touched(void) {
    int fd = open("/etc/passwd", O_RDONLY);
    struct stat st;
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && close(fd) == 0);
    CHECK(ioctl(0, TIOCGWINSZ, &st) == -1);
    char name[PATH_MAX];
    CHECK(realpath("/etc/../etc/passwd", name) && strcmp(name, "/etc/passwd") == 0);
    CHECK(memory_files() == 0);
    CHECK(stat(NODES, &st) == 0);
    CHECK(memory_files() > 0);
}

#define KFD_CREATE_EVENT 0xc0204b08u
#define KFD_SET_EVENT 0x40084b0au
#define KFD_WAIT_EVENTS 0xc0184b0cu

static int kfd;
static uint32_t event[2];

static void make_event(void) {
    struct { uint64_t page; uint32_t trigger, type, auto_reset, node, id, slot; } args = {.auto_reset = 1};
    kfd = open("/dev/kfd", O_RDWR);
    CHECK(kfd >= 0 && ioctl(kfd, KFD_CREATE_EVENT, &args) == 0);
    event[0] = args.id;
}

static struct { uint64_t events; uint32_t count, all, timeout, result; } waiting;

static int wait_for_event(uint32_t timeout) {
    static struct { uint32_t payload[8]; uint64_t next; uint32_t id, pad; } data;
    data.id = event[0];
    waiting.events = (uintptr_t)&data;
    waiting.count = 1;
    waiting.timeout = timeout;
    return ioctl(kfd, KFD_WAIT_EVENTS, &waiting);
}

static volatile int alarms;

static void count_alarm(int signal) {
    (void)signal;
    alarms++;
}

/* A handler's calls are the program's own, although it interrupts a call of the driver's. */
static void set_the_event(int signal) {
    (void)signal;
    alarms++;
    if (alarms == 3 && ioctl(kfd, KFD_SET_EVENT, event) != 0)
        alarms = 1000;
}

static void on_alarm(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
}

static void repeat_alarm(long microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void handlers_interrupt_waits_as_they_say(void) {
    make_event();
    on_alarm(count_alarm, 0);
    repeat_alarm(2000);
    for (int forever = 0; forever < 2; forever++) {
        int before = alarms;
        uint32_t timeout = forever ? UINT32_MAX : 1000000;
        CHECK(wait_for_event(timeout) == -1 && errno == EINTR && alarms > before);
        CHECK(forever ? waiting.timeout == timeout : waiting.timeout <= timeout && waiting.timeout > 900000);
    }
    for (int forever = 0; forever < 2; forever++) {
        repeat_alarm(0);
        alarms = 0;
        on_alarm(set_the_event, SA_RESTART);
        repeat_alarm(2000);
        CHECK(wait_for_event(forever ? UINT32_MAX : 1000000) == 0 && waiting.result == 0);
        CHECK(alarms >= 3 && alarms < 1000);
    }
    repeat_alarm(0);
    CHECK(wait_for_event(1) == 0 && waiting.result == 1);
}

/* Does what needs the driver's own descriptors: arguments are copied, memory is made. */
static int gem_works(int render) {
    struct { uint64_t size, alignment, domains, flags; } create = {4096, 4096, 4, 0};
    return ioctl(render, DRM_GEM_CREATE, &create) == 0 && (uint32_t)create.size != 0;
}

static int devices_open_and_work(void) {
    int fd = open("/dev/kfd", O_RDWR), render = open("/dev/dri/renderD128", O_RDWR);
    int good = fd >= 0 && kfd_version_ok(fd) && render >= 0 && gem_works(render);
    return close(fd) == 0 && close(render) == 0 && good;
}

/* The driver's own descriptors: files in memory that are not open for the program. */
static int own_descriptors(int *out, int most) {
    int count = 0;
    for (int fd = 3; fd < 5000; fd++) {
        char path[64], target[PATH_MAX] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && strncmp(target, "/memfd:", 7) == 0 && fcntl(fd, F_GETFD) < 0)
            out[count++ % most] = fd;
    }
    return count;
}

#define PRECIOUS "my precious data\n"
static int data[24];

static void make_data(void) {
    for (int i = 0; i < 24; i++) {
        char name[] = "/tmp/rocjitsu-data-XXXXXX";
        data[i] = mkstemp(name);
        CHECK(data[i] >= 0 && unlink(name) == 0 && write(data[i], PRECIOUS, 17) == 17);
    }
}

static void check_data(void) {
    for (int i = 0; i < 24; i++) {
        char text[32];
        CHECK(pread(data[i], text, sizeof text, 0) == 17 && memcmp(text, PRECIOUS, 17) == 0);
    }
}

static void the_drivers_files_are_not_the_programs(void) {
    int fd = open("/dev/kfd", O_RDWR), render = open("/dev/dri/renderD128", O_RDWR), own[8];
    CHECK(kfd_version_ok(fd) && gem_works(render));
    int count = own_descriptors(own, 8);
    CHECK(count >= 3 && count <= 8 && own[0] >= 512);
    for (int i = 0; i < count; i++) {
        CHECK(close(own[i]) == -1 && errno == EBADF && dup(own[i]) == -1 && errno == EBADF);
        CHECK(fcntl(own[i], F_SETFD, 0) == -1 && errno == EBADF && dup2(own[i], 50) == -1 && errno == EBADF);
    }
    for (int i = 3; i < 5000; i++)
        if (i != fd && i != render)
            close(i);
    make_data();
    CHECK(kfd_version_ok(fd) && gem_works(render));
    check_data();
    closefrom(3);
    CHECK(!kfd_version_ok(fd) && errno == EBADF);
    make_data();
    CHECK(devices_open_and_work());
    check_data();
    CHECK(close_range(3, ~0u, 0) == 0 && pread(data[0], own, 1, 0) == -1 && errno == EBADF);
    make_data();
    CHECK(devices_open_and_work());
    check_data();
    /* The program's file goes where it wants, whoever was there; a bad call changes nothing. */
    count = own_descriptors(own, 8);
    CHECK(dup2(4999, own[0]) == -1 && errno == EBADF && fcntl(own[0], F_GETFD) == -1 && devices_open_and_work());
    count = own_descriptors(own, 8);
    for (int i = 0; i < count; i++) {
        struct stat here, there;
        CHECK((i & 1 ? dup2(data[i], own[i]) : dup3(data[i], own[i], 0)) == own[i]);
        CHECK(fstat(data[i], &there) == 0 && fstat(own[i], &here) == 0 && here.st_ino == there.st_ino);
    }
    CHECK(devices_open_and_work());
    for (int i = 0; i < count; i++)
        CHECK(close(own[i]) == 0);
    check_data();
    /* In a forked child they are ordinary descriptors, and a new driver has others. */
    count = own_descriptors(own, 8);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < count; i++)
            CHECK(close(own[i]) == 0);
        CHECK(devices_open_and_work());
        closefrom(3);
        CHECK(devices_open_and_work());
        _exit(42);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK(devices_open_and_work());
}

static void few_descriptors_are_enough(void) {
    struct rlimit limit = {16, 4096};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0 && devices_open_and_work());
    closefrom(3);
    CHECK(devices_open_and_work());
    limit.rlim_cur = 4096;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0 && dup2(2, 4000) == 4000 && devices_open_and_work());
}

/* What no hook sees: calls fail, and nothing is written into files of the program. */
static void plain_system_calls_take_the_drivers_files(void) {
    int fd = open("/dev/kfd", O_RDWR), render = open("/dev/dri/renderD128", O_RDWR), own[8];
    CHECK(kfd_version_ok(fd) && gem_works(render));
    int count = own_descriptors(own, 8);
    make_data();
    for (int i = 0; i < count; i++)
        CHECK(syscall(SYS_dup2, data[i], own[i]) == own[i]);
    CHECK(!kfd_version_ok(fd) && errno == EBADF && !gem_works(render) && errno == EBADF);
    CHECK(open("/dev/kfd", O_RDWR) == -1 && open("/dev/dri/renderD128", O_RDWR) == -1 && errno == EBADF);
    struct stat st;
    CHECK(close(fd) == 0 && close(render) == 0);
    check_data();
    for (int i = 0; i < count; i++)
        CHECK(fstat(own[i], &st) == 0 && st.st_size == 17 && close(own[i]) == 0);
}

static volatile int opened = -2;
static sigjmp_buf out;

static void open_in_handler(int signal) {
    (void)signal;
    alarms++;
    opened = open("/dev/kfd", O_RDWR);
    if (opened < 0 || !kfd_version_ok(opened) || close(opened) != 0)
        opened = -1;
}

static void jump(int signal) {
    (void)signal;
    siglongjmp(out, 1);
}

/* Handlers run between two calls, never inside of the driver. */
static void handlers_may_do_anything(void) {
    make_event();
    on_alarm(open_in_handler, 0);
    repeat_alarm(500);
    while (alarms < 100) {
        CHECK(kfd_version_ok(kfd) && opened != -1);
        CHECK(wait_for_event(0) == 0);
        DIR *dir = opendir(NODES);
        CHECK(dir && readdir(dir) && closedir(dir) == 0);
    }
    on_alarm(jump, 0);
    volatile int jumps = 0;
    if (sigsetjmp(out, 1))
        jumps++;
    if (jumps < 100)
        for (;;) {
            int again = open("/dev/dri/renderD128", O_RDWR);
            CHECK(again >= 0 && kfd_version_ok(kfd) && gem_works(again));
            for (int i = 0; i < 50; i++)
                CHECK(kfd_version_ok(kfd));
            CHECK(close(again) == 0);
            if (jumps >= 90)
                wait_for_event(UINT32_MAX);
        }
    repeat_alarm(0);
    sigset_t blocked;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
    for (int i = 1; i < 32; i++)
        CHECK(sigismember(&blocked, i) == 0);
    CHECK(kfd_version_ok(kfd) && devices_open_and_work());
}

/* Signals that a thread has blocked itself stay blocked, in waits, too. */
static void blocked_signals_stay_blocked(void) {
    make_event();
    on_alarm(count_alarm, 0);
    sigset_t alarm_only, blocked;
    CHECK(sigemptyset(&alarm_only) == 0 && sigaddset(&alarm_only, SIGALRM) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &alarm_only, NULL) == 0 && raise(SIGALRM) == 0);
    CHECK(wait_for_event(20) == 0 && waiting.result == 1 && devices_open_and_work() && alarms == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0 && memcmp(&blocked, &alarm_only, 8) == 0);
    CHECK(sigprocmask(SIG_UNBLOCK, &alarm_only, NULL) == 0 && alarms == 1);
}

/* Waits until the report tells of the event, then dies. */
static void is_killed(void) {
    make_event();
    const char *path = getenv("ROCJITSU_REPORT");
    CHECK(path);
    for (;;) {
        static char text[1 << 20];
        FILE *file = fopen(path, "r");
        size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
        text[bytes] = 0;
        if (file)
            fclose(file);
        if (strstr(text, "CREATE_EVENT"))
            kill(getpid(), SIGKILL);
        usleep(1000);
    }
}

static void aborts(void) {
    make_event();
    abort();
}

static const struct check CHECKS[] = {
    {"handlers_interrupt_waits_as_they_say", handlers_interrupt_waits_as_they_say},
    {"is_killed", is_killed},
    {"aborts", aborts},
    {"duplicates_are_the_same_device", duplicates_are_the_same_device},
    {"a_forked_child_opens_anew", a_forked_child_opens_anew},
    {"a_vforked_child_leaves_the_parent_alone", a_vforked_child_leaves_the_parent_alone},
    {"spawned_programs_have_gpus_too", spawned_programs_have_gpus_too},
    {"threads_share_the_driver", threads_share_the_driver},
    {"forks_while_threads_work", forks_while_threads_work},
    {"constructors_may_open", constructors_may_open},
    {"raw_mappings_are_the_same_pages", raw_mappings_are_the_same_pages},
    {"no_gpu_is_touched", no_gpu_is_touched},
    {"unseen_children_open_anew", unseen_children_open_anew},
    {"handlers_may_do_anything", handlers_may_do_anything},
    {"blocked_signals_stay_blocked", blocked_signals_stay_blocked},
    {"the_drivers_files_are_not_the_programs", the_drivers_files_are_not_the_programs},
    {"few_descriptors_are_enough", few_descriptors_are_enough},
    {"plain_system_calls_take_the_drivers_files", plain_system_calls_take_the_drivers_files},
};

int main(int argc, char **argv) {
    return run_check(CHECKS, sizeof CHECKS / sizeof *CHECKS, argc > 1 ? argv[1] : "");
}
