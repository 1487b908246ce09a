/* test_environment.c - the flush probe measures each cell it promises and leaves nothing behind;
 * the environment names the file system, and says when a result is none of durability. */
#include "environment.h"
#include "probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void make_dir(char *ret, size_t cap)
{
    snprintf(ret, cap, "./environment-XXXXXX");
    assert_non_null(mkdtemp(ret));
}

static void test_probe_all(void **state)
{
    static const uint32_t sizes[] = {512, 8192};
    const struct seam_probe_options options = {sizes, 2, 20, 50};
    struct seam_probe_cell cells[SEAM_PROBE_MAX_CELLS];
    struct seam_err err;
    char dir[64];
    size_t n = 0;

    (void)state;
    make_dir(dir, sizeof dir);
    assert_int_equal(seam_probe_all(dir, &options, cells, &n, &err), SEAM_OK);
    assert_int_equal(n, 2 * SEAM_PROBE_HOWS * SEAM_PROBE_FILES);
    for (size_t i = 0; i < n; i++) {
        print_message("%-16s %-8s %6u  n %3llu  p50 %.0f us\n", seam_probe_how_name(cells[i].how),
                      seam_probe_file_name(cells[i].file), (unsigned)cells[i].size,
                      (unsigned long long)cells[i].n, cells[i].p50_us);
        assert_true(cells[i].size == sizes[i / (SEAM_PROBE_HOWS * SEAM_PROBE_FILES)]);
        if (cells[i].how != SEAM_PROBE_DIRECT_DSYNC)
            assert_true(cells[i].n >= 1);
        assert_true(cells[i].n <= 50);
        assert_true(cells[i].n > 0 ? cells[i].p50_us > 0 && cells[i].max_us >= cells[i].p50_us
                                   : cells[i].p50_us < 0);
        assert_true(cells[i].p99_us < 0); /* too few for it */
    }
    assert_int_equal(rmdir(dir), 0); /* empty */
}

static void test_probe_short(void **state)
{
    struct seam_probe_cell cell;
    struct seam_probe *probe;
    struct seam_err err;
    char dir[64];

    (void)state;
    make_dir(dir, sizeof dir);
    assert_int_equal(seam_probe_open(dir, &probe, &err), SEAM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(seam_probe_run(probe, i == 0 ? 0 : 5, &cell, &err), SEAM_OK);
        assert_true(cell.n >= 1 && cell.p50_us > 0 && cell.size == 4096);
    }
    seam_probe_close(probe);
    assert_int_equal(rmdir(dir), 0);
}

static void test_probe_refuses(void **state)
{
    static const uint32_t odd = 1000;
    const struct seam_probe_options options = {&odd, 1, 1, 1};
    struct seam_probe_cell cells[8];
    struct seam_probe *probe = NULL;
    struct seam_err err;
    size_t n = 77;

    (void)state;
    assert_int_equal(seam_probe_all(".", &options, cells, &n, &err), SEAM_E_INVALID);
    assert_true(seam_probe_all("./no/such", NULL, cells, &n, &err) < 0);
    assert_int_equal(n, 77);
    assert_true(seam_probe_open("./no/such", &probe, &err) < 0);
    assert_null(probe);
    assert_string_equal(seam_probe_how_name((enum seam_probe_how)99), "?");
}

static void test_environment(void **state)
{
    struct seam_environment env;
    struct seam_device_io io;

    (void)state;
    seam_environment_read(".", &env);
    print_message("%s, %lld cpus, %lld MiB, %s\n", env.cpu_model, (long long)env.cpus,
                  (long long)env.memory_bytes >> 20, env.kernel);
    print_message("%s at %s from %s (%s), device %s %s, cache '%s' fua %d scheduler '%s'\n",
                  env.filesystem, env.mount_point, env.mount_source, env.mount_options, env.device,
                  env.device_number, env.write_cache, env.fua, env.scheduler);
    for (size_t i = 0; env.not_durable[i] != NULL; i++)
        print_message("not durable: %s\n", env.not_durable[i]);
    for (size_t i = 0; env.careful[i] != NULL; i++)
        print_message("careful: %s\n", env.careful[i]);
    assert_true(env.cpus >= 1 && env.memory_bytes > 0);
    assert_true(env.kernel[0] != '\0' && env.filesystem[0] != '\0');
    assert_true(env.space_total >= env.space_free && env.space_free >= 0);
    seam_environment_device_io(&env, &io);
    assert_true(env.device[0] == '\0' ? io.write_bytes == -1 : io.write_bytes >= 0);
    seam_environment_read(NULL, &env);
    assert_string_equal(env.filesystem, "");
    assert_int_equal(env.logical_block, -1);
    seam_environment_device_io(&env, &io);
    assert_true(io.write_bytes == -1 && io.read_bytes == -1 && io.flushes == -1);
}

