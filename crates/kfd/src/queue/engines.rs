//! The copy engines of a GPU: how many queues each of them has, for all programs' contexts of this process.
//! As `allocate_sdma_queue` of Linux 6.12.

use std::sync::Arc;

use rocjitsu_config::Gpu;
use rocjitsu_gpu::lock::{Mutex, Rank};
use rustix::io::Errno;

/// Which engines a queue may be of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Engines {
    /// Those for any copy.
    General,
    /// Those for copies between GPUs of a hive.
    Links,
    /// This one.
    One(u32),
}

/// The copy engines of one GPU.
#[derive(Debug)]
pub(crate) struct CopyEngines {
    /// Queues of each, first those for any copy.
    queues: Mutex<Vec<u32>>,
    general: usize,
    most: u32,
}

impl CopyEngines {
    pub(crate) fn new(gpu: &Gpu) -> Arc<CopyEngines> {
        let sdma = &gpu.sdma;
        let engines = (sdma.engines + sdma.xgmi_engines) as usize;
        Arc::new(CopyEngines {
            queues: Mutex::new(Rank::LEAF, vec![0; engines]),
            general: sdma.engines as usize,
            most: sdma.queues_per_engine,
        })
    }

    /// A queue's place on an engine, the one with the fewest.
    ///
    /// # Errors
    /// `ENOMEM` if all are full, or there are none.
    pub(super) fn take(self: &Arc<Self>, which: Engines) -> Result<Seat, Errno> {
        let mut queues = self.queues.lock();
        let range = match which {
            Engines::General => 0..self.general,
            Engines::Links => self.general..queues.len(),
            Engines::One(engine) => engine as usize..engine as usize + 1,
        };
        let free =
            range.filter(|&engine| queues.get(engine).is_some_and(|&count| count < self.most));
        let engine = free
            .min_by_key(|&engine| queues[engine])
            .ok_or(Errno::NOMEM)?;
        queues[engine] += 1;
        let engines = self.clone();
        Ok(Seat { engines, engine })
    }
}

/// A queue's place on a copy engine, given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    engines: Arc<CopyEngines>,
    engine: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.engines.queues.lock()[self.engine] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_take_as_many_queues_as_the_topology_says() {
        let gpu = rocjitsu_config::preset("mi300x").unwrap();
        let (general, links) = (gpu.sdma.engines, gpu.sdma.xgmi_engines);
        let (most, engines) = (gpu.sdma.queues_per_engine, CopyEngines::new(&gpu));
        let one = engines.take(Engines::One(0)).unwrap();
        let mut seats: Vec<Seat> = (1..general * most)
            .map(|_| engines.take(Engines::General).unwrap())
            .collect();
        assert_eq!(engines.take(Engines::General).unwrap_err(), Errno::NOMEM);
        assert_eq!(engines.take(Engines::One(1)).unwrap_err(), Errno::NOMEM);
        drop(one);
        seats.push(engines.take(Engines::General).unwrap());
        let linked: Vec<Seat> = (0..links * most)
            .map(|_| engines.take(Engines::Links).unwrap())
            .collect();
        assert_eq!(engines.take(Engines::Links).unwrap_err(), Errno::NOMEM);
        assert_eq!(
            engines.take(Engines::One(general + links)).unwrap_err(),
            Errno::NOMEM
        );
        drop((seats, linked));
        assert!(engines.queues.lock().iter().all(|&count| count == 0));
    }
}
