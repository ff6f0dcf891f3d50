/* Waits once, within a callback, for a second thread to be there as well. THREADS is replaced by the test. */
#define _POSIX_C_SOURCE 199309L
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rocjitsu_plugin.h"

static char path[512];
static long patience;
static atomic_int inside, met, over;

static void *create(const rocjitsu_host *host, const char *json, char *error, size_t bytes) {
    const char *at = strstr(json, "\"path\":\""), *number = strstr(json, "\"patience\":");
    (void)host;
    if (!at || !number) {
        snprintf(error, bytes, "no path, or no patience");
        return NULL;
    }
    at += strlen("\"path\":\"");
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at, "\""), at);
    patience = strtol(number + strlen("\"patience\":"), NULL, 10);
    return path;
}

static int before_step(void *self, const rocjitsu_step *step) {
    const struct timespec millisecond = {0, 1000000};
    if (over)
        return 0;
    if (atomic_fetch_add(&inside, 1) > 0)
        met = 1;
    for (long waited = 0; !met && waited < patience; ++waited)
        nanosleep(&millisecond, NULL);
    over = 1;
    atomic_fetch_sub(&inside, 1);
    return 0;
}

static int finish(void *self) {
    FILE *out = fopen(path, "w");
    if (!out)
        return 1;
    fprintf(out, "met %d\n", met);
    return fclose(out);
}

static const rocjitsu_plugin plugin = {
    .abi = ROCJITSU_PLUGIN_ABI,
    .events = ROCJITSU_BEFORE,
    .threads = THREADS,
    .schema = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"patience\":{\"type\":\"integer\"}}}",
    .create = create,
    .before = before_step,
    .finish = finish,
};

const rocjitsu_plugin *rocjitsu_plugin_entry(void) {
    return &plugin;
}
