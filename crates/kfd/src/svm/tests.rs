//! Tests of the program's memory on GPUs.
