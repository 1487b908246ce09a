/* crc32c.c - CRC-32C (Castagnoli, reflected polynomial 0x82f63b78).
 *
 * Relies on the processor's CRC instruction where it has one (SSE 4.2, the ARMv8 CRC extension),
 * asked at each call because nothing here may be written after start; else on a const table. Both
 * give the same numbers. */
#include "crc32c.h"

#include <seam/backend.h>

#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#include <wmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

/* CRC is linear, so the entry of a byte is the XOR of its bits' entries. */
#define BIT(i, b, value) (((i) >> (b)) & 1u ? value : 0u)
#define T1(i)                                                                                      \
    (BIT(i, 0, 0xf26b8303u) ^ BIT(i, 1, 0xe13b70f7u) ^ BIT(i, 2, 0xc79a971fu) ^                    \
     BIT(i, 3, 0x8ad958cfu) ^ BIT(i, 4, 0x105ec76fu) ^ BIT(i, 5, 0x20bd8edeu) ^                    \
     BIT(i, 6, 0x417b1dbcu) ^ BIT(i, 7, 0x82f63b78u))
#define T4(i) T1((i)), T1((i) + 1u), T1((i) + 2u), T1((i) + 3u)
#define T16(i) T4((i)), T4((i) + 4u), T4((i) + 8u), T4((i) + 12u)
#define T64(i) T16((i)), T16((i) + 16u), T16((i) + 32u), T16((i) + 48u)

static const uint32_t byte_table[256] = {T64(0u), T64(64u), T64(128u), T64(192u)};

uint32_t seam_crc32c_table(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    crc = ~crc;
    for (; len > 0; len--, at++)
        crc = (crc >> 8) ^ byte_table[(crc ^ *at) & 0xffu];
    return ~crc;
}

#if defined(__x86_64__)

bool seam_crc32c_has_hardware(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

/* The instruction takes three cycles and one may start in each, so three lanes of 256 bytes go on
 * side by side. A lane's register is carried over the bytes behind it by multiplication: k is
 * x^(8 n - 33) modulo the polynomial for n bytes, and feeding the product to the instruction brings
 * x^33 and the reduction. */
enum { LANE = 256 };

__attribute__((target("sse4.2,pclmul"))) static uint64_t three_lanes(uint64_t a, const void *bytes,
                                                                     size_t blocks)
{
    const __m128i over_two = _mm_cvtsi64_si128(0xdd7e3b0c), over_one = _mm_cvtsi64_si128(0xb9e02b86);
    const unsigned char *at = bytes;

    for (; blocks > 0; blocks--, at += 3 * LANE) {
        uint64_t b = 0, c = 0, words[3];

        for (size_t i = 0; i < LANE; i += 8) {
            memcpy(&words[0], at + i, 8);
            memcpy(&words[1], at + LANE + i, 8);
            memcpy(&words[2], at + 2 * LANE + i, 8);
            a = _mm_crc32_u64(a, words[0]);
            b = _mm_crc32_u64(b, words[1]);
            c = _mm_crc32_u64(c, words[2]);
        }
        __m128i sum = _mm_xor_si128(
            _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), over_two, 0),
            _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)b), over_one, 0));
        a = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(sum)) ^ c;
    }
    return a;
}

__attribute__((target("sse4.2"))) uint32_t seam_crc32c_hardware(uint32_t crc, const void *bytes,
                                                                size_t len)
{
    const unsigned char *at = bytes;
    uint64_t wide = ~crc;
    if (len >= 3 * LANE && __builtin_cpu_supports("pclmul") != 0) {
        size_t blocks = len / (3 * LANE);
        wide = three_lanes(wide, at, blocks);
        at += blocks * 3 * LANE;
        len -= blocks * 3 * LANE;
    }
    for (; len >= 8; len -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; len > 0; len--, at++)
        crc = _mm_crc32_u8(crc, *at);
    return ~crc;
}

#elif defined(__aarch64__) && (defined(__linux__) || defined(__ARM_FEATURE_CRC32))

bool seam_crc32c_has_hardware(void)
{
#if defined(__ARM_FEATURE_CRC32)
    return true;
#else
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}

/* In assembly, because the intrinsics are there only when the whole file is built for CRC. */
uint32_t seam_crc32c_hardware(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    crc = ~crc;
    for (; len >= 8; len -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    }
    for (; len > 0; len--, at++)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*at));
    return ~crc;
}

#else

bool seam_crc32c_has_hardware(void)
{
    return false;
}

uint32_t seam_crc32c_hardware(uint32_t crc, const void *bytes, size_t len)
{
    return seam_crc32c_table(crc, bytes, len);
}

#endif

uint32_t seam_crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return seam_crc32c_has_hardware() ? seam_crc32c_hardware(crc, bytes, len)
                                      : seam_crc32c_table(crc, bytes, len);
}
