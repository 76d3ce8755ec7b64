// leat_rope: block r turns the heads of row r by the row's position. A thread has
// every 256th pair of the row's heads, and keeps a pair's cosine and sine for the next
// head where that is the same pair.
KERNEL(leat_rope, RoPEParams, 256) {
  const int row = BLOCK_X;
  if (!header_holds(p.header, p.status, ROPE, p.rows, -1, -1)) return;
  const int position = position_of(p.header, p.status, ROPE, p.rows, row);
  if (position < 0) return;
  const long long all = (long long)(p.cols / p.dim) * p.pairs;
  int known = -1;
  Turn turn = {1, 0};
  for (long long i = THREAD; i < all; i += 256) {
    const int pair = (int)(i % p.pairs);
    if (pair != known) {
      turn = turn_of(position, p.frequencies[pair]);
      known = pair;
    }
    const long long head = (long long)row * p.cols + i / p.pairs * p.dim;
    const long long first = head + (p.split ? pair : 2 * pair);
    const long long second = first + (p.split ? p.pairs : 1);
    const float a = p.x[first], b = p.x[second];
    p.x[first] = a * turn.cosine - b * turn.sine;
    p.x[second] = a * turn.sine + b * turn.cosine;
  }
}
