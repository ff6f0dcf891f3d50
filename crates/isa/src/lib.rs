//! Bytes to instructions and back: encoding tables, decoder, disassembler, register effects.
