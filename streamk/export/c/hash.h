
/* --- Columns that texts share ----------------------------------------------------------------- */

static inline unsigned long long model_rotated(unsigned long long word, int bits)
{
    return word >> bits | word << (64 - bits);
}

/* Mix two words of a message into four of the state. */
static inline void model_mix(unsigned long long *v, int a, int b, int c, int d,
                             unsigned long long x, unsigned long long y)
{
    v[a] += v[b] + x;
    v[d] = model_rotated(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = model_rotated(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = model_rotated(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = model_rotated(v[b] ^ v[c], 63);
}

/* Take a block of 128 bytes, the last of which is byte number `count`, into the state h. */
static inline void model_take_block(unsigned long long *h, const unsigned long long *block,
                                    unsigned long long count, int is_last)
{
    static const unsigned long long first[8] = {
        0x6A09E667F3BCC908u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu, 0xA54FF53A5F1D36F1u,
        0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu, 0x1F83D9ABFB41BD6Bu, 0x5BE0CD19137E2179u};
    static const unsigned char order[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
        {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
        {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
        {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
        {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};
    unsigned long long v[16];
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = first[i];
    }
    v[12] ^= count;
    v[14] = is_last ? ~v[14] : v[14];
    for (int round = 0; round < 12; round++) {
        const unsigned char *at = order[round % 10];
        for (int i = 0; i < 4; i++)
            model_mix(v, i, i + 4, i + 8, i + 12, block[at[2 * i]], block[at[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            model_mix(v, i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12,
                      block[at[2 * i + 8]], block[at[2 * i + 9]]);
    }
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

/* BLAKE2b of a text, of 8 bytes, as a number. */
static inline unsigned long long model_hash(const char *text)
{
    unsigned long long count = 0, h[8] = {
        0x6A09E667F3BCC908u ^ 0x01010008u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu,
        0xA54FF53A5F1D36F1u, 0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu, 0x1F83D9ABFB41BD6Bu,
        0x5BE0CD19137E2179u};
    do {
        unsigned long long block[16] = {0};
        for (int i = 0; i < 128 && *text != 0; i++, text++, count++)
            block[i / 8] |= (unsigned long long)(unsigned char)*text << (8 * (i % 8));
        model_take_block(h, block, count, *text == 0);
    } while (*text != 0);
    return h[0];
}
