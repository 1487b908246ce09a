/* test_crc32c.c - CRC-32C against published vectors, and its two ways against each other. */
#include "crc32c.h"

#include <seam/backend.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct vector {
    uint8_t bytes[48];
    size_t len;
    uint32_t crc;
};

/* RFC 3720, B.4, and the check value of the catalogue of CRCs. */
static void vectors(void **state)
{
    (void)state;
    struct vector v[5];
    memset(v, 0, sizeof v);
    v[0].len = 32, v[0].crc = 0x8a9136aa;
    memset(v[1].bytes, 0xff, 32), v[1].len = 32, v[1].crc = 0x62a8ab43;
    for (uint8_t i = 0; i < 32; i++)
        v[2].bytes[i] = i, v[3].bytes[i] = (uint8_t)(31 - i);
    v[2].len = 32, v[2].crc = 0x46dd794e;
    v[3].len = 32, v[3].crc = 0x113fdb5c;
    memcpy(v[4].bytes, "123456789", 9), v[4].len = 9, v[4].crc = 0xe3069283;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(seam_crc32c(0, v[i].bytes, v[i].len), v[i].crc);
        assert_int_equal(seam_crc32c_table(0, v[i].bytes, v[i].len), v[i].crc);
        if (seam_crc32c_has_hardware())
            assert_int_equal(seam_crc32c_hardware(0, v[i].bytes, v[i].len), v[i].crc);
    }
    assert_int_equal(seam_crc32c(0, "", 0), 0);
}

/* Each entry of the table against the definition, bit by bit. */
static void table_is_the_definition(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        uint32_t crc = 0xffffffffu ^ i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1u ? 0x82f63b78u : 0u);
        assert_int_equal(seam_crc32c_table(0, &byte, 1), ~crc);
    }
}

static void both_ways_agree_and_chain(void **state)
{
    (void)state;
    const char *text = getenv("SEAM_SEED");
    uint64_t x = text ? strtoull(text, NULL, 0) : 20240607;
    printf("SEAM_SEED=%" PRIu64 "\n", x);
    uint8_t buf[2600];
    for (size_t i = 0; i < sizeof buf; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        buf[i] = (uint8_t)(x >> 56);
    }
    if (!seam_crc32c_has_hardware())
        print_message("no CRC instruction here: only the table was tested\n");
    for (size_t start = 0; start < 9; start++)
        for (size_t len = 0; len < 2500; len += len < 300 ? 1 : 7) {
            uint32_t crc = seam_crc32c_table(7, buf + start, len);
            assert_int_equal(seam_crc32c(7, buf + start, len), crc);
            if (seam_crc32c_has_hardware())
                assert_int_equal(seam_crc32c_hardware(7, buf + start, len), crc);
            size_t cut = len / 3;
            assert_int_equal(
                seam_crc32c(seam_crc32c(7, buf + start, cut), buf + start + cut, len - cut), crc);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(table_is_the_definition),
        cmocka_unit_test(both_ways_agree_and_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
