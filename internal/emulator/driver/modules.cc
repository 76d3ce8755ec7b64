#include "modules.h"

#include <string.h>

#include <unordered_map>

#include "calls.h"
#include "ptx.h"
#include "reports.h"

namespace emulated {

constexpr int compute_capability = 90;

struct Module {
  std::shared_ptr<Context> context;
  Ptx ptx;
};

struct Table {
  std::unordered_map<uint64_t, Module> modules;
  std::unordered_map<uint64_t, Function> functions;
};

static Table &table() {
  static Table *t = new Table;
  return *t;
}

const Function *find_function(uint64_t handle) {
  const auto found = table().functions.find(handle);
  return found == table().functions.end() ? nullptr : &found->second;
}

static bool unload(uint64_t module) {
  auto &functions = table().functions;
  for (auto f = functions.begin(); f != functions.end();) {
    f = f->second.module == module ? functions.erase(f) : std::next(f);
  }
  return table().modules.erase(module) != 0;
}

int forget_modules(const Context &context) {
  std::vector<uint64_t> left;
  for (const auto &m : table().modules) {
    if (m.second.context.get() == &context) left.push_back(m.first);
  }
  for (const uint64_t m : left) unload(m);
  return (int)left.size();
}

// newest_ptx is the PTX that a driver understands: 12.4 up to 8.4, 12.6 up to 8.5, and
// so on; 13.0 up to 9.0.
static int newest_ptx(int driver_version) {
  const int major = driver_version / 1000, minor = driver_version / 10 % 100;
  if (major <= 11) return major == 11 ? 70 + (minor < 8 ? minor : 8) : 64;
  if (major == 12) return minor <= 5 ? 80 + minor : minor <= 9 ? 80 + minor - 1 : 88;
  return 10 * (major - 4) + (minor < 9 ? minor : 9);
}

// log writes why an image was refused where the caller wants it.
static void log(const std::string &text, unsigned n, const int *options, void **values) {
  enum { error_log_buffer = 5, error_log_buffer_size = 6 };
  char *buffer = nullptr;
  size_t size = 0;
  void **size_value = nullptr;
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == error_log_buffer) buffer = static_cast<char *>(values[i]);
    if (options[i] == error_log_buffer_size) {
      size = (size_t)(reinterpret_cast<uintptr_t>(values[i]) & 0xffffffffu);
      size_value = &values[i];
    }
  }
  if (buffer == nullptr || size == 0) return;
  const size_t fits = text.size() < size ? text.size() : size - 1;
  memcpy(buffer, text.data(), fits);
  buffer[fits] = 0;
  *size_value = reinterpret_cast<void *>(fits);
}

EXPORT int cuModuleLoadDataEx(uint64_t *module, const void *image, unsigned n, int *options,
                              void **values) {
  return call("cuModuleLoadDataEx", context, [&](Call &c) {
    if (module == nullptr || image == nullptr || (n > 0 && (options == nullptr || values == nullptr))) {
      return invalid_value;
    }
    Ptx ptx;
    Result r = success;
    std::string wrong = parse_ptx(static_cast<const char *>(image), ptx);
    const int newest = newest_ptx(machine().driver_version);
    auto version = [](int v) { return std::to_string(v / 10) + "." + std::to_string(v % 10); };
    if (!wrong.empty()) {
      r = invalid_ptx;
    } else if (ptx.version > newest) {
      wrong = "PTX " + version(ptx.version) + " is newer than this driver's " + version(newest);
      r = unsupported_ptx_version;
    } else if (ptx.target > compute_capability) {
      wrong = "the target sm_" + std::to_string(ptx.target) + " is newer than this GPU";
      r = no_binary_for_gpu;
    }
    if (r != success) {
      log("emulated driver: " + wrong, n, options, values);
      return r;
    }
    *module = new_handle();
    table().modules[*module] = {c.context, ptx};
    return success;
  });
}

EXPORT int cuModuleUnload(uint64_t module) {
  return call("cuModuleUnload", cleaning,
              [&](Call &) { return unload(module) ? success : invalid_handle; });
}

// agrees says whether PTX and the kernel that the emulator runs in its place take the
// same launches; if not, one of them is of another state of the source.
static bool agrees(const Entry &e, const Registration &k) {
  auto differ = [&](const char *what, uint64_t ptx, uint64_t here) {
    report(std::string(k.name) + " has " + std::to_string(ptx) + " " + what +
           " in the PTX and " + std::to_string(here) +
           " in the emulator: one of them is older than the kernels' source");
    return false;
  };
  if (e.params != 1) return differ("parameters", e.params, 1);
  if (e.bytes != k.size) return differ("bytes of parameters", e.bytes, k.size);
  if (e.threads != 0 && e.threads != (uint64_t)k.threads) {
    return differ("threads a block", e.threads, (uint64_t)k.threads);
  }
  return true;
}

EXPORT int cuModuleGetFunction(uint64_t *function, uint64_t module, const char *name) {
  return call("cuModuleGetFunction", context, [&](Call &) {
    const auto m = table().modules.find(module);
    if (m == table().modules.end()) return invalid_handle;
    if (function == nullptr || name == nullptr) return invalid_value;
    for (const Entry &e : m->second.ptx.entries) {
      if (e.name != name) continue;
      const Registration *k = registered(name);
      if (k == nullptr) {
        report(std::string(name) + " is in the PTX but not in the emulator, which was built from "
                                   "other sources");
        return not_found;
      }
      if (!agrees(e, *k)) return not_found;
      *function = new_handle();
      table().functions[*function] = {m->second.context, module, k, m->second.ptx.version};
      return success;
    }
    return not_found;
  });
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, uint64_t function) {
  return call("cuFuncGetAttribute", context, [&](Call &) {
    const Function *f = find_function(function);
    if (f == nullptr) return invalid_handle;
    if (value == nullptr) return invalid_value;
    switch (attribute) {
    case 0: *value = f->kernel->threads; break; // most threads a block
    case 1: case 2: case 3: *value = 0; break;  // shared, constant, local bytes: not known
    case 4: *value = 32; break;                 // registers
    case 5: *value = f->ptx_version; break;
    case 6: *value = compute_capability; break;
    default: return invalid_value;
    }
    return success;
  });
}

} // namespace emulated
