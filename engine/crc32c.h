/* crc32c.h - the two ways of seam_crc32c, apart, so that a test can hold them against each other.
 * Private to engine/. */
#ifndef SEAM_ENGINE_CRC32C_H
#define SEAM_ENGINE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool seam_crc32c_has_hardware(void);
/* Only where seam_crc32c_has_hardware(). */
uint32_t seam_crc32c_hardware(uint32_t crc, const void *bytes, size_t len);
uint32_t seam_crc32c_table(uint32_t crc, const void *bytes, size_t len);

#endif
