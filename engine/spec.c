/* spec.c - engine specs: "wrapper+wrapper:option=value+engine:option,option=value".
 *
 * Relies on the registry for names, on each backend's table of tunings, and on spec_text.c for what
 * separates the parts. Keeps true: an unknown
 * layer, option or value is an error that names it and what there is; the bottom layer of a parsed
 * spec is an engine with every required op, the others are wrappers. */
#include "core.h"
#include "storefile.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_MAX = 512 };

static const struct seam_backend *find(const char *name, const struct seam_backend *const *list)
{
    for (; list && *list; list++)
        if (strcmp((*list)->name, name) == 0)
            return *list;
    return NULL;
}

static const struct seam_engine_info *find_absent(const char *name)
{
    for (const struct seam_engine_info *i = seam_registry_absent; i->name; i++)
        if (strcmp(i->name, name) == 0)
            return i;
    return NULL;
}

static int no_engine(const char *name, const struct seam_backend *const *extra,
                     struct seam_err *err)
{
    char list[160] = "";
    size_t at = 0;
    if (find_absent(name))
        return seam_fail(err, SEAM_E_NO_ENGINE,
                         "engine '%s' is not built in (%s): install that and build again", name,
                         find_absent(name)->summary);
    if (name[0] == '\0')
        return seam_fail(err, SEAM_E_NO_ENGINE,
                         "an engine or wrapper has no name: one is missing, as in 'strict+mem'");
    for (int pass = 0; pass < 2; pass++)
        for (const struct seam_backend *const *b = pass ? seam_registry : extra; b && *b; b++)
            if (at < sizeof(list))
                at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", at ? ", " : "",
                                       (*b)->name);
    return seam_fail(err, SEAM_E_NO_ENGINE, "no engine or wrapper '%.40s'; there are %s", name,
                     list);
}

/* ---- plug-ins ---------------------------------------------------------------------------- */

/* cut: the path ended at a ':', which may have been meant as part of it. */
static int plugin_open(const struct seam_platform *os, const char *path, bool cut,
                       struct seam_spec_layer *layer, struct seam_err *err)
{
    typedef const struct seam_backend *entry_fn(void);
    entry_fn *entry = NULL;
    size_t size = strlen(path) + 1;
    layer->path = os->alloc(os->ctx, size);
    if (!layer->path)
        return seam_fail(err, SEAM_E_NOMEM, "no memory for the path of a plug-in");
    memcpy(layer->path, path, size);
    /* Never unloaded: errors hold names of limits, and threads of the engine's may still end. */
    layer->plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!layer->plugin)
        return seam_fail(err, SEAM_E_NO_ENGINE, "cannot load '%.60s'%s: %s", path,
                         cut ? " (a ':' in a path is written '\\:')" : "", dlerror());
    void *symbol = dlsym(layer->plugin, "seam_backend_entry");
    memcpy(&entry, &symbol, sizeof(entry));
    if (!entry)
        return seam_fail(err, SEAM_E_NO_ENGINE,
                         "'%.80s' is no engine: it has no seam_backend_entry", path);
    layer->be = entry();
    if (!layer->be)
        return seam_fail(err, SEAM_E_NO_ENGINE, "'%.80s' gives no table of an engine", path);
    return SEAM_OK;
}

/* The name goes into STORE and into specs. */
static bool name_good(const char *name)
{
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return n > 0 && n <= SEAM_STOREFILE_NAME_MAX && name[n] == 0;
}

static bool tunings_good(const struct seam_tuning *t)
{
    for (; t && t->name; t++)
        if (!t->fallback || (t->kind == SEAM_TUNE_WORD && !t->words))
            return false;
    return true;
}

static int check_backend(const char *name, const struct seam_backend *be, struct seam_err *err)
{
    if (be->abi != SEAM_BACKEND_ABI)
        return seam_fail(err, SEAM_E_NO_ENGINE, "'%.60s' was built for ABI %u, this is %u", name,
                         be->abi, SEAM_BACKEND_ABI);
    if (!name_good(be->name))
        return seam_fail(err, SEAM_E_NO_ENGINE, "'%.60s': its name is not [a-z0-9_]+ of at most %u",
                         name, SEAM_STOREFILE_NAME_MAX);
    if (!tunings_good(be->tunings))
        return seam_fail(err, SEAM_E_NO_ENGINE, "'%.60s' has an option without a default or words",
                         name);
    bool wrapper = be->flags & SEAM_BACKEND_WRAPPER;
    bool whole = be->limits && be->commit && be->sync && be->snap_open && be->snap_close &&
                 be->get && be->unpin && be->cursor_open && be->cursor_move &&
                 be->cursor_value && be->cursor_close;
    if (!be->open || !be->close || (!wrapper && !whole))
        return seam_fail(err, SEAM_E_NO_ENGINE, "'%.60s' lacks a required op of the table", name);
    if (!be->prepare != !be->abort && !wrapper)
        return seam_fail(err, SEAM_E_NO_ENGINE, "'%.60s' has one of prepare and abort", name);
    return SEAM_OK;
}

