// The product of one row: block (b, r) computes outputs 32b to 32b+31 of row r. The
// outputs are a panel's, one a lane; segment s of the columns is warp s mod 8's. In the
// end warp 0 adds the segments in order.
//
// A product of many rows goes through the segments one after the other and adds each
// as it is done. Within a segment both call the same functions in the same order, so
// that a row has the same bits in both.

enum { ROUND = 64 }; // segments between two additions

// Tile of the products of many rows: 64 outputs, two panels, and 32 rows. Warp w has
// rows 4w to 4w+3, lane l outputs l and l+32: eight sums a thread.
enum { TILE_OUTPUTS = 64, TILE_ROWS = 32, ROWS_EACH = 4 };

// add_segment adds a segment's sum to those before it; the first is taken as it is.
DEVICE float add_segment(float total, float sum, bool first) { return first ? sum : total + sum; }

// write_tile writes what a thread has of a tile, where it is in y.
DEVICE void write_tile(OUT(float) y, int rows, int outs, const float (&total)[2][ROWS_EACH]) {
  FOR_UNROLLED
  for (int j = 0; j < ROWS_EACH; j++) {
    const int row = BLOCK_Y * TILE_ROWS + WARP * ROWS_EACH + j;
    FOR_UNROLLED
    for (int i = 0; i < 2; i++) {
      const int out = BLOCK_X * TILE_OUTPUTS + i * LANES + LANE;
      if (row < rows && out < outs) y[(long long)row * outs + out] = total[i][j];
    }
  }
}

// product_of_row has segment_sum(product, s) summed for each segment s. It is called
// by whole warps.
template <class Product>
DEVICE void product_of_row(Product &product, int segments, OUT(float) y, int outs) {
  SHARED(float, sums, ROUND * LANES);
  float total = 0;
  for (int from = 0; from < segments; from += ROUND) {
    const int end = segments - from < ROUND ? segments : from + ROUND;
    if (from > 0) BARRIER(); // warp 0 has read the round before
    for (int s = from + WARP; s < end; s += WARPS) sums[(s - from) * LANES + LANE] = segment_sum(product, s);
    BARRIER();
    if (WARP == 0) {
      for (int s = from; s < end; s++) {
        const float sum = sums[(s - from) * LANES + LANE];
        total = add_segment(total, sum, s == 0);
      }
    }
  }
  const int out = BLOCK_X * LANES + LANE;
  if (WARP == 0 && out < outs) y[(long long)BLOCK_Y * outs + out] = total;
}
