// Functions that hardware has only approximately, as polynomials: the same bits
// everywhere. And a warp's sum and maximum.

// Reduced is x as n·ln 2 + r: 2^n, and r.
struct Reduced {
  float power, r;
};

// reduced reduces x at most 0 or NaN, which is taken for -88 where it is less, with
// |r| ≤ ln 2/2 (Cody and Waite, "Software Manual for the Elementary Functions", 1980).
DEVICE Reduced reduced(float x) {
  // Adding it leaves no bits for a fraction, and 127 more makes the low bits of the
  // sum the exponent field of 2^n; a field of 0 is the number 0.
  const float round = 12583039.0f; // 3·2^22 + 127
  if (x < -88.0f) x = -88.0f;
  const float biased = FMA(x, 1.442695041f, round);
  const float n = biased - round;
  Reduced red;
  red.r = FMA(n, -0.693115234f, x);         // 12 bits of ln 2: the product is exact
  red.r = FMA(n, -3.19461833e-5f, red.r);   // ln 2 less those
  red.power = BITS_FLOAT(FLOAT_BITS(biased) << 23);
  return red;
}

// series is Taylor's, of (e^r - 1)/r; its remainder after r⁷ of e^r is below 6e-9.
DEVICE float series(float r) {
  float s = 1.0f / 5040.0f;
  s = FMA(s, r, 1.0f / 720.0f);
  s = FMA(s, r, 1.0f / 120.0f);
  s = FMA(s, r, 1.0f / 24.0f);
  s = FMA(s, r, 1.0f / 6.0f);
  s = FMA(s, r, 0.5f);
  return FMA(s, r, 1.0f);
}

// exponential returns e^x of x at most 0 or NaN, with a relative error below 2^-23, or
// twice that among the denormals; where it would be below 2^-126.5, it is 0. As
// internal/panel's, with fused operations.
DEVICE float exponential(float x) {
  const Reduced red = reduced(x);
  return FMA(series(red.r), red.r, 1.0f) * red.power;
}

// exponential_less_one returns e^x - 1 of x at most 0 or NaN, with a relative error
// below 2^-22: 2^n·(e^r - 1) + (2^n - 1).
DEVICE float exponential_less_one(float x) {
  const Reduced red = reduced(x);
  return FMA(series(red.r) * red.r, red.power, red.power - 1.0f);
}

// Turn is an angle's cosine and sine.
struct Turn {
  float cosine, sine;
};

// turn_of returns cosine and sine of position·frequency radians, with an error below
// 1e-7 (7.2e-8 was seen) where neither position nor angle is above 2^24.
//
// The angle is two floats, a rounded product and what it lost. Multiples of π/2, as
// three floats, are taken away twice: the first count is off by one where the angle is
// large. What is lost on the way is kept in rest. Sine and cosine of what remains,
// at most π/4, are Taylor's series, whose remainders are below 2e-9.
DEVICE Turn turn_of(int position, float frequency) {
  const float high = 1.57079637f, middle = -4.37113883e-8f, low = -1.71512451e-15f; // of π/2
  const float quarter = 0.636619747f;                                               // 2/π
  const float at = (float)position;
  const float angle = at * frequency;
  const float lost = FMA(at, frequency, -angle);

  const float n = RINT(angle * quarter);
  const float exact = FMA(-n, high, angle);
  const float second = n * middle;
  float rest = -FMA(n, middle, -second);

  // Two sums, each with what its rounding loses (Knuth).
  const float a = exact - second;
  const float a1 = a - exact;
  rest += (exact - (a - a1)) - (second + a1);
  const float b = a + lost;
  const float b1 = b - a;
  rest += (a - (b - b1)) + (lost - b1);

  const float k = RINT(b * quarter);
  const float left = FMA(-k, high, b);
  rest = FMA(-(n + k), low, FMA(-k, middle, rest));
  const float r = left + rest;
  const float square = r * r;

  float sine = 2.75573192e-6f;                 // 1/9!
  sine = FMA(sine, square, -1.98412698e-4f);   // 1/7!
  sine = FMA(sine, square, 8.33333333e-3f);    // 1/5!
  sine = FMA(sine, square, -1.66666667e-1f);   // 1/3!
  sine = FMA(sine * square, r, r);
  float cosine = -2.75573192e-7f;              // 1/10!
  cosine = FMA(cosine, square, 2.48015873e-5f); // 1/8!
  cosine = FMA(cosine, square, -1.38888889e-3f); // 1/6!
  cosine = FMA(cosine, square, 4.16666667e-2f); // 1/4!
  cosine = FMA(cosine, square, -0.5f);
  cosine = FMA(cosine, square, 1.0f);

  // The bounds make a number of what may be none, where the frequency is none.
  const float limit = 16777216.0f;
  const int quadrant = (int)MAXF(-limit, MINF(limit, n)) + (int)MAXF(-4.0f, MINF(4.0f, k));
  Turn turn;
  turn.cosine = quadrant & 1 ? sine : cosine;
  turn.sine = quadrant & 1 ? cosine : sine;
  if ((quadrant + 1) & 2) turn.cosine = -turn.cosine;
  if (quadrant & 2) turn.sine = -turn.sine;
  return turn;
}

// warp_sum returns the sum of the lanes' v by halves: the upper 16 lanes' to the
// lower 16's, then of those the upper 8's, and so on. Addition commutes, so every lane
// has the same bits.
DEVICE float warp_sum(float v) {
  FOR_UNROLLED
  for (int half = 16; half > 0; half /= 2) v += SHUFFLE_XOR(v, half);
  return v;
}

// warp_max returns the largest of the lanes' v, NaN left out.
DEVICE float warp_max(float v) {
  FOR_UNROLLED
  for (int half = 16; half > 0; half /= 2) v = MAXF(v, SHUFFLE_XOR(v, half));
  return v;
}
