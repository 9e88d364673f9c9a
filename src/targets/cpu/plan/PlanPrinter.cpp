// Text of a plan (`--emit cpu`): steps in order, nests with their roots, buffers with size and offset.
#include "targets/cpu/plan/Plan.h"
#include "targets/cpu/plan/ProgramOrder.h"

namespace tegula::cpu {

static std::string nameOf(const ir::Op &op) {
  std::string s = ir::print(op);
  while (!s.empty() && (s.back() == '\n' || s.back() == ' '))
    s.pop_back();
  size_t end = s.find('\n');
  return s.substr(s.find_first_not_of(' ') == std::string::npos ? 0 : s.find_first_not_of(' '), end);
}

static std::string shape(const ir::Shape &s) {
  std::string r;
  for (unsigned i = 0; i < s.rank(); ++i)
    r += (i ? "x" : "") + std::to_string(s[i]);
  return r;
}

static void printNest(const Plan &p, const Nest &n, const std::string &indent, std::string &out) {
  out += indent + "nest " + shape(n.space);
  if (n.axis >= 0)
    out += " axis " + std::to_string(n.axis);
  out += n.sequential ? " in order\n" : "\n";
  for (const Nest::Ahead &a : n.ahead)
    out += indent + "  ahead " + nameOf(*a.load) + (a.loop ? " of the next round\n" : "\n");
  for (const Root &r : n.roots) {
    out += indent + "  ";
    if (r.kind == RootKind::Materialize && r.buffer < 0)
      out += "first " + nameOf(*r.value->def);
    else if (r.kind == RootKind::Materialize)
      out += "buffer " + std::to_string(r.buffer) + " = " + (r.value->def ? nameOf(*r.value->def) : "carried value");
    else
      out +=
          nameOf(*r.op) + (r.streams ? " streaming" : "") + (r.value ? " into buffer " + std::to_string(r.buffer) : "");
    out += "\n";
  }
}

static void printSteps(const Plan &p, const Steps &steps, const std::string &indent, std::string &out) {
  for (const Step &s : steps) {
    switch (s.kind) {
    case StepKind::Nest:
      printNest(p, *s.nest, indent, out);
      continue;
    case StepKind::Dot:
      out += indent + "dot buffers " + std::to_string(s.bufferA) + " x " + std::to_string(s.bufferB) +
             (s.accumulate ? " += " : " -> ") + std::to_string(s.bufferC) + " block " + std::to_string(s.dot->mr) +
             "x" + std::to_string(s.dot->nr) +
             (s.dot->bBiased     ? ", B biased"
              : s.dot->bUnsigned ? ", B not negative"
                                 : "") +
             (s.nest ? ", B by panels of " + std::to_string(s.dot->kBlock) + " rows" : "") +
             (s.kept.count ? ", kept for later programs" : "") +
             (s.dot->aDepthStride != 1   ? ", A by columns"
              : s.leftInMemory && s.left ? ", A where it lies, or packed"
                                         : "") +
             (s.keptLeft.slots ? ", kept if packed" : "") + (s.part.seen.empty() ? "" : ", as far as it is seen") +
             (s.part.left.empty() || s.part.right.empty() ? "\n" : ", as far as operands are not zero\n");
      for (const Nest *nest : {s.left.get(), s.nest.get()})
        if (nest)
          printNest(p, *nest, indent + "  ", out);
      continue;
    default:
      out += indent + nameOf(*s.op) +
             (s.kind == StepKind::For && accumulatesRows(s, p) ? ", for each row of the tile\n" : "\n");
    }
    for (const Steps &b : s.bodies) {
      out += indent + "{\n";
      printSteps(p, b, indent + "  ", out);
      out += indent + "}\n";
    }
  }
}

std::string print(const Plan &p) {
  std::string out = "plan of " + p.function->name + ", scratch " + std::to_string(p.scratchBytes) + " bytes" +
                    (p.alongY ? ", programs along y first" : "") +
                    (!p.order.kind  ? ""
                     : p.order.rows ? ", programs by " + (p.order.loop ? std::to_string(p.order.fewest) + " to " : "") +
                                          std::to_string(p.order.rows) + " rows of tiles"
                                    : ", programs by columns of tiles") +
                    (!p.group               ? "\n"
                     : p.group->isColumns() ? ", by groups of " + std::to_string(p.group->size) + " programs\n"
                                            : ", " + std::to_string(p.group->size) + " programs as lanes\n");
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer &b = p.buffers[i];
    out += "  buffer " + std::to_string(i) + ": " + std::to_string(b.elems) + " x " + ir::str(b.element) + " at " +
           std::to_string(b.offset) + "\n";
  }
  printSteps(p, p.steps, "  ", out);
  return out;
}

} // namespace tegula::cpu
