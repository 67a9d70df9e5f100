// 5 conditions and macros
#include <core.p4>
#define ADD(a, b) ((a) + (b))
#define WIDE 8
#if ADD(1, 1) == 2 && defined(WIDE) && !defined(NARROW)
typedef bit<WIDE> t;
#elif 1
#error never
#else
#error never
#endif
#ifdef WIDE
#undef WIDE
#endif
#ifndef WIDE
control c(inout t x) { apply { x = ADD(1, \
  2); } }
#endif