/* ---- options ----------------------------------------------------------------------------- */

static int word_index(const char *words, const char *text, uint64_t *ret)
{
    size_t len = strlen(text);
    for (uint64_t i = 0; *words; i++) {
        size_t n = strcspn(words, "|");
        if (n == len && memcmp(words, text, n) == 0) {
            *ret = i;
            return SEAM_OK;
        }
        words += n + (words[n] == '|');
    }
    return SEAM_E_OPTION;
}

static int parse_value(const struct seam_tuning *t, const char *text, uint64_t *ret,
                       struct seam_err *err)
{
    static const char flags[] = "0|1|off|on|no|yes|false|true";
    int rc;
    switch (t->kind) {
    case SEAM_TUNE_FLAG:
        rc = word_index(flags, text, ret);
        *ret &= 1;
        return rc == SEAM_OK ? rc : seam_fail(err, rc, "option %s is a flag: 0 or 1, not '%.40s'",
                                              t->name, text);
    case SEAM_TUNE_WORD:
        rc = word_index(t->words, text, ret);
        return rc == SEAM_OK ? rc : seam_fail(err, rc, "option %s is one of %s, not '%.40s'",
                                              t->name, t->words, text);
    case SEAM_TUNE_COUNT:
    case SEAM_TUNE_SIZE:
        break;
    }
    rc = t->kind == SEAM_TUNE_SIZE ? seam_parse_size(text, ret, err)
                                   : seam_parse_count(text, ret, err);
    if (rc != SEAM_OK)
        return seam_fail(err, rc, "option %s: %s", t->name, err ? err->text : "");
    if (*ret < t->least || *ret > t->most)
        return seam_fail(err, SEAM_E_OPTION, "option %s is %llu to %llu, not %llu", t->name,
                         (unsigned long long)t->least, (unsigned long long)t->most,
                         (unsigned long long)*ret);
    return SEAM_OK;
}

static int no_option(const struct seam_backend *be, const char *name, struct seam_err *err)
{
    char list[160] = "";
    size_t at = 0;
    for (const struct seam_tuning *t = be->tunings; t && t->name; t++)
        if (at < sizeof(list))
            at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", at ? ", " : "", t->name);
    return seam_fail(err, SEAM_E_OPTION, "%s has no option '%.40s'; it takes %s", be->name, name,
                     at ? list : "none");
}

static int lone_backslash(const char *token, struct seam_err *err)
{
    return seam_fail(err, SEAM_E_OPTION,
                     "'%.60s' ends in a backslash, which takes the next character as it is", token);
}

static int set_option(struct seam_spec_layer *layer, char *token, struct seam_err *err)
{
    size_t len = seam_spec_span(token, "=");
    char *value = token[len] ? token + len + 1 : NULL;
    token[len] = 0;
    if (seam_spec_unescape(token) != SEAM_OK)
        return lone_backslash(token, err);
    if (value && seam_spec_unescape(value) != SEAM_OK)
        return lone_backslash(value, err);
    const struct seam_tuning *t = layer->be->tunings;
    for (size_t i = 0; t && t[i].name; i++)
        if (strcmp(t[i].name, token) == 0)
            return parse_value(&t[i], value ? value : "1", &layer->settings[i], err);
    return no_option(layer->be, token, err);
}

static int set_defaults(struct seam_spec_layer *layer, struct seam_err *err)
{
    const struct seam_tuning *t = layer->be->tunings;
    for (size_t i = 0; t && t[i].name; i++) {
        if (i == SEAM_SETTINGS_MAX)
            return seam_fail(err, SEAM_E_NO_ENGINE, "'%s' has over %d options", layer->be->name,
                             SEAM_SETTINGS_MAX);
        int rc = parse_value(&t[i], t[i].fallback, &layer->defaults[i], err);
        if (rc != SEAM_OK)
            return rc;
        layer->settings[i] = layer->defaults[i];
    }
    return SEAM_OK;
}

/* ---- layers ------------------------------------------------------------------------------ */

