// Keeps packed tiles of dots in scratch, for reuse by later programs.
//
// Consecutive programs of a matmul work on the same columns of B (if ordered by groups of rows), and those of an
// attention kernel on the same keys and values. Without this, each program packs its own copy of them. So a dot that
// packs by panels stores its tiles one after the other in scratch (KeptTiles), each with all numbers that it was packed
// from (its key): addresses, strides, bounds of masks. A program that is about to pack a tile with the same key reuses
// the stored tile and only multiplies. This assumes nothing about which program works on which tile: keys are compared
// tile by tile, in the order in which a loop needs the tiles. Anything that the keys do not record is constant: memory
// that the kernel does not write, within one launch. (Goto and van de Geijn, Anatomy of high-performance matrix
// multiplication, ACM TOMS 34, 2008: a panel is packed once for all rows; here the author's grid says for how many.)
//
// Where each program has tiles of its own, writing them beyond the first cache is pure cost. So a program stores its
// tiles only if the tiles that it replaces have been used, or if the program before began with the same tile.
#pragma once
#include "targets/cpu/plan/Plan.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {

/// Decides which dots keep packed tiles of their operands from program to program, and where. The last part of
/// planning, as tiles come after all buffers in scratch.
void keepTiles(Plan &p, const Uses &uses, const CpuTarget &target);

} // namespace tegula::cpu
