// The kernels of kernels/gpu/source, built for the emulator (-include emulated.h).
#include "kernels.h"
