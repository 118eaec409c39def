//! What other programs post, by the RECORD extension: every XTEST request of every client, and every request
//! that moves the pointer.
//!
//! The stream is also the clock. [`Recorder::ask`] sends a harmless XTEST request of our own, which the server
//! records behind everything that it handled before: once it comes back, with the server's time, nothing posted
//! earlier can still be on its way. No other client can forge it, since each element names its client.

use std::sync::mpsc::Sender;

use anyhow::{Context as _, bail};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::record::{self, ConnectionExt as _};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::protocol::{xinput, xproto, xtest};
use x11rb::rust_connection::RustConnection;

use crate::verdict::{Posted, Time};

/// Categories of a RECORD reply.
const FROM_CLIENT: u8 = 1;
const START_OF_DATA: u8 = 4;
/// Requests are counted in units of this many bytes.
const UNIT: usize = 4;

/// One thing the stream says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// Recording has begun.
    Started,
    /// Our own request number so and so came by, at that time.
    Reached(u16, Time),
    /// A program posted something at `known`, which takes effect at `at`.
    Posted {
        /// When the server handled the request.
        known: Time,
        /// When it has its effect.
        at: Time,
        /// What it is.
        what: Posted,
    },
    /// The stream is over, which it never should be.
    Ended(String),
}

/// A recording under way.
#[derive(Debug)]
pub(super) struct Recorder {
    asked: u16,
}

/// The numbers that this server gave the extensions.
#[derive(Debug, Clone, Copy)]
struct Opcodes {
    xtest: u8,
    xinput: u8,
    xinput_first_event: u8,
    /// The resource base of our own client.
    own: u32,
}

impl Recorder {
    /// Starts to record. What it hears goes to `sender`, from a thread of its own.
    pub(super) fn start<S: Send + 'static>(
        control: &RustConnection,
        sender: Sender<S>,
        signal: fn(Heard) -> S,
    ) -> anyhow::Result<Self> {
        let opcodes = Opcodes::of(control)?;
        control.record_query_version(1, 13)?.reply().context("the RECORD extension does not answer")?;
        let context = control.generate_id()?;
        control
            .record_create_context(
                context,
                record::HType::FROM_CLIENT_TIME.into(),
                &[record::CS::ALL_CLIENTS.into()],
                &[
                    requests(xproto::WARP_POINTER_REQUEST, opcodes.xtest, 0..=xtest::FAKE_INPUT_REQUEST),
                    requests(
                        0,
                        opcodes.xinput,
                        xinput::XI_WARP_POINTER_REQUEST..=xinput::XI_WARP_POINTER_REQUEST,
                    ),
                ],
            )?
            .check()
            .context("cannot record what other programs post")?;
        let (data, _) = x11rb::connect(None).context("cannot open a second connection to the display")?;
        std::thread::Builder::new().name("record".to_owned()).spawn(move || {
            let ended = listen(&data, context, opcodes, |heard| sender.send(signal(heard)).is_ok());
            let reason = ended.err().map_or_else(|| "it ended".to_owned(), |error| format!("{error:#}"));
            // Nobody listens any more once the dialog is gone.
            drop(sender.send(signal(Heard::Ended(reason))));
        })?;
        Ok(Self { asked: 0 })
    }

    /// Asks for the time, behind everything posted so far; the answer is [`Heard::Reached`] with this number.
    pub(super) fn ask(&mut self, control: &RustConnection) -> anyhow::Result<u16> {
        self.asked = self.asked.wrapping_add(1);
        // The version asked for is ours to choose: it carries the number. The reply says nothing of use.
        control.xtest_get_version(2, self.asked)?.discard_reply_and_errors();
        control.flush()?;
        Ok(self.asked)
    }
}

impl Opcodes {
    fn of(control: &RustConnection) -> anyhow::Result<Self> {
        let extension = |name| {
            control
                .extension_information(name)?
                .with_context(|| format!("the display has no {name} extension"))
        };
        extension(record::X11_EXTENSION_NAME)?;
        let xinput = extension(xinput::X11_EXTENSION_NAME)?;
        Ok(Self {
            xtest: extension(xtest::X11_EXTENSION_NAME)?.major_opcode,
            xinput: xinput.major_opcode,
            xinput_first_event: xinput.first_event,
            own: control.setup().resource_id_base,
        })
    }
}

