//! The floating-point environment of a thread that runs waves. Dispatches run on the program's threads too, and threads
//! that it starts inherit its own; neither may change what the GPU computes, and the program gets back what it had.

/// While this lives, the thread rounds to nearest, keeps denormals and has all exceptions masked, as lane code wants.
pub struct FloatEnvironment {
    #[cfg(target_arch = "x86_64")]
    saved: u32,
}

/// MXCSR as processes start with it: all exceptions masked, everything else 0 (Intel SDM, volume 1, 10.2.3).
#[cfg(target_arch = "x86_64")]
static USUAL: u32 = 0x1f80;

#[cfg(target_arch = "x86_64")]
impl FloatEnvironment {
    /// Saves the thread's environment.
    pub fn usual() -> FloatEnvironment {
        let mut saved = 0u32;
        // SAFETY: stores MXCSR to a word, and loads one that has no reserved bits. Until `drop` no arithmetic of the caller
        // runs that could expect another environment.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut saved);
            if saved != USUAL {
                std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const USUAL);
            }
        }
        FloatEnvironment { saved }
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for FloatEnvironment {
    fn drop(&mut self) {
        // SAFETY: loads what was stored.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const self.saved) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl FloatEnvironment {
    /// Nothing: the plain lane back end is the only one here, and it expects the environment that Rust does.
    pub fn usual() -> FloatEnvironment {
        FloatEnvironment {}
    }
}
