// Accesses of two threads of one launch to the same bytes, one of them writing, which
// nothing orders. On a GPU either may come first; here fibers always have some order,
// so the results alone wouldn't show it.
//
// Threads of a block are ordered by the block's barriers, those of a warp by the warp's
// barriers too. Shuffles order nothing: CUDA promises that of __syncwarp alone. Threads
// of two blocks are never ordered.
#pragma once

#include <stdint.h>

#include <memory>
#include <vector>

namespace emulated {

// Moment is when a thread does something. Intervals lie between a block's barriers and
// are counted over all blocks and launches from 1 on; an epoch lies between a warp's.
struct Moment {
  uint32_t interval, epoch;
  int thread;
  uint32_t block;  // the first interval of this thread's block
  uint32_t oldest; // the first interval that matters: of the launch; for shared memory, of the block
};

// Seen is who wrote and read a unit of memory last. With a unit's whole past it would
// find the same units, if not the same pairs of threads: what is forgotten is ordered
// with all that comes, or what is kept isn't ordered with it either.
class Seen {
public:
  static constexpr int nobody = -1, another_block = -2;

  // note returns a thread that did something to the unit that isn't ordered with this
  // access, or nobody. wrote says what it did.
  int note(const Moment &now, bool write, bool &wrote);

private:
  // several says that read isn't all there is: other lanes have read in that epoch,
  // other warps in that interval, other blocks in that launch.
  enum : unsigned char { lanes = 1, warps = 2, blocks = 4 };

  struct Access {
    uint32_t interval, epoch;
    int thread;
  };

  static int unordered(const Access &a, const Moment &now);
  int unordered_read(const Moment &now) const;
  void keep_read(const Moment &now);

  Access written = {}, read = {};
  unsigned char several = 0;
};

// Shadow is what was seen of an allocation: units of 4 bytes, or of one byte once
// a launch has touched parts of those. Memory for it comes with the first touch.
struct Shadow {
  static constexpr uint64_t page = 1024; // units

  uint64_t first = 0, size = 0; // of the allocation
  unsigned unit = 4;
  std::vector<std::unique_ptr<Seen[]>> pages;

  // begin makes it that of an allocation, for a new launch.
  void begin(uint64_t address, uint64_t bytes);
  Seen &at(uint64_t i);
  void split();
};

} // namespace emulated
