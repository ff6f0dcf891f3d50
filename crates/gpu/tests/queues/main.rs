//! Queue processors, driven through memory as a program drives them: rings, doorbells, signals.

mod aql;
mod fuzz;
mod pm4;
mod rig;
mod robust;
mod sdma;
