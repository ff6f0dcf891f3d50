//! Who runs the dispatches of queues in place of the driver: a debugger.

use std::fmt::Debug;
use std::sync::Arc;

use rocjitsu_gpu::dispatch::{Device, Dispatch, DispatchError, Options, Statistics};
use rocjitsu_observe::Observer;

/// Runs dispatches. Asked on the threads of their queues, of several at a time.
pub trait Conductor: Debug + Send + Sync {
    /// Runs a dispatch on `device`, which a person calls `gpu`, to its end, and returns what it did.
    ///
    /// # Errors
    /// As [`Device::dispatch`].
    fn run(
        &self,
        gpu: &str,
        device: &Arc<Device>,
        dispatch: &Dispatch,
        options: Options<'_>,
        observer: &dyn Observer,
    ) -> Result<Statistics, DispatchError>;
}
