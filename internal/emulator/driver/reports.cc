#include "reports.h"

#include <string.h>
#include <unistd.h>

#include <mutex>
#include <vector>

namespace emulated {

static std::mutex guard;
static std::vector<std::string> &kept() {
  static auto *v = new std::vector<std::string>; // for as long as any thread runs
  return *v;
}

// More would only bury the first ones.
constexpr size_t most_reports = 1000;

void report(const std::string &text) {
  const std::lock_guard<std::mutex> held(guard);
  if (kept().size() >= most_reports) return;
  kept().push_back(text);
  const std::string line = "emulated GPU: " + text + "\n";
  const ssize_t written = write(2, line.data(), line.size());
  (void)written; // there is nowhere else to say it
}

int take_reports(char *buffer, size_t n) {
  const std::lock_guard<std::mutex> held(guard);
  std::string all;
  for (const std::string &r : kept()) {
    if (!all.empty()) all += '\n';
    all += r;
  }
  const int count = (int)kept().size();
  kept().clear();
  if (buffer != nullptr && n > 0) {
    const size_t fits = all.size() < n ? all.size() : n - 1;
    memcpy(buffer, all.data(), fits);
    buffer[fits] = 0;
  }
  return count;
}

} // namespace emulated
