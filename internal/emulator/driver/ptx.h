// Reading the heads of a PTX text.
#pragma once

#include <stdint.h>

#include <string>
#include <vector>

namespace emulated {

// Entry is an entry point as PTX declares it.
struct Entry {
  std::string name;
  uint64_t params = 0;  // how many
  uint64_t bytes = 0;   // of the last of them
  uint64_t threads = 0; // .maxntid's x, 0 if there is none
};

// Ptx is what a module says of itself.
struct Ptx {
  int version = 0; // 10·major + minor
  int target = 0;  // sm_75 is 75
  std::vector<Entry> entries;
};

// parse_ptx returns what is wrong, "" if nothing is.
std::string parse_ptx(const char *text, Ptx &ptx);

} // namespace emulated
