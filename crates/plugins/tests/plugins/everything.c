/* Counts all events and looks at what the host offers. THREADS is replaced by the test. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rocjitsu_plugin.h"

static const rocjitsu_host *host;
static char path[512];
static atomic_ullong code, dispatches, workgroups, waves, before, after, families;
static atomic_int lds, scc, mode;

static void *create(const rocjitsu_host *given, const char *json, char *error, size_t bytes) {
    const char *at = strstr(json, "\"path\":\"");
    if (!at) {
        snprintf(error, bytes, "no path");
        return NULL;
    }
    at += strlen("\"path\":\"");
    snprintf(path, sizeof path, "%.*s", (int)strcspn(at, "\""), at);
    host = given;
    return path;
}

static void destroy(void *self) {
    FILE *out = fopen(path, "a");
    if (out) {
        fprintf(out, "destroyed 1\n");
        fclose(out);
    }
}

static int code_loaded(void *self, const rocjitsu_code *loaded) {
    code += loaded->base != 0 && loaded->bytes > 64 && memcmp(loaded->file, "\x7f" "ELF", 4) == 0;
    return 0;
}

static int dispatch_begins(void *self, const rocjitsu_dispatch *dispatch) {
    dispatches += dispatch->gpu != 0 && dispatch->given_vgprs == 1 && dispatch->given_sgprs > 2 &&
                  dispatch->kernarg_bytes > 0 && dispatch->waves_per_workgroup > 0 && dispatch->cluster[0] == 1;
    return 0;
}

static int dispatch_ends(void *self, const rocjitsu_end *end) {
    for (int i = 0; i < 7; ++i)
        families += end->families[i];
    return strlen(end->kernel) == 0;
}

static int workgroup_begins(void *self, const rocjitsu_workgroup *workgroup) {
    workgroups += workgroup->lds_bytes > 0;
    return 0;
}

static int wave_ends(void *self, const rocjitsu_wave *wave) {
    waves++;
    return 0;
}

static int before_step(void *self, const rocjitsu_step *step) {
    before++;
    return 0;
}

static int after_step(void *self, const rocjitsu_step *step) {
    unsigned char bytes[4], all[4096];
    after++;
    if (host->lds(step->state, 0, bytes, sizeof bytes) == 0 && bytes[0] + bytes[1] + bytes[2] + bytes[3] != 0)
        lds = 1;
    /* The end is known. */
    if (host->lds(step->state, 0xfffffff0u, all, sizeof all) == 0)
        return 1;
    if (host->scc(step->state) == 1)
        scc = 1;
    if (host->mode(step->state) & 0xf0)
        mode = 1;
    return 0;
}

static int finish(void *self) {
    FILE *out = fopen(path, "w");
    if (!out)
        return 1;
    fprintf(out, "code %llu dispatches %llu workgroups %llu waves %llu before %llu after %llu families %llu\n",
            code, dispatches, workgroups, waves, before, after, families);
    fprintf(out, "lds %d scc %d mode %d ", lds, scc, mode);
    fclose(out);
    return 0;
}

static const rocjitsu_plugin plugin = {
    .abi = ROCJITSU_PLUGIN_ABI,
    .events = ROCJITSU_DISPATCHES | ROCJITSU_WORKGROUPS | ROCJITSU_WAVES | ROCJITSU_BEFORE | ROCJITSU_AFTER,
    .threads = THREADS,
    .schema = "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}}}",
    .create = create,
    .destroy = destroy,
    .code_loaded = code_loaded,
    .dispatch_begins = dispatch_begins,
    .dispatch_ends = dispatch_ends,
    .workgroup_begins = workgroup_begins,
    .wave_ends = wave_ends,
    .before = before_step,
    .after = after_step,
    .finish = finish,
};

const rocjitsu_plugin *rocjitsu_plugin_entry(void) {
    return &plugin;
}
