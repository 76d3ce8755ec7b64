// The kernels of internal/gpukernels/source, built for the emulator (-include emulated.h).
#include "kernels.h"
