/* plugin_bad.c - plug-ins that cannot be used: each of the definitions below makes another one. */
#include <seam/backend.h>

#if defined(BAD_ENTRY)
SEAM_API int seam_no_entry(void);
SEAM_API int seam_no_entry(void)
{
    return 1;
}
#else

static int no_open(const struct seam_open_args *args, struct seam_engine **ret,
                   struct seam_err *err)
{
    (void)args, (void)ret;
    return seam_fail(err, SEAM_E_IO, "is never called");
}

static int no_close(struct seam_engine *e, struct seam_err *err)
{
    (void)e, (void)err;
    return SEAM_OK;
}

#if defined(BAD_TUNING)
static const struct seam_tuning tunings[] = {
    {"mood", SEAM_TUNE_WORD, "good", "has no list of words", 0, 0, NULL},
    {NULL, SEAM_TUNE_FLAG, NULL, NULL, 0, 0, NULL},
};
#endif

static const struct seam_backend bad = {
#if defined(BAD_ABI)
    .abi = SEAM_BACKEND_ABI + 6,
#else
    .abi = SEAM_BACKEND_ABI,
#endif
#if defined(BAD_TUNING)
    .flags = SEAM_BACKEND_VOLATILE | SEAM_BACKEND_WRAPPER,
    .tunings = tunings,
#else
    .flags = SEAM_BACKEND_VOLATILE,
#endif
#if defined(BAD_NAME)
    .name = "Bad/../name",
#else
    .name = "bad",
#endif
    .summary = "lacks what an engine has to have",
    .open = no_open,
    .close = no_close,
};

SEAM_API const struct seam_backend *seam_backend_entry(void);
SEAM_API const struct seam_backend *seam_backend_entry(void)
{
#if defined(BAD_NULL)
    return bad.abi == 0 ? &bad : NULL;
#else
    return &bad;
#endif
}
#endif