static void test_memory_is_not_durable(void **state)
{
    struct seam_environment env;
    struct seam_device_io io;

    (void)state;
    seam_environment_read("/dev/shm", &env);
    if (strcmp(env.filesystem, "tmpfs") != 0) {
        print_message("skipped: /dev/shm is no tmpfs\n");
        skip();
    }
    assert_non_null(env.not_durable[0]);
    assert_string_equal(env.device, "");
    seam_environment_device_io(&env, &io);
    assert_int_equal(io.write_bytes, -1);
}

/* Device bytes grow with what is flushed, where a device is seen. */
static void test_device_bytes(void **state)
{
    static const char bytes[1 << 20] = {1};
    struct seam_environment env;
    struct seam_device_io before, after;
    char dir[64], path[128];
    FILE *file;

    (void)state;
    seam_environment_read(".", &env);
    if (env.device[0] == '\0' || env.not_durable[0] != NULL) {
        print_message("skipped: no block device is seen\n");
        skip();
    }
    make_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/file", dir);
    seam_environment_device_io(&env, &before);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(fsync(fileno(file)), 0);
    fclose(file);
    unlink(path);
    rmdir(dir);
    seam_environment_device_io(&env, &after);
    assert_true(after.write_bytes >= before.write_bytes);
    if (strcmp(env.filesystem, "ext4") == 0)
        assert_true(after.write_bytes - before.write_bytes >= (int64_t)sizeof bytes);
}

static void test_usage(void **state)
{
    enum { BYTES = 32 << 20 };
    struct seam_usage first, second, third;
    char *buf;

    (void)state;
    seam_usage_read(&first);
    assert_true(first.cpu_us >= 0 && first.rss_bytes > 0);
    assert_true(first.rss_peak_bytes >= first.rss_bytes / 2);
    buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(buf != MAP_FAILED);
    for (size_t i = 0; i < BYTES; i += 512)
        buf[i] = (char)i;
    seam_usage_read(&second);
    assert_true(second.rss_peak_bytes >= first.rss_bytes + BYTES / 2);
    munmap(buf, BYTES);
    if (!seam_usage_reset_peak()) {
        print_message("skipped: the peak cannot be reset\n");
        skip();
    }
    seam_usage_read(&third);
    assert_true(third.rss_peak_bytes <= second.rss_peak_bytes);
    assert_true(third.cpu_us >= first.cpu_us);
}

static void test_directory_bytes(void **state)
{
    static const char bytes[20000] = {1};
    char dir[64], path[128];
    int64_t empty, full;
    FILE *file;

    (void)state;
    make_dir(dir, sizeof dir);
    empty = seam_directory_bytes(dir);
    assert_true(empty >= 0);
    snprintf(path, sizeof path, "%s/sub", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/sub/file", dir);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    fflush(file);
    fsync(fileno(file));
    fclose(file);
    full = seam_directory_bytes(dir);
    assert_true(full >= empty + 20000);
    unlink(path);
    snprintf(path, sizeof path, "%s/sub", dir);
    rmdir(path);
    rmdir(dir);
    assert_int_equal(seam_directory_bytes(dir), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_all),
        cmocka_unit_test(test_probe_short),
        cmocka_unit_test(test_probe_refuses),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_memory_is_not_durable),
        cmocka_unit_test(test_device_bytes),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_directory_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
