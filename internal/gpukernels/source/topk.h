// The k largest numbers of each row, in order.

enum { NO_COLUMN = 0x7fffffff }; // of what isn't there: behind all that is

// Candidate is a number and its column.
struct Candidate {
  float value;
  int column;
};

// ahead says whether a comes before b: it is larger, or as large and further left.
DEVICE bool ahead(Candidate a, Candidate b) {
  return a.value > b.value || (a.value == b.value && a.column < b.column);
}

// step compares each thread's candidate with that of the thread whose number differs
// by the bit stride, and keeps the one ahead in the lower of the two, or in the higher.
template <class Values, class Columns>
DEVICE Candidate step(Candidate mine, int stride, bool lower, Values &values, Columns &columns) {
  Candidate other;
  if (stride < LANES) {
    other.value = SHUFFLE_XOR(mine.value, stride);
    other.column = SHUFFLE_XOR(mine.column, stride);
  } else {
    BARRIER(); // all have read the step before
    values[THREAD] = mine.value;
    columns[THREAD] = mine.column;
    BARRIER();
    other.value = values[THREAD ^ stride];
    other.column = columns[THREAD ^ stride];
  }
  const bool first = ((THREAD & stride) == 0) == lower;
  return ahead(other, mine) == first ? other : mine;
}

// leat_top_k: block (r, i) finds what is ahead in part i of row r, 256 columns at a
// time, a thread one of them: it sorts them, the last first, takes of each pair with
// the 256 best so far the one ahead, which is a bitonic sequence of the 256 best of
// both, and sorts that (Batcher, "Sorting Networks and Their Applications", 1968).
KERNEL(leat_top_k, TopKParams, 256) {
  SHARED(float, values, 256);
  SHARED(int, columns, 256);
  const float infinity = BITS_FLOAT(0x7f800000u);
  const Candidate none = {-infinity, NO_COLUMN};
  const long long row = (long long)BLOCK_X * p.cols;
  const long long from = (long long)BLOCK_Y * p.each;
  const long long end = from + p.each < p.cols ? from + p.each : p.cols;
  Candidate best = none;
  for (long long at = from; at < end; at += 256) {
    const long long col = at + THREAD;
    Candidate next = none;
    if (col < end) {
      const float v = p.x[row + col];
      int column = (int)col;
      if (p.given) column = p.columns[row + col];
      if (v == v && column >= 0) {
        next.value = v;
        next.column = column;
      }
    }
    for (int size = 2; size <= 256; size *= 2) {
      for (int stride = size / 2; stride > 0; stride /= 2) {
        next = step(next, stride, size < 256 && (THREAD & size) == 0, values, columns);
      }
    }
    if (ahead(next, best)) best = next;
    for (int stride = 128; stride > 0; stride /= 2) best = step(best, stride, true, values, columns);
  }
  if (THREAD < p.k) {
    const long long to = ((long long)BLOCK_X * p.parts + BLOCK_Y) * p.k + THREAD;
    p.values[to] = best.value;
    p.ids[to] = best.column == NO_COLUMN ? -1 : best.column;
  }
}
