// The driver's error codes, as in CUDA's own headers.
#pragma once

namespace emulated {

enum Result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  peer_access_unsupported = 217,
  invalid_ptx = 218,
  unsupported_ptx_version = 222,
  operating_system = 304,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  peer_access_already_enabled = 704,
  context_is_destroyed = 709,
  launch_failed = 719,
  unknown = 999,
};

// sticky says that a context which met the error is of no more use.
bool sticky(Result code);

} // namespace emulated
