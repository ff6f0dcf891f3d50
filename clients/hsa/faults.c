// What ROCr itself says of a queue that faults, in a program that installs no handlers: a memory fault ends the program,
// an illegal instruction and a wrong packet stop the queue. Each case runs in a child; the parent never touches the
// GPU, reads what the child prints, and ends it. The argument is the code object made of faults.cl.
#include <fcntl.h>
#include <hsa/hsa.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) \
  do { \
    hsa_status_t status_ = (call); \
    if (status_ != HSA_STATUS_SUCCESS && status_ != HSA_STATUS_INFO_BREAK) { \
      fprintf(stderr, "%s: status %#x\n", #call, status_); \
      _exit(9); \
    } \
  } while (0)

struct fault {
  const char* name;
  const char* kernel;
  uint16_t packet_type;
  // What the child must print, on one line, and whether the runtime ends it by SIGABRT.
  const char* says[2];
  int aborts;
};

static const struct fault FAULTS[] = {
    {"no fault", "nothing", HSA_PACKET_TYPE_KERNEL_DISPATCH, {"completed", ""}, 0},
    {"memory fault", "write_to_nothing", HSA_PACKET_TYPE_KERNEL_DISPATCH, {"Memory access fault by GPU node-", "0x7654321000"}, 1},
    {"illegal instruction", "no_instruction", HSA_PACKET_TYPE_KERNEL_DISPATCH, {"HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION", ""}, 0},
    {"wrong packet", "nothing", 77, {"HSA_STATUS_ERROR_INVALID_PACKET_FORMAT", ""}, 0},
};

static hsa_status_t find_gpu(hsa_agent_t agent, void* out) {
  hsa_device_type_t type;
  CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
  if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
  *(hsa_agent_t*)out = agent;
  return HSA_STATUS_INFO_BREAK;
}

static uint64_t load(hsa_agent_t gpu, const char* file, const char* kernel) {
  int fd = open(file, O_RDONLY);
  if (fd < 0) {
    perror(file);
    _exit(9);
  }
  char symbol[64];
  snprintf(symbol, sizeof symbol, "%s.kd", kernel);
  hsa_code_object_reader_t reader;
  hsa_executable_t executable;
  hsa_executable_symbol_t found;
  uint64_t object;
  CHECK(hsa_code_object_reader_create_from_file(fd, &reader));
  CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
  CHECK(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
  CHECK(hsa_executable_freeze(executable, NULL));
  CHECK(hsa_executable_get_symbol_by_name(executable, symbol, &gpu, &found));
  CHECK(hsa_executable_symbol_get_info(found, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object));
  return object;
}

static void run(const struct fault* fault, const char* file) {
  hsa_agent_t gpu = {0};
  hsa_queue_t* queue;
  hsa_signal_t done;
  CHECK(hsa_init());
  CHECK(hsa_iterate_agents(find_gpu, &gpu));
  if (!gpu.handle) {
    fprintf(stderr, "no GPU\n");
    _exit(9);
  }
  uint64_t object = load(gpu, file, fault->kernel);
  CHECK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue));
  CHECK(hsa_signal_create(1, 0, NULL, &done));
  uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
  hsa_kernel_dispatch_packet_t* packet = (hsa_kernel_dispatch_packet_t*)queue->base_address + index % queue->size;
  hsa_kernel_dispatch_packet_t filled = {.setup = 1, .workgroup_size_x = 64, .workgroup_size_y = 1, .workgroup_size_z = 1};
  filled.grid_size_x = 64;
  filled.grid_size_y = filled.grid_size_z = 1;
  filled.kernel_object = object;
  filled.completion_signal = done;
  memcpy((char*)packet + 4, (char*)&filled + 4, sizeof filled - 4);
  uint16_t fences = HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                    HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
  uint16_t header = fault->packet_type << HSA_PACKET_HEADER_TYPE | fences;
  __atomic_store_n((uint32_t*)packet, header | (uint32_t)filled.setup << 16, __ATOMIC_RELEASE);
  hsa_signal_store_screlease(queue->doorbell_signal, index);
  hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
  fprintf(stderr, "completed\n");
  _exit(0);
}

// Whether a line has both texts. What the simulator says itself does not count.
static int says(const char* text, const char* const what[2]) {
  for (const char* line = text; *line;) {
    size_t length = strcspn(line, "\n");
    char copy[1024];
    snprintf(copy, sizeof copy, "%.*s", (int)length, line);
    if (!strstr(copy, "rocjitsu") && strstr(copy, what[0]) && strstr(copy, what[1])) return 1;
    line += length + (line[length] == '\n');
  }
  return 0;
}

int main(int argc, char** argv) {
  int failures = 0;
  if (argc != 2) return 2;
  for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++) {
    const struct fault* fault = &FAULTS[i];
    int pipes[2];
    if (pipe(pipes)) return 2;
    pid_t child = fork();
    if (child == 0) {
      dup2(pipes[1], 2);
      close(pipes[0]);
      close(pipes[1]);
      run(fault, argv[1]);
    }
    close(pipes[1]);
    static char text[1 << 16];
    size_t bytes = 0;
    // A child that the runtime does not end waits for ever: it is ended once it has said what it must, or nothing for a
    // minute.
    for (;;) {
      struct pollfd readable = {.fd = pipes[0], .events = POLLIN};
      ssize_t got = poll(&readable, 1, 60000) == 1 ? read(pipes[0], text + bytes, sizeof text - 1 - bytes) : 0;
      if (got <= 0) break;
      bytes += got;
      text[bytes] = 0;
      if (!fault->aborts && says(text, fault->says)) break;
    }
    text[bytes] = 0;
    close(pipes[0]);
    if (!fault->aborts) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    int stopped = !fault->aborts || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    int completed = fault != FAULTS && strstr(text, "completed");
    if (!stopped || completed || !says(text, fault->says)) {
      fprintf(stderr, "%s: status %#x; the child said:\n%s", fault->name, status, text);
      failures++;
    }
  }
  if (!failures) printf("ok\n");
  return failures != 0;
}
