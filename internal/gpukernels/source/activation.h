// Activations, as internal/panel's activation.go has them, with fused operations.

DEVICE float negative(float x) {
  const unsigned sign = 0x80000000u;
  return BITS_FLOAT(FLOAT_BITS(x) | sign);
}

DEVICE bool is_negative(float x) { return FLOAT_BITS(x) >> 31 != 0; }

// logistic is x/(1+e^-u), where u has the sign of x. Below 0 it is taken as
// x·e^u/(1+e^u), where nothing overflows.
DEVICE float logistic(float x, float u) {
  const float power = exponential(negative(u));
  const float numerator = is_negative(x) ? x * power : x;
  return DIV(numerator, 1.0f + power);
}

// gelu: since (1+tanh u)/2 = σ(2u), it is x·σ(x·(1.596 + 0.0714·x²)).
DEVICE float gelu(float x) { return logistic(x, x * FMA(x * x, 0.0713548139f, 1.59576917f)); }

// gelu_erf is x·Φ(x), Φ(-x) being e^(-x²/2)·t·P(t) with t = 1/(1 + 0.35·x).
DEVICE float gelu_erf(float x) {
  const float t = DIV(1.0f, 1.0f + -negative(x) * 0.35f);
  float h = -0.0291150007f;
  h = FMA(h, t, 0.143818349f);
  h = FMA(h, t, -0.255390882f);
  h = FMA(h, t, 0.15879643f);
  h = FMA(h, t, -0.0228433404f);
  h = FMA(h, t, 0.105392113f);
  h = FMA(h, t, 0.119863093f);
  h = FMA(h, t, 0.13985756f);
  h = FMA(h, t, 0.13962166f);
  h = h * t * exponential(-0.5f * (x * x));
  return x * (is_negative(x) ? h : 1.0f - h);
}

DEVICE float relu(float x) { return x < 0.0f ? 0.0f : x; }

// hyperbolic_tangent is -E/(2+E) of E = e^(-2|x|) - 1, with x's sign.
DEVICE float hyperbolic_tangent(float x) {
  const float e = exponential_less_one(2.0f * negative(x));
  const unsigned sign = 0x80000000u;
  return BITS_FLOAT((FLOAT_BITS(DIV(e, 2.0f + e)) & ~sign) | (FLOAT_BITS(x) & sign));
}

DEVICE float sigmoid(float x) {
  const float power = exponential(negative(x));
  return DIV(is_negative(x) ? power : 1.0f, 1.0f + power);
}

DEVICE float activation(int function, float x) {
  switch (function) {
  case FUNCTION_SILU:
    return logistic(x, x);
  case FUNCTION_GELU:
    return gelu(x);
  case FUNCTION_GELUERF:
    return gelu_erf(x);
  case FUNCTION_RELU:
    return relu(x);
  case FUNCTION_RELUSQUARED: {
    const float r = relu(x);
    return r * r;
  }
  case FUNCTION_TANH:
    return hyperbolic_tangent(x);
  case FUNCTION_SIGMOID:
    return sigmoid(x);
  }
  return 0;
}

// soft_cap keeps x within ±most.
DEVICE float soft_cap(float x, float most) { return most * hyperbolic_tangent(DIV(x, most)); }
