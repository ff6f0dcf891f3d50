//! The plugin interface.

use std::any::Any;

use crate::event::{
    Access, Barrier, Code, Dispatch, Ended, Events, State, Step, Touch, Wave, Workgroup,
};

/// What a callback returns. An error ends the run, which then names the plugin.
pub type Outcome = Result<(), String>;

/// Which threads call a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// Any, one at a time.
    Serial,
    /// Any, one at a time, and each dispatch runs on one thread: the order of its events is that of execution. Those
    /// of several queues or GPUs run at once all the same, each on its own.
    OneThread,
    /// Each worker has an instance of its own ([`Plugin::worker`]), which is joined to this one at the end of
    /// the dispatch.
    PerWorker,
}

/// Something that watches runs. Every callback does nothing by default; only those are called whose events are
/// subscribed to.
///
/// Callbacks of one plugin are never concurrent. Those of one wave come in the order of its instructions. Several
/// dispatches may be under way, of several queues or GPUs; every event names its own. A panic counts as an error.
pub trait Plugin: Any + Send {
    /// The events wanted. Asked once.
    fn events(&self) -> Events;

    /// Which threads may call.
    fn concurrency(&self) -> Concurrency {
        Concurrency::Serial
    }

    /// An instance for a worker, if [`Concurrency::PerWorker`].
    fn worker(&self) -> Option<Box<dyn Plugin>> {
        None
    }

    /// Takes over what an instance of a worker has seen.
    fn join(&mut self, _worker: Box<dyn Any>) -> Outcome {
        Ok(())
    }

    /// Whether it follows matrix instructions whose results come later: helper threads may execute some of them while their
    /// wave goes on. [`Plugin::matrix`] is told when such an instruction is issued. Helpers take part only if all plugins
    /// say so, and none of them subscribes to an event at which it can look at the state of a wave. Asked once.
    fn follows_asynchronous_matrix(&self) -> bool {
        false
    }

    /// A code object has been loaded. Told where the loader is known: programs load code themselves.
    fn code_loaded(&mut self, _code: &Code<'_>) -> Outcome {
        Ok(())
    }
    /// A dispatch has been parsed and begins.
    fn dispatch_begins(&mut self, _dispatch: &Dispatch<'_>) -> Outcome {
        Ok(())
    }
    /// A dispatch has ended.
    fn dispatch_ends(&mut self, _ended: &Ended<'_>) -> Outcome {
        Ok(())
    }
    /// A workgroup begins.
    fn workgroup_begins(&mut self, _workgroup: &Workgroup) -> Outcome {
        Ok(())
    }
    /// All waves of a workgroup have ended.
    fn workgroup_ends(&mut self, _workgroup: &Workgroup) -> Outcome {
        Ok(())
    }
    /// A wave begins.
    fn wave_begins(&mut self, _wave: &Wave) -> Outcome {
        Ok(())
    }
    /// A wave has ended.
    fn wave_ends(&mut self, _wave: &Wave) -> Outcome {
        Ok(())
    }
    /// An instruction is about to execute.
    fn before(&mut self, _step: &Step<'_>, _state: &dyn State) -> Outcome {
        Ok(())
    }
    /// An instruction has executed. Not told of one that stopped its wave.
    fn after(&mut self, _step: &Step<'_>, _state: &dyn State) -> Outcome {
        Ok(())
    }
    /// Registers that an instruction is about to read.
    fn reads(&mut self, _step: &Step<'_>, _touched: &[Touch], _state: &dyn State) -> Outcome {
        Ok(())
    }
    /// Registers that an instruction has written. An asynchronous load writes at issue.
    fn writes(&mut self, _step: &Step<'_>, _touched: &[Touch], _state: &dyn State) -> Outcome {
        Ok(())
    }
    /// Accesses that an instruction is about to make.
    fn accesses(&mut self, _step: &Step<'_>, _accesses: &[Access], _state: &dyn State) -> Outcome {
        Ok(())
    }
    /// A wave has come to a barrier.
    fn barrier(&mut self, _step: &Step<'_>, _barrier: Barrier) -> Outcome {
        Ok(())
    }
    /// A matrix instruction is issued. Its results are there when the wave goes on, or, where
    /// [`Plugin::follows_asynchronous_matrix`] allows it, when something needs them.
    fn matrix(&mut self, _step: &Step<'_>) -> Outcome {
        Ok(())
    }
    /// The run is over.
    fn finish(&mut self) -> Outcome {
        Ok(())
    }
}
