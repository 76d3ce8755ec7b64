#include "faults.h"

#include <stdlib.h>
#include <string.h>

#include <vector>

namespace emulated {

// Fault is one entry of the list.
struct Fault {
  std::string what;     // a call, or vanish, slow, busy
  uint64_t at = 0;      // the call or launch that it begins with, from 1
  bool on = false;      // and those after it
  int gpu = -1;         // −1: any
  int code = -1;        // −1: the call's usual error
  uint64_t nanoseconds = 0;
  uint64_t counted = 0;
};

static std::vector<Fault> &faults() {
  static auto *f = new std::vector<Fault>;
  return *f;
}

// number reads digits and moves on behind them.
static bool number(const char *&s, uint64_t &n) {
  if (*s < '0' || *s > '9') return false;
  char *end;
  n = strtoull(s, &end, 10);
  s = end;
  return true;
}

static bool duration(const char *&s, uint64_t &nanoseconds) {
  static const struct {
    const char *unit;
    uint64_t nanoseconds;
  } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  uint64_t n;
  if (!number(s, n) || n > 1000000) return false;
  for (const auto &u : units) {
    const size_t length = strlen(u.unit);
    if (strncmp(s, u.unit, length) != 0) continue;
    s += length;
    nanoseconds = n * u.nanoseconds;
    return true;
  }
  return false;
}

static bool parse(const std::string &text, Fault &f) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0) return false;
  f.what = text.substr(0, colon);
  const char *s = text.c_str() + colon + 1;
  uint64_t n;
  if (f.what == "vanish" || f.what == "slow" || f.what == "busy") {
    if (!number(s, n) || n > 15) return false;
    f.gpu = (int)n;
    if (f.what == "busy") return *s == 0;
    if (*s++ != '@') return false;
    return (f.what == "slow" ? duration(s, f.nanoseconds) : number(s, f.at)) && *s == 0;
  }
  if (strncmp(text.c_str(), "cu", 2) != 0 || !number(s, f.at) || f.at == 0) return false;
  if (*s == '+') {
    f.on = true;
    s++;
  }
  if (*s == '@') {
    s++;
    if (!number(s, n) || n > 15) return false;
    f.gpu = (int)n;
  }
  if (*s == '=') {
    s++;
    if (!number(s, n) || n == 0 || n > 999) return false;
    f.code = (int)n;
  }
  return *s == 0;
}

std::string set_faults(const std::string &text) {
  faults().clear();
  for (size_t from = 0; from < text.size();) {
    size_t to = text.find(',', from);
    if (to == std::string::npos) to = text.size();
    const std::string entry = text.substr(from, to - from);
    from = to + 1;
    Fault f;
    if (entry.empty()) continue;
    if (!parse(entry, f)) {
      return "LEAT_EMULATED_FAULT: \"" + entry +
             "\" is none of CALL:N[+][@GPU][=CODE], vanish:GPU@N, slow:GPU@2ms, busy:GPU";
    }
    faults().push_back(f);
  }
  return "";
}

static Result usual_error(const std::string &call) {
  if (call == "cuInit") return no_device;
  if (call == "cuMemAlloc" || call == "cuMemHostAlloc") return out_of_memory;
  return launch_failed;
}

Result fault(const std::string &call, int gpu) {
  Result found = success;
  for (Fault &f : faults()) {
    if (f.what == "busy" && call == "cuDevicePrimaryCtxRetain" && f.gpu == gpu) {
      found = device_unavailable;
    }
    if (f.what != call || (f.gpu >= 0 && f.gpu != gpu)) continue;
    f.counted++;
    if (f.counted == f.at || (f.on && f.counted > f.at)) {
      found = f.code >= 0 ? (Result)f.code : usual_error(call);
    }
  }
  return found;
}

bool vanishes(int gpu) {
  bool gone = false;
  for (Fault &f : faults()) {
    if (f.what == "vanish" && f.gpu == gpu && ++f.counted >= f.at) gone = true;
  }
  return gone;
}

uint64_t slowness(int gpu) {
  uint64_t longest = 0;
  for (const Fault &f : faults()) {
    if (f.what == "slow" && f.gpu == gpu && f.nanoseconds > longest) longest = f.nanoseconds;
  }
  return longest;
}

} // namespace emulated