/* token: "name" or "name:option,option=value"; cut up in place. */
static int parse_layer(const struct seam_platform *os, char *token,
                       const struct seam_backend *const *extra, struct seam_spec_layer *layer,
                       struct seam_err *err)
{
    size_t len = seam_spec_span(token, ":");
    char *options = token[len] ? token + len + 1 : NULL;
    int rc = SEAM_OK;
    token[len] = 0;
    if (seam_spec_unescape(token) != SEAM_OK)
        return lone_backslash(token, err);
    if (strchr(token, '/')) {
        rc = plugin_open(os, token, options != NULL, layer, err);
    } else {
        layer->be = find(token, extra);
        if (!layer->be)
            layer->be = find(token, seam_registry);
        if (!layer->be)
            rc = no_engine(token, extra, err);
    }
    if (rc == SEAM_OK)
        rc = check_backend(token, layer->be, err);
    if (rc == SEAM_OK)
        rc = set_defaults(layer, err);
    while (rc == SEAM_OK && options) {
        len = seam_spec_span(options, ",");
        char *next = options[len] ? options + len + 1 : NULL;
        options[len] = 0;
        rc = set_option(layer, options, err);
        options = next;
    }
    return rc;
}

static int check_order(const struct seam_spec *spec, struct seam_err *err)
{
    for (size_t i = 0; i < spec->n; i++) {
        bool wrapper = spec->layers[i].be->flags & SEAM_BACKEND_WRAPPER;
        const char *name = spec->layers[i].be->name;
        if (i + 1 == spec->n && wrapper)
            return seam_fail(err, SEAM_E_NO_ENGINE, "'%s' is a wrapper: it needs an engine, as in '%s+mem'",
                             name, name);
        if (i + 1 < spec->n && !wrapper)
            return seam_fail(err, SEAM_E_NO_ENGINE, "'%s' is an engine: it comes last in a stack", name);
    }
    return SEAM_OK;
}

int seam_spec_parse(const struct seam_platform *os, const char *text,
                    const struct seam_backend *const *extra, struct seam_spec *ret,
                    struct seam_err *err)
{
    char token[TOKEN_MAX];
    int rc = SEAM_OK;
    memset(ret, 0, sizeof(*ret));
    ret->os = os;
    if (!text || !*text)
        return seam_fail(err, SEAM_E_NO_ENGINE, "no engine is named");
    for (const char *s = text; s && rc == SEAM_OK;) {
        size_t len = seam_spec_span(s, "+");
        if (len >= sizeof(token) || ret->n == SEAM_LAYERS_MAX) {
            rc = seam_fail(err, SEAM_E_NO_ENGINE, "at most %d layers of %d bytes each",
                           SEAM_LAYERS_MAX, TOKEN_MAX - 1);
            break;
        }
        memcpy(token, s, len);
        token[len] = 0;
        rc = parse_layer(os, token, extra, &ret->layers[ret->n++], err);
        s = s[len] ? s + len + 1 : NULL;
    }
    if (rc == SEAM_OK)
        rc = check_order(ret, err);
    if (rc != SEAM_OK)
        seam_spec_close(ret);
    return rc;
}

void seam_spec_close(struct seam_spec *spec)
{
    for (size_t i = 0; i < spec->n; i++) {
        if (spec->layers[i].plugin)
            dlclose(spec->layers[i].plugin);
        spec->os->free(spec->os->ctx, spec->layers[i].path);
    }
    spec->n = 0;
}

/* ---- what there is ----------------------------------------------------------------------- */

size_t seam_engines(struct seam_engine_info *ret, size_t cap)
{
    size_t n = 0;
    for (const struct seam_backend *const *b = seam_registry; *b; b++, n++) {
        if (n >= cap)
            continue;
        ret[n].name = (*b)->name;
        ret[n].summary = (*b)->summary;
        ret[n].version = (*b)->version ? (*b)->version() : seam_version();
        ret[n].built_in = true;
        ret[n].wrapper = (*b)->flags & SEAM_BACKEND_WRAPPER;
        ret[n].is_volatile = (*b)->flags & SEAM_BACKEND_VOLATILE;
    }
    for (const struct seam_engine_info *i = seam_registry_absent; i->name; i++, n++)
        if (n < cap)
            ret[n] = *i;
    return n;
}

const struct seam_tuning *seam_engine_tunings(const char *name)
{
    static const struct seam_tuning none = {NULL, SEAM_TUNE_FLAG, NULL, NULL, 0, 0, NULL};
    const struct seam_backend *be = find(name, seam_registry);
    return !be ? NULL : be->tunings ? be->tunings : &none;
}
