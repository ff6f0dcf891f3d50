//! Packets of a client before the protocol's state machine gets them: two things that the protocol allows, and that the machine
//! takes for an error or does not look at, become what it knows.
//!
//! A step of no thread in particular (`vCont;s`) is one of the wave that the client looks at. A packet that chooses a thread, or
//! steps one, is preceded by the question whether it is alive: if not, the answer to that is the client's.

use std::collections::VecDeque;

use crate::protocol::PACKET;

/// Stands in a packet for the wave that the client looks at: no wave has this number.
pub(crate) const CURRENT: usize = 0x7fff_ffff_ffff_ffff;

/// The bytes of a client, packet by packet.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    /// Bytes for the state machine.
    ready: VecDeque<u8>,
    /// The beginning of a packet, and where its text ends.
    held: Vec<u8>,
    end: Option<usize>,
    state: State,
    /// Packets behind one that is not answered yet, because a question came before it.
    later: VecDeque<Vec<u8>>,
}

/// What the next answer is of.
#[derive(Debug, Default, PartialEq)]
enum State {
    /// A packet of the client.
    #[default]
    Plain,
    /// Our question. The packet follows if the thread is alive.
    Question(Vec<u8>),
    /// The packet that our question was about; whether its acknowledgement is still to be dropped.
    Followed(bool),
}

/// A packet with its checksum.
fn packet(text: &[u8]) -> Vec<u8> {
    let sum = text.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
    [b"$", text, format!("#{sum:02x}").as_bytes()].concat()
}

/// Whether an action of `vCont` is a step, and the thread that it names.
fn step(action: &[u8]) -> Option<Option<&[u8]>> {
    let mut parts = action.splitn(2, |&byte| byte == b':');
    let kind = parts.next()?;
    let is_step = kind == b"s" || kind.starts_with(b"S");
    is_step.then(|| parts.next().filter(|&thread| thread != b"-1"))
}

/// The packet with steps of no thread in particular as those of the current wave.
fn with_thread(text: &[u8]) -> Vec<u8> {
    let Some(actions) = text.strip_prefix(b"vCont;") else {
        return text.to_vec();
    };
    let named = actions
        .split(|&byte| byte == b';')
        .map(|action| match step(action) {
            Some(None) => {
                let kind = action.split(|&byte| byte == b':').next();
                let kind = kind.unwrap_or_default();
                [kind, format!(":{CURRENT:x}").as_bytes()].concat()
            }
            _ => action.to_vec(),
        });
    let named: Vec<Vec<u8>> = named.collect();
    [b"vCont;", named.join(&b';').as_slice()].concat()
}

/// The thread that has to be alive for a packet to mean something.
fn thread(text: &[u8]) -> Option<&[u8]> {
    let thread = match text.strip_prefix(b"vCont;") {
        Some(actions) => actions.split(|&byte| byte == b';').find_map(step)??,
        None => text.strip_prefix(b"Hg")?,
    };
    let number = str::from_utf8(thread).ok()?;
    let number = usize::from_str_radix(number, 16).ok()?;
    (number != 0 && number != CURRENT).then_some(thread)
}

impl Packets {
    /// Takes a byte of the client.
    pub(crate) fn take(&mut self, byte: u8) {
        if self.held.is_empty() && byte != b'$' {
            self.ready.push_back(byte);
            return;
        }
        if byte == b'#' {
            self.end.get_or_insert(self.held.len());
        }
        self.held.push(byte);
        // What is too long is the state machine's to refuse.
        let is_whole = self.end.is_some_and(|at| self.held.len() == at + 3);
        if is_whole || self.held.len() > 2 * PACKET {
            let held = std::mem::take(&mut self.held);
            self.end = None;
            match self.state {
                State::Plain => self.pass(&held),
                _ => self.later.push_back(held),
            }
        }
    }

    fn pass(&mut self, held: &[u8]) {
        let end = held.len().saturating_sub(3);
        let text = held.get(1..end).unwrap_or_default();
        // Of a damaged packet the state machine tells the client.
        if packet(text) != held {
            self.ready.extend(held);
            return;
        }
        let text = with_thread(text);
        match thread(&text) {
            None => self.ready.extend(packet(&text)),
            Some(thread) => {
                self.ready.extend(packet(&[b"T", thread].concat()));
                self.state = State::Question(packet(&text));
            }
        }
    }

