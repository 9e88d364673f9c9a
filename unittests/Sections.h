// Golden cases in files of textual IR, test/FOLDER/*.ir. A case is
//
//   # === title
//   # RUN: what is done with the text; the folder's test gives it a meaning
//   the text
//   # OUT
//   # what comes out, each line after `# `
//
// TEGULA_UPDATE_GOLDENS=1 rewrites the outputs (scripts/update_goldens.py does that for all goldens).
#pragma once
#include "TestPaths.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

namespace tegula::test {

struct Section {
  std::string title, run, input, expected;
  int line = 0; // of the title
};

struct SectionFile {
  /// What stands before the first case.
  std::string head;
  std::vector<Section> sections;
};

inline SectionFile readSections(const std::filesystem::path &path) {
  SectionFile f;
  std::ifstream in(path);
  bool inOutput = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("# === ")) {
      f.sections.push_back({line.substr(6), "", "", "", number});
      inOutput = false;
    } else if (f.sections.empty()) {
      f.head += line + "\n";
    } else if (line.starts_with("# RUN:")) {
      f.sections.back().run = line.substr(std::min<size_t>(7, line.size()));
    } else if (line == "# OUT") {
      inOutput = true;
    } else if (!inOutput) {
      f.sections.back().input += line + "\n";
    } else if (line.starts_with("# ")) {
      f.sections.back().expected += line.substr(2) + "\n";
    }
  }
  return f;
}

inline void writeSections(const std::filesystem::path &path, const SectionFile &f) {
  std::ofstream out(path, std::ios::binary);
  out << f.head;
  for (size_t i = 0; i < f.sections.size(); ++i) {
    const Section &s = f.sections[i];
    out << (i ? "\n" : "") << "# === " << s.title << "\n# RUN:" << (s.run.empty() ? "" : " ") << s.run << "\n"
        << s.input << "# OUT\n";
    std::istringstream lines(s.expected);
    for (std::string line; std::getline(lines, line);)
      out << "# " << line << "\n";
  }
}

/// Compares the outputs of all cases of test/`folder` with what `output` makes of them, or rewrites them. There must be
/// `least` cases.
inline void checkSections(const std::string &folder, size_t least,
                          const std::function<std::string(const Section &)> &output) {
  size_t count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(std::string(testSourceDir) + "/test/" + folder)) {
    if (entry.path().extension() != ".ir")
      continue;
    SectionFile f = readSections(entry.path());
    count += f.sections.size();
    bool update = std::getenv("TEGULA_UPDATE_GOLDENS") != nullptr;
    for (Section &s : f.sections) {
      std::string got = output(s);
      if (!update)
        EXPECT_EQ(got, s.expected) << folder << "/" << entry.path().filename().string() << ":" << s.line << ": "
                                   << s.title << "\n(scripts/update_goldens.py rewrites outputs)";
      s.expected = got;
    }
    if (update)
      writeSections(entry.path(), f);
  }
  EXPECT_GE(count, least);
}

} // namespace tegula::test
