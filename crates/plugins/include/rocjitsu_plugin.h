/* Loadable plugins of rocjitsu. A plugin is a shared object that exports `rocjitsu_plugin_entry`.
 * docs/plugins.md explains events; crates/plugins/examples/count_stores.c is a whole plugin.
 * Callbacks of one plugin are never concurrent, unless it says that they may be. Pointers are good until the callback
 * returns. Dispatches of several queues and GPUs may be under way at once; every event names its own. */
#ifndef ROCJITSU_PLUGIN_H
#define ROCJITSU_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of everything in this file. A plugin of another version is refused. */
#define ROCJITSU_PLUGIN_ABI 2u
/* What has been added to the version; marked `since minor`. A plugin says in `rocjitsu_plugin.minor` what it was made for, and
 * uses what `rocjitsu_host.minor` says is there. */
#define ROCJITSU_PLUGIN_MINOR 1u

/* Events, to be joined in `rocjitsu_plugin.events`. ROCJITSU_DISPATCHES includes loaded code. */
enum {
    ROCJITSU_DISPATCHES = 1,
    ROCJITSU_WORKGROUPS = 2,
    ROCJITSU_WAVES = 4,
    ROCJITSU_BEFORE = 8,
    ROCJITSU_AFTER = 16,
    ROCJITSU_READS = 32,
    ROCJITSU_WRITES = 64,
    ROCJITSU_ACCESSES = 128,
    ROCJITSU_BARRIERS = 256,
    ROCJITSU_MATRIX = 512
};

/* Which threads call a plugin (`rocjitsu_plugin.threads`). */
enum rocjitsu_threads {
    ROCJITSU_SERIAL,     /* any, one at a time */
    ROCJITSU_ONE_THREAD, /* the same, and each dispatch runs on one thread: its events come in the order of execution */
    ROCJITSU_CONCURRENT  /* any, several at once; `error` is called by the thread whose callback has failed */
};

enum rocjitsu_space { ROCJITSU_GLOBAL, ROCJITSU_SCRATCH, ROCJITSU_LDS };
enum rocjitsu_kind { ROCJITSU_LOAD, ROCJITSU_STORE, ROCJITSU_ATOMIC };
enum rocjitsu_scope { ROCJITSU_WAVE, ROCJITSU_WORKGROUP, ROCJITSU_AGENT, ROCJITSU_SYSTEM };
enum rocjitsu_file { ROCJITSU_VGPR, ROCJITSU_AGPR, ROCJITSU_SGPR, ROCJITSU_SCC, ROCJITSU_OTHER };
enum rocjitsu_family {
    ROCJITSU_SCALAR,
    ROCJITSU_VECTOR,
    ROCJITSU_MATRIX_PRODUCT,
    ROCJITSU_LDS_ACCESS,
    ROCJITSU_GLOBAL_ACCESS,
    ROCJITSU_CONTROL,
    ROCJITSU_NONE_OF_THESE
};

/* A code object in memory. Told where the loader is known: `launch`; programs load code themselves. */
typedef struct rocjitsu_code {
    uint64_t base; /* what addresses of the file are moved by */
    const void *file;
    size_t bytes;
} rocjitsu_code;

typedef struct rocjitsu_dispatch {
    uint64_t id;
    uint64_t queue;
    uint64_t entry;
    uint64_t kernarg;
    uint64_t workgroups;
    const char *kernel;
    const char *target;
    uint32_t grid[3];
    uint32_t workgroup[3];
    uint32_t wave_size;
    uint32_t lds_bytes;
    uint32_t scratch_bytes;
    uint32_t kernarg_bytes;
    uint32_t waves_per_workgroup;
    uint32_t cluster[3];
    uint32_t given_sgprs; /* registers from s0 and v0 on that waves start with */
    uint32_t given_vgprs;
    uint64_t gpu; /* the same for all dispatches of a GPU */
} rocjitsu_dispatch;

typedef struct rocjitsu_end {
    uint64_t id;
    uint64_t wave_instructions;
    uint64_t waves;
    double seconds;
    const char *error; /* NULL if the dispatch came to its end */
    const char *kernel;
    uint64_t families[7]; /* wave instructions by `rocjitsu_family` */
} rocjitsu_end;

typedef struct rocjitsu_workgroup {
    uint64_t dispatch;
    uint64_t number; /* in dispatch order */
    uint32_t id[3];
    uint32_t waves;
    uint32_t lds_bytes; /* allocated */
} rocjitsu_workgroup;

