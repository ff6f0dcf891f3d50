/* An example of a loadable plugin: counts the bytes that each kernel stores to global memory.
 * cc -shared -fPIC -I crates/plugins/include -o count_stores.so crates/plugins/examples/count_stores.c
 * rocjitsu launch ... --plugin ./count_stores.so:limit=1000000,file=stores.jsonl */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocjitsu_plugin.h"

/* Bytes of a dispatch under way: queues run theirs at the same time. */
struct running {
    struct running *next;
    uint64_t dispatch;
    unsigned long long bytes;
};

struct counter {
    const rocjitsu_host *host;
    long long limit;
    struct running *running;
    char error[256];
};

/* Where the pointer to a dispatch's bytes is, or would be. */
static struct running **place(struct counter *self, uint64_t dispatch) {
    struct running **at = &self->running;
    while (*at && (*at)->dispatch != dispatch)
        at = &(*at)->next;
    return at;
}

/* The value of a key in a flat JSON object without escapes, which is what the schema lets through. */
static const char *find(const char *json, const char *key) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *at = strstr(json, pattern);
    return at ? at + strlen(pattern) : NULL;
}

static void *create(const rocjitsu_host *host, const char *json, char *error, size_t bytes) {
    struct counter *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->host = host;
    if (host->minor < 1) {
        snprintf(error, bytes, "this rocjitsu takes no records of plugins");
        free(self);
        return NULL;
    }
    self->limit = -1;
    const char *limit = find(json, "limit");
    if (limit)
        self->limit = strtoll(limit, NULL, 10);
    return self;
}

static void destroy(void *data) {
    struct counter *self = data;
    while (self->running) {
        struct running *next = self->running->next;
        free(self->running);
        self->running = next;
    }
    free(self);
}

static const char *error(void *data) {
    return ((struct counter *)data)->error;
}

static int dispatch_begins(void *data, const rocjitsu_dispatch *dispatch) {
    struct counter *self = data;
    struct running *running = calloc(1, sizeof *running);
    if (!running) {
        snprintf(self->error, sizeof self->error, "no memory for %s", dispatch->kernel);
        return 1;
    }
    running->dispatch = dispatch->id;
    running->next = self->running;
    self->running = running;
    return 0;
}

/* Copies a name into a JSON string. */
static void quote(char *to, size_t bytes, const char *name) {
    size_t at = 0;
    for (; *name && at + 3 < bytes; ++name) {
        if (*name == '"' || *name == '\\')
            to[at++] = '\\';
        to[at++] = (unsigned char)*name < ' ' ? '?' : *name;
    }
    to[at] = 0;
}

static int dispatch_ends(void *data, const rocjitsu_end *end) {
    struct counter *self = data;
    struct running **at = place(self, end->id), *running = *at;
    if (!running)
        return 0;
    char name[512], text[768];
    quote(name, sizeof name, end->kernel);
    snprintf(text, sizeof text, "{\"dispatch\":%llu,\"kernel\":\"%s\",\"bytes_stored\":%llu,\"wave_instructions\":%llu}",
             (unsigned long long)end->id, name, running->bytes, (unsigned long long)end->wave_instructions);
    *at = running->next;
    free(running);
    if (self->host->record(self->host, text) != 0) {
        snprintf(self->error, sizeof self->error, "the record of a dispatch cannot be written");
        return 1;
    }
    return 0;
}

static int accesses(void *data, const rocjitsu_step *step, const rocjitsu_access *all, size_t count) {
    struct counter *self = data;
    struct running *running = *place(self, step->wave.dispatch);
    if (!running)
        return 0;
    for (size_t i = 0; i < count; ++i)
        if (all[i].space == ROCJITSU_GLOBAL && all[i].kind == ROCJITSU_STORE)
            running->bytes += all[i].bytes;
    if (self->limit >= 0 && running->bytes > (unsigned long long)self->limit) {
        char text[128];
        self->host->text(step->instruction, text, sizeof text);
        snprintf(self->error, sizeof self->error, "more than %lld bytes stored, by %s", self->limit, text);
        return 1;
    }
    return 0;
}

static const rocjitsu_plugin plugin = {
    .abi = ROCJITSU_PLUGIN_ABI,
    .minor = ROCJITSU_PLUGIN_MINOR,
    .events = ROCJITSU_DISPATCHES | ROCJITSU_ACCESSES,
    .schema = "{\"type\":\"object\",\"properties\":{\"limit\":{\"type\":\"integer\"}}}",
    .create = create,
    .destroy = destroy,
    .error = error,
    .dispatch_begins = dispatch_begins,
    .dispatch_ends = dispatch_ends,
    .accesses = accesses,
};

const rocjitsu_plugin *rocjitsu_plugin_entry(void) {
    return &plugin;
}
