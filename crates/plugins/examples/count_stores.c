/* An example of a loadable plugin: counts the bytes that each kernel stores to global memory.
 * cc -shared -fPIC -I crates/plugins/include -o count_stores.so crates/plugins/examples/count_stores.c
 * rocjitsu launch ... --plugin ./count_stores.so:path=stores.txt,limit=1000000 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocjitsu_plugin.h"

struct counter {
    const rocjitsu_host *host;
    FILE *out;
    long long limit;
    unsigned long long bytes;
    char kernel[256];
    char error[256];
};

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
    self->limit = -1;
    self->out = stderr;
    const char *limit = find(json, "limit"), *path = find(json, "path");
    if (limit)
        self->limit = strtoll(limit, NULL, 10);
    if (path && *path == '"') {
        char name[512];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(path + 1, "\""), path + 1);
        self->out = fopen(name, "w");
        if (!self->out) {
            snprintf(error, bytes, "cannot write %s", name);
            free(self);
            return NULL;
        }
    }
    return self;
}

static void destroy(void *data) {
    struct counter *self = data;
    if (self->out != stderr)
        fclose(self->out);
    free(self);
}

static const char *error(void *data) {
    return ((struct counter *)data)->error;
}

static int dispatch_begins(void *data, const rocjitsu_dispatch *dispatch) {
    struct counter *self = data;
    snprintf(self->kernel, sizeof self->kernel, "%s", dispatch->kernel);
    self->bytes = 0;
    return 0;
}

static int dispatch_ends(void *data, const rocjitsu_end *end) {
    struct counter *self = data;
    fprintf(self->out, "%s: %llu bytes stored in %llu instructions\n", self->kernel, self->bytes,
            (unsigned long long)end->wave_instructions);
    fflush(self->out);
    return 0;
}

static int accesses(void *data, const rocjitsu_step *step, const rocjitsu_access *all, size_t count) {
    struct counter *self = data;
    for (size_t i = 0; i < count; ++i)
        if (all[i].space == ROCJITSU_GLOBAL && all[i].kind == ROCJITSU_STORE)
            self->bytes += all[i].bytes;
    if (self->limit >= 0 && self->bytes > (unsigned long long)self->limit) {
        char text[128];
        self->host->text(step->instruction, text, sizeof text);
        snprintf(self->error, sizeof self->error, "more than %lld bytes stored, by %s", self->limit, text);
        return 1;
    }
    return 0;
}

static const rocjitsu_plugin plugin = {
    .abi = ROCJITSU_PLUGIN_ABI,
    .events = ROCJITSU_DISPATCHES | ROCJITSU_ACCESSES,
    .schema = "{\"type\":\"object\",\"properties\":{"
              "\"path\":{\"type\":\"string\"},\"limit\":{\"type\":\"integer\"}}}",
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
