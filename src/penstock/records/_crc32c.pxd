"""CRC-32C without the interpreter lock, for loops over many small batches.

With the processor's instruction on x86-64, else with tables (slicing by 8). `penstock.records.crc` is the one to use
from Python: it is faster for large buffers, and holds the lock.
"""

from libc.stdint cimport uint8_t, uint32_t


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    static uint32_t penstock_crc_tables[8][256];

    static void penstock_crc_prepare(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; bit++)
                crc = crc & 1 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
            penstock_crc_tables[0][byte] = crc;
        }
        for (int table = 1; table < 8; table++)
            for (uint32_t byte = 0; byte < 256; byte++) {
                uint32_t crc = penstock_crc_tables[table - 1][byte];
                penstock_crc_tables[table][byte] = (crc >> 8) ^ penstock_crc_tables[0][crc & 0xFF];
            }
    }

    static uint32_t penstock_crc_by_tables(const uint8_t* at, size_t size) {
        const uint32_t (*t)[256] = (const uint32_t (*)[256])penstock_crc_tables;
        uint32_t crc = 0xFFFFFFFFu;
        for (; size >= 8; at += 8, size -= 8) {
            crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
            crc = t[7][crc & 0xFF] ^ t[6][crc >> 8 & 0xFF] ^ t[5][crc >> 16 & 0xFF] ^ t[4][crc >> 24]
                ^ t[3][at[4]] ^ t[2][at[5]] ^ t[1][at[6]] ^ t[0][at[7]];
        }
        for (; size > 0; at++, size--)
            crc = (crc >> 8) ^ t[0][(crc ^ *at) & 0xFF];
        return ~crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    __attribute__((target("sse4.2")))
    static uint32_t penstock_crc_by_instruction(const uint8_t* at, size_t size) {
        uint64_t crc = 0xFFFFFFFFu;
        for (; size >= 8; at += 8, size -= 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        for (; size > 0; at++, size--)
            crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
        return ~(uint32_t)crc;
    }

    static int penstock_crc_has_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
    #else
    static uint32_t penstock_crc_by_instruction(const uint8_t* at, size_t size) {
        return penstock_crc_by_tables(at, size);
    }

    static int penstock_crc_has_instruction(void) { return 0; }
    #endif
    """
    void prepare_crc "penstock_crc_prepare"() noexcept nogil
    bint has_crc_instruction "penstock_crc_has_instruction"() noexcept nogil
    uint32_t crc_by_tables "penstock_crc_by_tables"(const uint8_t* data, size_t size) noexcept nogil
    uint32_t crc_by_instruction "penstock_crc_by_instruction"(const uint8_t* data, size_t size) noexcept nogil