typedef struct rocjitsu_wave {
    uint64_t dispatch;
    uint64_t workgroup;
    uint32_t id[3]; /* of the workgroup */
    uint32_t index; /* in the workgroup */
    uint32_t lanes;
} rocjitsu_wave;

/* An instruction of a wave. `state` and `instruction` are for the functions of the host. */
typedef struct rocjitsu_step {
    rocjitsu_wave wave;
    uint64_t pc;
    uint64_t next_pc;
    uint64_t exec;
    const char *mnemonic;
    uint32_t family;
    const void *instruction;
    const void *state;
} rocjitsu_step;

typedef struct rocjitsu_access {
    uint64_t address;
    uint32_t bytes;
    uint8_t space;
    uint8_t kind;
    uint8_t scope;
    uint8_t lane;
} rocjitsu_access;

typedef struct rocjitsu_touch {
    uint64_t lanes;
    uint16_t number;
    uint8_t file;
    uint8_t bytes; /* bit 0 is the lowest byte */
} rocjitsu_touch;

/* What the host offers. */
typedef struct rocjitsu_host {
    uint32_t abi;
    uint32_t minor;
    /* A register of the step's wave. */
    uint32_t (*vgpr)(const void *state, uint32_t number, uint32_t lane);
    uint32_t (*agpr)(const void *state, uint32_t number, uint32_t lane);
    uint32_t (*sgpr)(const void *state, uint32_t number);
    /* Copies memory; 0 if it is there. */
    int (*read)(const void *state, uint64_t address, void *to, size_t bytes);
    /* Writes the disassembly, cut to `bytes` with its end; returns the whole length. */
    size_t (*text)(const void *instruction, char *to, size_t bytes);
    /* Copies bytes of the workgroup's LDS; 0 if they are there. */
    int (*lds)(const void *state, uint32_t address, void *to, size_t bytes);
    /* SCC (0 or 1) and MODE of the step's wave. */
    uint32_t (*scc)(const void *state);
    uint32_t (*mode)(const void *state);
    /* Writes a record, the text of a JSON object, to where the run's records go; its key `plugin` is set to the plugin's name.
     * `host` is the pointer that `create` was given, which is good until `destroy` returns. 0 if it is written. From any
     * thread. Since minor 1. */
    int (*record)(const struct rocjitsu_host *host, const char *json);
} rocjitsu_host;

/* A plugin. Callbacks return 0, or anything else for an error that ends the run; those that are NULL are not
 * called. `create` gets the configuration as a JSON object and writes why it fails into `error`. */
typedef struct rocjitsu_plugin {
    uint32_t abi;
    uint32_t events;
    uint32_t threads;
    /* ROCJITSU_PLUGIN_MINOR. From 1 on an option `file` is the host's, if the schema has none: where records go. */
    uint32_t minor;
    /* JSON schema of the configuration: an object whose `properties` have a `type` (string, integer, number or
     * boolean) each. NULL: there is nothing to configure. */
    const char *schema;
    void *(*create)(const rocjitsu_host *host, const char *configuration, char *error, size_t bytes);
    void (*destroy)(void *self);
    /* Why the last callback failed. */
    const char *(*error)(void *self);
    int (*dispatch_begins)(void *self, const rocjitsu_dispatch *);
    int (*dispatch_ends)(void *self, const rocjitsu_end *);
    int (*workgroup_begins)(void *self, const rocjitsu_workgroup *);
    int (*workgroup_ends)(void *self, const rocjitsu_workgroup *);
    int (*wave_begins)(void *self, const rocjitsu_wave *);
    int (*wave_ends)(void *self, const rocjitsu_wave *);
    int (*before)(void *self, const rocjitsu_step *);
    int (*after)(void *self, const rocjitsu_step *);
    int (*reads)(void *self, const rocjitsu_step *, const rocjitsu_touch *, size_t count);
    int (*writes)(void *self, const rocjitsu_step *, const rocjitsu_touch *, size_t count);
    int (*accesses)(void *self, const rocjitsu_step *, const rocjitsu_access *, size_t count);
    /* `waits`: 0 for a signal, 1 for a wait. */
    int (*barrier)(void *self, const rocjitsu_step *, int waits, uint32_t slot, uint32_t phase);
    int (*matrix)(void *self, const rocjitsu_step *);
    int (*finish)(void *self);
    int (*code_loaded)(void *self, const rocjitsu_code *);
} rocjitsu_plugin;

/* The plugin's description, which must stay where it is. */
const rocjitsu_plugin *rocjitsu_plugin_entry(void);

#ifdef __cplusplus
}
#endif
#endif