fn requests(core: u8, major: u8, minor: std::ops::RangeInclusive<u8>) -> record::Range {
    record::Range {
        core_requests: record::Range8 { first: core, last: core },
        ext_requests: record::ExtRange {
            major: record::Range8 { first: major, last: major },
            minor: record::Range16 { first: (*minor.start()).into(), last: (*minor.end()).into() },
        },
        ..record::Range::default()
    }
}

fn listen(
    data: &RustConnection,
    context: record::Context,
    opcodes: Opcodes,
    mut tell: impl FnMut(Heard) -> bool,
) -> anyhow::Result<()> {
    for reply in data.record_enable_context(context)? {
        let reply = reply?;
        let heard = match reply.category {
            START_OF_DATA => vec![Heard::Started],
            FROM_CLIENT => {
                parse(&reply.data, reply.client_swapped, reply.xid_base, Time(reply.server_time), opcodes)
            }
            _ => bail!("unexpected category {}", reply.category),
        };
        for one in heard {
            if !tell(one) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Takes one reply apart: requests of one client, each behind its time. What it cannot read counts as posted.
fn parse(mut data: &[u8], swapped: bool, client: u32, now: Time, opcodes: Opcodes) -> Vec<Heard> {
    let mut all = Vec::new();
    while !data.is_empty() {
        let Some((heard, rest)) = element(data, swapped, client, opcodes) else {
            all.push(Heard::Posted { known: now, at: now, what: Posted::Button });
            break;
        };
        all.extend(heard);
        data = rest;
    }
    all
}

fn element(data: &[u8], swapped: bool, client: u32, opcodes: Opcodes) -> Option<(Option<Heard>, &[u8])> {
    let (time, request) = data.split_first_chunk()?;
    let known = Time(u32::from_ne_bytes(*time));
    let length = match two(request, 2, swapped)? {
        // A long request has its length in the next four bytes.
        0 => usize::try_from(four(request, 4, swapped)?).ok()?,
        length => length.into(),
    };
    let fields_at = if two(request, 2, swapped)? == 0 { 8 } else { 4 };
    let (request, rest) = request.split_at_checked(length.checked_mul(UNIT)?)?;
    let (&[major, minor], _) = request.split_first_chunk()?;
    let fields = request.get(fields_at..)?;
    let heard = if major == opcodes.xtest && minor == xtest::FAKE_INPUT_REQUEST {
        let delay = four(fields, 4, swapped)?;
        fake_input(*fields.first()?, opcodes).map(|what| Heard::Posted {
            known,
            at: known.after(delay),
            what,
        })
    } else if major == opcodes.xtest && minor == xtest::GET_VERSION_REQUEST {
        (client == opcodes.own).then_some(Heard::Reached(two(fields, 2, swapped)?, known))
    } else if major == xproto::WARP_POINTER_REQUEST
        || (major == opcodes.xinput && minor == xinput::XI_WARP_POINTER_REQUEST)
    {
        Some(Heard::Posted { known, at: known, what: Posted::Motion })
    } else {
        None
    };
    Some((heard, rest))
}

/// What a FakeInput request of this type posts; keys do not matter, and what is not known counts as a button.
fn fake_input(kind: u8, opcodes: Opcodes) -> Option<Posted> {
    let device_event = kind.wrapping_sub(opcodes.xinput_first_event);
    match kind {
        xproto::KEY_PRESS_EVENT | xproto::KEY_RELEASE_EVENT => None,
        xproto::MOTION_NOTIFY_EVENT => Some(Posted::Motion),
        _ => match device_event {
            xinput::DEVICE_KEY_PRESS_EVENT | xinput::DEVICE_KEY_RELEASE_EVENT => None,
            xinput::DEVICE_MOTION_NOTIFY_EVENT => Some(Posted::Motion),
            _ => Some(Posted::Button),
        },
    }
}

fn two(data: &[u8], at: usize, swapped: bool) -> Option<u16> {
    let value = u16::from_ne_bytes(*data.get(at..)?.first_chunk()?);
    Some(if swapped { value.swap_bytes() } else { value })
}

fn four(data: &[u8], at: usize, swapped: bool) -> Option<u32> {
    let value = u32::from_ne_bytes(*data.get(at..)?.first_chunk()?);
    Some(if swapped { value.swap_bytes() } else { value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OPCODES: Opcodes = Opcodes { xtest: 132, xinput: 131, xinput_first_event: 66, own: 0x20_0000 };

    fn recorded(time: u32, request: &[u8]) -> Vec<u8> {
        [&time.to_ne_bytes(), request].concat()
    }

    /// A FakeInput request in this machine's byte order, or in the other.
    fn posted(kind: u8, delay: u32, swapped: bool) -> Vec<u8> {
        let order = |value: u32| if swapped { value.swap_bytes() } else { value };
        let length = if swapped { 9_u16.swap_bytes() } else { 9 };
        let mut request = vec![132, 2];
        request.extend(length.to_ne_bytes());
        request.extend([kind, 1, 0, 0]);
        request.extend(order(delay).to_ne_bytes());
        request.resize(36, 0);
        request
    }

    fn read(data: &[u8], swapped: bool, client: u32) -> Vec<Heard> {
        parse(data, swapped, client, Time(7), OPCODES)
    }

    #[test]
    fn posted_buttons_are_heard_whatever_the_byte_order() {
        for swapped in [false, true] {
            for kind in [4, 5, 66 + 3, 66 + 4, 127] {
                let heard = read(&recorded(1_000, &posted(kind, 0, swapped)), swapped, 0x40_0000);
                let expected = Heard::Posted { known: Time(1_000), at: Time(1_000), what: Posted::Button };
                assert_eq!(heard, [expected], "kind {kind}, swapped {swapped}");
            }
        }
    }

    #[test]
    fn a_delay_moves_the_effect() {
        let heard = read(&recorded(1_000, &posted(4, 250, false)), false, 0x40_0000);
        assert_eq!(heard, [Heard::Posted { known: Time(1_000), at: Time(1_250), what: Posted::Button }]);
    }

    #[test]
    fn keys_are_not_the_dialogs_business() {
        for kind in [2, 3, 66 + 1, 66 + 2] {
            assert_eq!(read(&recorded(1_000, &posted(kind, 0, false)), false, 0x40_0000), []);
        }
    }

    #[test]
    fn several_requests_in_one_reply_are_all_heard() {
        let warp: Vec<u8> = [vec![41, 0], 6_u16.to_ne_bytes().to_vec(), vec![0; 20]].concat();
        let data = [recorded(5, &warp), recorded(6, &posted(4, 0, false))].concat();
        let heard = read(&data, false, 0x40_0000);
        assert_eq!(heard.len(), 2);
        assert_eq!(heard[0], Heard::Posted { known: Time(5), at: Time(5), what: Posted::Motion });
    }

    #[test]
    fn a_long_request_does_not_hide_what_it_posts() {
        let mut long = vec![132, 2, 0, 0];
        long.extend(10_u32.to_ne_bytes());
        long.extend(&posted(4, 0, false)[4..]);
        let heard = read(&recorded(9, &long), false, 0x40_0000);
        assert_eq!(heard, [Heard::Posted { known: Time(9), at: Time(9), what: Posted::Button }]);
    }

    #[test]
    fn only_our_own_request_is_the_clock() {
        let mut version = vec![132, 0, 0, 0, 2, 0];
        version[2..4].copy_from_slice(&2_u16.to_ne_bytes());
        version.extend(513_u16.to_ne_bytes());
        assert_eq!(read(&recorded(9, &version), false, OPCODES.own), [Heard::Reached(513, Time(9))]);
        assert_eq!(read(&recorded(9, &version), false, 0x40_0000), []);
    }

    proptest! {
        #[test]
        fn what_cannot_be_read_counts_as_posted(data in prop::collection::vec(any::<u8>(), 1..8)) {
            let expected = Heard::Posted { known: Time(7), at: Time(7), what: Posted::Button };
            prop_assert_eq!(read(&data, false, 0x40_0000), [expected]);
        }

        #[test]
        fn no_bytes_make_it_panic(data in prop::collection::vec(any::<u8>(), 0..300), swapped: bool) {
            drop(read(&data, swapped, OPCODES.own));
        }
    }
}
