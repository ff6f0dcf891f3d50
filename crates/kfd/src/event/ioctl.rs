//! The event ioctls: arguments to and from [`Events`](super::Events).

use std::time::Duration;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::{News, Waited, Wanted, has_slot};
use crate::abi::{CreateEvent, EventData, EventId, WaitEvents, wait_result};
use crate::alloc;
use crate::table::{Call, Handled};

/// What CREATE_EVENT returns as the offset of a page that the program has given, and so has mapped already: not zero,
/// and nothing that `mmap` takes.
const GIVEN: u64 = 1 << 63;

/// Without an event page of the program's, which it has from a GPU, the driver makes one, and the program maps the
/// descriptor at the offset that it gets. Events that have no slot leave the offset as it is.
pub(crate) fn create(call: &Call<'_>, args: &mut CreateEvent) -> Handled {
    let events = &call.context.events;
    if args.event_page_offset != 0 {
        let page = alloc::event_page(call, args.event_page_offset)?;
        events.set_page(Some(args.event_page_offset), page)?;
    }
    let page = match has_slot(args.event_type) {
        true => Some(call.context.event_page(call.driver)?),
        false => None,
    };
    let id = events.create(args.event_type, args.auto_reset != 0)?;
    args.event_id = id;
    args.event_trigger_data = id;
    args.event_slot_index = 0;
    if let Some(page) = page {
        args.event_page_offset = page.unwrap_or(GIVEN);
        args.event_slot_index = id;
    }
    Ok(())
}

pub(crate) fn destroy(call: &Call<'_>, args: &mut EventId) -> Handled {
    call.context.events.destroy(args.event_id)
}

pub(crate) fn set(call: &Call<'_>, args: &mut EventId) -> Handled {
    call.context.events.set(args.event_id)
}

pub(crate) fn reset(call: &Call<'_>, args: &mut EventId) -> Handled {
    call.context.events.reset(args.event_id)
}

pub(crate) fn wait(call: &Call<'_>, args: &mut WaitEvents) -> Handled {
    args.wait_result = wait_result::FAIL;
    let mut data: Vec<EventData> = call
        .user()
        .read_array(args.events_ptr, args.num_events as usize)?;
    let wanted: Vec<Wanted> = data
        .iter()
        .map(|data| Wanted {
            id: data.event_id,
            age: u64::from(data.payload[0]) | u64::from(data.payload[1]) << 32,
        })
        .collect();
    let timeout =
        (args.timeout != u32::MAX).then(|| Duration::from_millis(u64::from(args.timeout)));
    let waited = call
        .context
        .events
        .wait(&wanted, args.wait_for_all != 0, timeout)?;
    match waited {
        Waited::Failed => return Err(Errno::IO),
        Waited::Interrupted(left) => {
            // What the thunk passes when it asks again, rounded up so that the end does not come early.
            if let Some(left) = left {
                let left = left.as_micros().div_ceil(1000);
                args.timeout = u32::try_from(left)
                    .unwrap_or(args.timeout)
                    .min(args.timeout);
            }
            return Err(Errno::INTR);
        }
        Waited::Timeout => args.wait_result = wait_result::TIMEOUT,
        Waited::Complete(news) => {
            for (i, news) in news {
                let Some(data) = data.get_mut(i) else {
                    continue;
                };
                let payload = data.payload.as_mut_bytes();
                let written = match &news {
                    News::Nothing => continue,
                    News::Age(age) => age.as_bytes(),
                    News::Memory(fault) => fault.as_bytes(),
                    News::Hardware(fault) => fault.as_bytes(),
                };
                payload[..written.len()].copy_from_slice(written);
                let at = args.events_ptr + (i * size_of::<EventData>()) as u64;
                call.user().write(at, written)?;
            }
            args.wait_result = wait_result::COMPLETE;
        }
    }
    Ok(())
}
