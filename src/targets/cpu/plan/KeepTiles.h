// Packed tiles that later programs find.
//
// Programs of a matmul that follow one another work on the same columns of B (an order by groups of rows), or those of
// an attention kernel on the same keys and values. Each packed its own copy of them. So a dot that packs by panels puts
// its tiles one after the other into scratch (KeptTiles), with all numbers that a tile was packed from: addresses,
// strides, bounds of masks. A program that is about to pack a tile from the same numbers finds it there and multiplies
// only. Nothing is assumed about which program works on what: numbers are compared, tile by tile, in the order in which
// a loop asks for them. What the numbers do not tell stays the same: memory that the kernel does not write, in one
// launch. (Goto and van de Geijn, Anatomy of high-performance matrix multiplication, ACM TOMS 34, 2008: a panel is
// packed once for all rows; here the author's grid says for how many.)
//
// Where programs have tiles of their own each, filling memory behind the first cache would only cost. So a program
// fills if the tiles that it replaces have been used, or if the program before began with the same tile.
#pragma once
#include "targets/cpu/plan/Plan.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {

/// Decides which dots keep packed tiles of their operands from program to program, and where; the last part of
/// planning, as tiles lie after all buffers.
void keepTiles(Plan &p, const Uses &uses, const CpuTarget &target);

} // namespace tegula::cpu
