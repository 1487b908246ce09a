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

static int help(void)
{
    puts("seam - storage engines side by side, and what their acks mean\n\n"
         "Examples\n"
         "  seam bench --quick\n"
         "  seam bench --engines rocksdb,lmdb --workloads append --threads 1,32\n"
         "  seam probe --dir /mnt/data\n\n"
         "Commands, each with --help");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    puts("\nExit codes: 0 ok, 1 failure, 2 usage, 3 engine not built in, 130 interrupted.");
    return fflush(stdout) == 0 ? BENCH_OK : BENCH_FAILED;
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
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help();
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("seam %s\n", seam_version());
        return fflush(stdout) == 0 ? BENCH_OK : BENCH_FAILED;
    }
    if (strcmp(name, "turn") == 0) /* seam bench's own: one turn in a fresh process */
        return wire_child();
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return bench_usage("seam", "no command '%.60s'; there are bench, engines, probe, corpus, help", name);
}
