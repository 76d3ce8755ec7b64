// The header of a batch in device memory. What comes from it is checked before it is
// used, and where it is wrong the status says so: no header makes a kernel touch
// memory that isn't its own. Its length is the host's to check: it holds what rows,
// outputs and words of page tables take.

enum { PREFIX = 8 }; // words before the tokens

// header_holds says whether the header is of so many rows, and of outputs and words of
// tables where these aren't negative. If not, a block's first thread reports it.
DEVICE bool header_holds(IN(int) header, STATUS status, Op op, int rows, int outputs, int words) {
  const int n = header[0], m = header[1], w = header[2];
  if (n == rows && (outputs < 0 || m == outputs) && (words < 0 || w == words)) return true;
  if (THREAD == 0) REPORT(status, HEADER_DIFFERS, op, n, m, w);
  return false;
}

DEVICE int token_of(IN(int) header, int row) { return header[PREFIX + (long long)row]; }

// position_of returns a row's position; a negative one after it has reported it.
DEVICE int position_of(IN(int) header, STATUS status, Op op, int rows, int row) {
  const int position = header[PREFIX + (long long)rows + row];
  if (position < 0 && THREAD == 0) REPORT(status, POSITION_NEGATIVE, op, row, position, 0);
  return position;
}

DEVICE int output_of(IN(int) header, int rows, int output) {
  return header[PREFIX + 3 * (long long)rows + output];
}

// page_of returns the page of the cache with positions 32·block and on of a row's
// sequence; -1 where the table or the cache doesn't have it, which reporter reports.
template <class Params>
DEVICE int page_of(const Params &p, Op op, int row, int block, bool reporter) {
  const long long tables = PREFIX + 2 * (long long)p.rows;
  const int table = p.header[tables + row];
  const long long word = (long long)table + block;
  if (table < 0 || word >= p.words) {
    const int needed = word < 0x7fffffff ? (int)word : 0x7fffffff;
    if (reporter) REPORT(p.status, TABLE_SHORT, op, row, needed, p.words);
    return -1;
  }
  const int page = p.header[tables + p.rows + p.outputs + word];
  const long long based = (long long)page + p.base;
  if (page < 0 || based < 0 || based >= p.pages) {
    if (reporter) REPORT(p.status, PAGE_OUTSIDE, op, row, page, p.pages - p.base);
    return -1;
  }
  return (int)based;
}
