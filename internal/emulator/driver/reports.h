// Reports: what the emulator found that a GPU would hide.
#pragma once

#include <stddef.h>

#include <string>

namespace emulated {

// report keeps a line of text and prints it. It takes no lock but its own.
void report(const std::string &text);

// take copies the reports since the last call to buffer, a line each, as far as they
// fit with a zero behind, and returns how many there were.
int take_reports(char *buffer, size_t n);

} // namespace emulated
