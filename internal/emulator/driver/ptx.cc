#include "ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

namespace emulated {

// Reader goes over a text's words, without its comments. Everything that is no part of
// a word is a token of one character.
struct Reader {
  const char *at;
  std::string token;

  static bool word(char c) { return isalnum((unsigned char)c) || strchr("_.$%", c) != nullptr; }

  void skip() {
    for (;;) {
      if (*at != 0 && isspace((unsigned char)*at)) {
        at++;
      } else if (at[0] == '/' && at[1] == '/') {
        while (*at != 0 && *at != '\n') at++;
      } else if (at[0] == '/' && at[1] == '*') {
        const char *end = strstr(at + 2, "*/");
        at = end == nullptr ? at + strlen(at) : end + 2;
      } else {
        return;
      }
    }
  }

  bool next() {
    skip();
    token.clear();
    if (*at == 0) return false;
    do token += *at++;
    while (word(token.back()) && *at != 0 && word(*at));
    return true;
  }
};

// parse_entry reads a declaration up to its body. The reader stands behind ".entry".
static bool parse_entry(Reader &r, Entry &e) {
  if (!r.next()) return false;
  e.name = r.token;
  if (!r.next()) return false;
  if (r.token == "(") {
    uint64_t size = 0;
    while (r.next() && r.token != ")") {
      if (r.token == ".param") {
        e.params++;
        e.bytes = 0;
      } else if (r.token == "[") {
        if (!r.next()) return false;
        e.bytes = size * strtoull(r.token.c_str(), nullptr, 10);
      } else if (r.token.size() > 2 && r.token[0] == '.' && isdigit((unsigned char)r.token[2])) {
        e.bytes = size = strtoull(r.token.c_str() + 2, nullptr, 10) / 8;
      }
    }
    if (r.token != ")" || !r.next()) return false;
  }
  for (; r.token != "{" && r.token != ";"; ) {
    const bool threads = r.token == ".maxntid" || r.token == ".reqntid";
    if (!r.next()) return false;
    if (threads) e.threads = strtoull(r.token.c_str(), nullptr, 10);
  }
  return true;
}

std::string parse_ptx(const char *text, Ptx &ptx) {
  Reader r{text, ""};
  if (!r.next() || r.token != ".version" || !r.next()) {
    return "the image doesn't begin with .version, so it is no PTX";
  }
  char *end;
  const long major = strtol(r.token.c_str(), &end, 10);
  const long minor = *end == '.' ? strtol(end + 1, &end, 10) : -1;
  if (major < 1 || major > 99 || minor < 0 || minor > 9 || *end != 0) {
    return ".version " + r.token + " is no version of PTX";
  }
  ptx.version = (int)(10 * major + minor);
  while (r.next()) {
    if (r.token == ".target") {
      if (!r.next() || r.token.compare(0, 3, "sm_") != 0) return ".target names no sm_";
      ptx.target = atoi(r.token.c_str() + 3);
    } else if (r.token == ".entry") {
      Entry e;
      if (!parse_entry(r, e)) return "the declaration of entry " + e.name + " has no end";
      ptx.entries.push_back(e);
    }
  }
  if (ptx.target == 0) return "there is no .target";
  return "";
}

} // namespace emulated
