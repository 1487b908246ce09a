/* main.c - the `seam` command: which subcommand. */
#include "plan.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"bench", "the same work on every engine, side by side, with what each ack meant", bench_cmd_bench},
    {"engines", "the engines of this build, their limits and options", bench_cmd_engines},
    {"probe", "what a flush costs on this disk", bench_cmd_probe},
    {"corpus", "what a profile is made of, and its digest", bench_cmd_corpus},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void help(FILE *out)
{
    fputs("seam - storage engines side by side, and what their acks mean\n\n"
          "Examples\n"
          "  seam bench --quick\n"
          "  seam bench --engines rocksdb,lmdb --workloads append --threads 1,32\n"
          "  seam probe --dir /mnt/data\n\n"
          "Commands, each with --help (or: seam help COMMAND)\n",
          out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fputs("  version   which version this is\n\n"
          "Exit codes: 0 ok, 1 failure, 2 usage, 3 engine not built in, 130 interrupted.\n",
          out);
}

static int run_command(const char *name, int argc, char **argv)
{
    char known[128] = "", text[32];
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            snprintf(text, sizeof(text), "seam %s", name);
            return bench_flush(text, commands[i].run(argc, argv));
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s, ", commands[i].name);
    }
    return bench_usage("seam", "no command '%.60s'; there are %shelp, version", name, known);
}

static int help_for(const char *name)
{
    char asked[] = "--help", *args[] = {NULL, asked, NULL};
    if (name != NULL)
        return run_command(name, 2, args);
    help(stdout);
    return bench_flush("seam", BENCH_OK);
}

/* A closed standard descriptor would be given to the next file that is opened, a store's perhaps, and
 * be printed into. A closed stdout becomes one that cannot be written, so that it is told. */
static void fill_descriptors(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open(fd == 1 ? "/dev/full" : "/dev/null", O_RDWR) != fd)
            _exit(BENCH_FAILED);
}

int main(int argc, char **argv)
{
    fill_descriptors();
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of the write, in the turns too */
    if (argc < 2) {           /* a script that lost its arguments must not see success */
        help(stderr);
        return BENCH_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0)
        return help_for(argc > 2 ? argv[2] : NULL);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help_for(NULL);
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("seam %s\n", seam_version());
        return bench_flush("seam", BENCH_OK);
    }
    if (strcmp(name, "turn") == 0) /* seam bench's own: one turn in a fresh process */
        return wire_child();
    return run_command(name, argc - 1, argv + 1);
}
