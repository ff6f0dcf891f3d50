//! One wave: its registers, the semantics of its instructions, its run loop.