    /// What the state machine writes, as the client is to get it.
    pub(crate) fn answer(&mut self, outgoing: &mut Vec<u8>) {
        if self.state == State::Followed(true) && outgoing.first() == Some(&b'+') {
            outgoing.remove(0);
            self.state = State::Followed(false);
        }
        let Some(at) = outgoing.iter().position(|&byte| byte == b'$') else {
            return;
        };
        match std::mem::take(&mut self.state) {
            State::Question(packet) if outgoing.get(at..) == Some(b"$OK#9a") => {
                // It is alive: the packet itself is answered. One acknowledgement is enough, where there are any.
                self.state = State::Followed(at > 0);
                outgoing.truncate(at);
                self.ready.extend(packet);
            }
            _ => {
                while self.state == State::Plain
                    && let Some(held) = self.later.pop_front()
                {
                    self.pass(&held);
                }
            }
        }
    }

    /// The next byte for the state machine.
    pub(crate) fn next(&mut self) -> Option<u8> {
        self.ready.pop_front()
    }

    /// The same, left where it is.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.ready.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the state machine gets of some bytes.
    fn passed(packets: &mut Packets, bytes: &[u8]) -> String {
        bytes.iter().for_each(|&byte| packets.take(byte));
        let all: Vec<u8> = std::iter::from_fn(|| packets.next()).collect();
        String::from_utf8(all).unwrap()
    }

    fn text(text: &str) -> String {
        String::from_utf8(packet(text.as_bytes())).unwrap()
    }

    #[test]
    fn steps_of_no_thread_are_those_of_the_current_one() {
        for (from, to) in [
            ("vCont;s", "vCont;s:7fffffffffffffff"),
            ("vCont;S05:-1", "vCont;S05:7fffffffffffffff"),
            ("vCont;c:1;s", "vCont;c:1;s:7fffffffffffffff"),
            ("vCont;c", "vCont;c"),
            ("vCont?", "vCont?"),
            ("m0,4", "m0,4"),
        ] {
            let passed = passed(&mut Packets::default(), text(from).as_bytes());
            assert_eq!(passed, text(to), "{from}");
        }
        let damaged = "+$vCont;s#00\x03$$m#";
        assert_eq!(
            passed(&mut Packets::default(), damaged.as_bytes()),
            "+$vCont;s#00\x03"
        );
    }

    #[test]
    fn a_thread_is_asked_for_first() {
        for (wanted, question) in [("Hg3e7", "T3e7"), ("vCont;s:2;c", "T2")] {
            let mut packets = Packets::default();
            assert_eq!(
                passed(&mut packets, text(wanted).as_bytes()),
                text(question)
            );
            // It is dead: that is the answer.
            let dead = b"+$E01#a6".to_vec();
            let mut outgoing = dead.clone();
            packets.answer(&mut outgoing);
            assert_eq!((outgoing, packets.next()), (dead, None));
            // It is alive: the packet follows, acknowledged once.
            passed(&mut packets, text(wanted).as_bytes());
            let mut outgoing = b"+$OK#9a".to_vec();
            packets.answer(&mut outgoing);
            assert_eq!(outgoing, b"+");
            assert_eq!(passed(&mut packets, b""), text(wanted));
            let mut outgoing = b"+$OK#9a".to_vec();
            packets.answer(&mut outgoing);
            assert_eq!(outgoing, b"$OK#9a");
        }
        // Packets that come behind wait for their turn.
        let mut packets = Packets::default();
        let both = text("Hg1") + &text("Hg2") + &text("g");
        assert_eq!(passed(&mut packets, both.as_bytes()), text("T1"));
        for (answer, rest) in [("+$OK#9a", "Hg1"), ("+$OK#9a", "T2"), ("+$E01#a6", "g")] {
            packets.answer(&mut answer.as_bytes().to_vec());
            assert_eq!(passed(&mut packets, b""), text(rest));
        }
        for plain in ["Hg0", "Hg-1", "Hc3e7", "Hgzz", "vCont;c:3e7", "T3e7"] {
            let mut packets = Packets::default();
            assert_eq!(passed(&mut packets, text(plain).as_bytes()), text(plain));
        }
    }
}
