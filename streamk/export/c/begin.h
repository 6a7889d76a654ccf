/* A model of streamk, for prediction in C99 or C++: no memory but the stack, no library. An event x
   is MODEL_COLUMNS numbers, the columns of which are named in model_columns.

   Compile it with -O3 and for the processor (-march=native), but not with -ffast-math: a value that
   is missing is NaN. */

#ifndef MODEL_H
#define MODEL_H

#include <math.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "compile this without -ffast-math, by which NaN, a missing value, is taken for a number"
#endif

