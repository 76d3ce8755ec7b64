#include "machine.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <map>

#include "calls.h"
#include "faults.h"
#include "memory.h"
#include "reports.h"
#include "runner.h"

namespace emulated {

// start has the C library give back what is freed. By itself it would keep an arena for
// each stream's thread, with holes where the GPU's buffers were, and the process would
// grow with each device that is opened and closed.
static Machine *start() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 64 << 10);
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
  mallopt(M_ARENA_MAX, 1);
#endif
  return new Machine;
}

Machine &machine() {
  static Machine *m = start();
  return *m;
}

uint64_t new_handle() { return ++machine().handles * 16 + 0x1000; }

static const char *const names[] = {"LEAT_EMULATED_GPUS", "LEAT_EMULATED_GPU_MEMORY",
                                    "LEAT_EMULATED_DRIVER", "LEAT_EMULATED_PEER",
                                    "LEAT_EMULATED_FAULT", "LEAT_EMULATED_RACES"};

using Settings = std::map<std::string, std::string>;

static std::string read(const char *text, Settings &settings) {
  for (const char *name : names) {
    const char *value = text == nullptr ? getenv(name) : nullptr;
    settings[name] = value == nullptr ? "" : value;
  }
  while (text != nullptr && *text != 0) {
    const char *end = strchr(text, '\n');
    const std::string line = end == nullptr ? text : std::string(text, end - text);
    text = end == nullptr ? nullptr : end + 1;
    if (line.empty()) continue;
    const size_t equals = line.find('=');
    const auto known = settings.find(line.substr(0, equals));
    if (equals == std::string::npos || known == settings.end()) {
      return "\"" + line + "\" is no setting of the emulator";
    }
    known->second = line.substr(equals + 1);
  }
  return "";
}

static bool whole_number(const std::string &text, uint64_t most, uint64_t &n, std::string *rest) {
  char *end;
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  n = strtoull(text.c_str(), &end, 10);
  if (rest != nullptr) *rest = end;
  return n <= most && (rest != nullptr || *end == 0);
}

static bool bytes(const std::string &text, uint64_t &n) {
  static const std::map<std::string, int> shifts = {
      {"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
  std::string unit;
  if (!whole_number(text, 1ull << 40, n, &unit)) return false;
  const auto shift = shifts.find(unit);
  if (shift == shifts.end() || n > (1ull << 40) >> shift->second) return false;
  n <<= shift->second;
  return n > 0;
}

std::string configure(const char *text) {
  Machine &m = machine();
  m.configured = true;
  m.initialized = false;
  m.gpus.clear();
  m.host.clear();
  m.driver_version = 12080;
  Settings set;
  std::string wrong = read(text, set);
  if (!wrong.empty()) return wrong;
  uint64_t gpus = 1, memory = 1 << 30, version = 12080, peer = 1;
  auto bad = [&](const char *name, const char *what) {
    return std::string(name) + ": \"" + set[name] + "\" is not " + what;
  };
  if (!set[names[0]].empty() && !whole_number(set[names[0]], most_gpus, gpus, nullptr)) {
    return bad(names[0], "a number of GPUs from 0 to 16");
  }
  if (!set[names[1]].empty() && !bytes(set[names[1]], memory)) {
    return bad(names[1], "a size such as 64MiB, up to 1024GiB");
  }
  if (!set[names[2]].empty() && !whole_number(set[names[2]], 99999, version, nullptr)) {
    return bad(names[2], "a driver's version such as 12080");
  }
  if (!set[names[3]].empty() && !whole_number(set[names[3]], 2, peer, nullptr)) {
    return bad(names[3], "0, 1 or 2");
  }
  m.lossy = peer == 2;
  uint64_t watched = 0;
  if (!set[names[5]].empty() && !whole_number(set[names[5]], 1, watched, nullptr)) {
    return bad(names[5], "0 or 1");
  }
  m.watched = watched != 0;
  wrong = set_faults(set[names[4]]);
  if (!wrong.empty()) return wrong;
  m.driver_version = (int)version;
  for (uint64_t i = 0; i < gpus; i++) {
    auto g = std::make_unique<Gpu>();
    g->number = (int)i;
    g->total = memory;
    g->peers = peer != 0 ? ((1u << gpus) - 1) & ~(1u << i) : 0;
    g->runner = std::make_shared<Runner>();
    m.gpus.push_back(std::move(g));
  }
  return "";
}

// leatEmulatorConfigure makes the machine anew from lines NAME=value. It returns 0; 1
// while a context is retained; 2 where it can't understand the text, which it reports.
EXPORT int leatEmulatorConfigure(const char *text) {
  try {
    const Lock lock;
    for (const auto &g : machine().gpus) {
      if (g->retained > 0) return 1;
    }
    const std::string wrong = configure(text == nullptr ? "" : text);
    if (wrong.empty()) return 0;
    report(wrong);
    return 2;
  } catch (...) {
    return 2;
  }
}

// leatEmulatorReports copies the text of the reports since the last call, separated by
// newlines and cut off at n bytes with the zero at the end; it returns how many there
// were.
EXPORT int leatEmulatorReports(char *buffer, size_t n) {
  try {
    return take_reports(buffer, n);
  } catch (...) {
    return 0;
  }
}

} // namespace emulated
