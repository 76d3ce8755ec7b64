// Embedding: a row of a table of any type, as floats.

// Elements of a table's row in the panel layout: chunk c of the row is chunk
// at + c·lanes of the table.
struct TableRow {
  IN(Chunk) table;
  long long at;
  int lanes;
};

DEVICE int table_byte(const TableRow &r, int chunk, int i) {
  return AS_IN(unsigned char, r.table)[(r.at + (long long)chunk * r.lanes) * 16 + i];
}

DEVICE float table_half(const TableRow &r, int chunk, int i) {
  return HALF(AS_IN(unsigned short, r.table)[(r.at + (long long)chunk * r.lanes) * 8 + i]);
}

DEVICE float table_number(const TableRow &r, int type, int col) {
  const int segment = col / SEGMENT, block = col % SEGMENT / 32, i = col % 32;
  switch (type) {
  case TYPE_F32:
    return AS_IN(float, r.table)[(r.at + (long long)(col / 4) * r.lanes) * 4 + col % 4];
  case TYPE_F16:
    return table_half(r, col / 8, col % 8);
  case TYPE_BF16: {
    const unsigned bits = AS_IN(unsigned short, r.table)[(r.at + (long long)(col / 8) * r.lanes) * 8 + col % 8];
    return BITS_FLOAT(bits << 16);
  }
  case TYPE_Q8_0: {
    const int first = segment * 17;
    const int q = (signed char)table_byte(r, first + 1 + 2 * block + i / 16, i % 16);
    return table_half(r, first, block) * (float)q;
  }
  case TYPE_Q4_0: {
    const int first = segment * 9;
    const int q = (table_byte(r, first + 1 + block, i % 16) >> (i / 16 * 4) & 15) - 8;
    return table_half(r, first, block) * (float)q;
  }
  case TYPE_Q4_K: {
    const int first = segment * 9;
    const int q = table_byte(r, first + 1 + block / 2 * 2 + i / 16, i % 16) >> (block % 2 * 4) & 15;
    const int low = block % 4;
    int scale = table_byte(r, first, 4 + low), min = table_byte(r, first, 8 + low);
    if (block < 4) {
      scale &= 63;
      min &= 63;
    } else {
      const int both = table_byte(r, first, 12 + low);
      scale = (both & 15) | (scale >> 6) << 4;
      min = both >> 4 | (min >> 6) << 4;
    }
    // Both products are exact, d having 11 bits: only the difference is rounded.
    return table_half(r, first, 0) * (float)(scale * q) - table_half(r, first, 1) * (float)min;
  }
  case TYPE_Q6_K: {
    const int first = segment * 14, half = block / 4, part = block % 4;
    const int low = table_byte(r, first + 4 * half + 2 * (part % 2) + i / 16, i % 16) >> (part / 2 * 4) & 15;
    const int high = table_byte(r, first + 8 + 2 * half + i / 16, i % 16) >> (2 * part) & 3;
    const int scale = (signed char)table_byte(r, first + 12, 2 * block + i / 16);
    return table_half(r, first + 13, 0) * (float)scale * (float)((low | high << 4) - 32);
  }
  }
  return 0;
}

// leat_embed: block r copies row token[r] of the table to row r of dst, a thread every
// 256th element. A row whose token the table doesn't have becomes zeros.
KERNEL(leat_embed, EmbedParams, 256) {
  const int row = BLOCK_X;
  bool good = header_holds(p.header, p.status, EMBED, p.rows, -1, -1);
  int token = 0;
  if (good) {
    token = token_of(p.header, row);
    if (token < 0 || token >= p.tokens) {
      if (THREAD == 0) REPORT(p.status, TOKEN_OUTSIDE, EMBED, row, token, p.tokens);
      good = false;
    }
  }
  const TableRow from = {p.table, (long long)(token / p.lanes) * p.chunks * p.lanes + token % p.lanes, p.lanes};
  const long long to = (long long)row * p.cols;
  for (int col = THREAD; col < p.cols; col += 256) {
    float v = 0;
    if (good) v = table_number(from, p.type, col);
    p.dst[to + col] = v;
  }
}
