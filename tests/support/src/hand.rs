//! A real pointer: under Xtigervnc, what an RFB client (RFC 6143) does comes from a device of the server, as a
//! mouse would.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// How long the server may take to answer.
const LIMIT: Duration = Duration::from_secs(10);

const VERSION: &[u8; 12] = b"RFB 003.008\n";
const NO_SECURITY: u8 = 1;
const SHARED: u8 = 1;
const UPDATE_REQUEST: u8 = 3;
const POINTER_EVENT: u8 = 5;

const UPDATE: u8 = 0;
const COLOUR_MAP: u8 = 1;
const BELL: u8 = 2;
const CUT_TEXT: u8 = 3;

/// The primary button.
pub const PRIMARY: u8 = 1;
/// The secondary button.
pub const SECONDARY: u8 = 1 << 2;
/// The wheel away from the hand.
pub const WHEEL_UP: u8 = 1 << 3;
/// The wheel towards the hand.
pub const WHEEL_DOWN: u8 = 1 << 4;

/// A hand on a mouse.
#[derive(Debug)]
pub struct Hand {
    stream: TcpStream,
    bytes_per_pixel: usize,
    at: (u16, u16),
}

impl Hand {
    /// Takes the mouse of the server at this loopback port.
    pub fn connect(port: u16) -> io::Result<Self> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        read::<12>(&mut stream)?;
        stream.write_all(VERSION)?;
        let [kinds] = read(&mut stream)?;
        let kinds = read_vec(&mut stream, kinds.into())?;
        if !kinds.contains(&NO_SECURITY) {
            return Err(io::Error::other(format!("the server wants a password: {kinds:?}")));
        }
        stream.write_all(&[NO_SECURITY])?;
        let result = u32::from_be_bytes(read(&mut stream)?);
        if result != 0 {
            return Err(io::Error::other(format!("the server refused with {result}")));
        }
        stream.write_all(&[SHARED])?;
        let [_, _, _, _, bits_per_pixel, ..] = read::<20>(&mut stream)?;
        let name = u32::from_be_bytes(read(&mut stream)?);
        read_vec(&mut stream, name as usize)?;
        Ok(Self { stream, bytes_per_pixel: usize::from(bits_per_pixel / 8), at: (0, 0) })
    }

    /// Moves to this place on the screen.
    pub fn move_to(&mut self, x: u16, y: u16) -> io::Result<()> {
        self.at = (x, y);
        self.point(0)
    }

    /// Presses buttons where the pointer is.
    pub fn press(&mut self, buttons: u8) -> io::Result<()> {
        self.point(buttons)
    }

    /// Moves with these buttons held.
    pub fn drag_to(&mut self, x: u16, y: u16, buttons: u8) -> io::Result<()> {
        self.at = (x, y);
        self.point(buttons)
    }

    /// Lets all buttons go.
    pub fn release(&mut self) -> io::Result<()> {
        self.point(0)
    }

    /// Clicks with the primary button at this place.
    pub fn click(&mut self, x: u16, y: u16) -> io::Result<()> {
        self.move_to(x, y)?;
        self.press(PRIMARY)?;
        self.release()
    }

    /// Turns the wheel by one notch: [`WHEEL_UP`] or [`WHEEL_DOWN`].
    pub fn wheel(&mut self, direction: u8) -> io::Result<()> {
        self.press(direction)?;
        self.release()
    }

    /// Tells the server, and waits until it has done it: it handles a client's messages in order, and answers
    /// the request for a picture only after the event before it.
    fn point(&mut self, buttons: u8) -> io::Result<()> {
        let [x, y] = [self.at.0.to_be_bytes(), self.at.1.to_be_bytes()];
        let mut message = vec![POINTER_EVENT, buttons, x[0], x[1], y[0], y[1]];
        // One pixel, whether or not it changed.
        message.extend([UPDATE_REQUEST, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
        self.stream.write_all(&message)?;
        while self.read_message()? != UPDATE {}
        Ok(())
    }

    fn read_message(&mut self) -> io::Result<u8> {
        let stream = &mut self.stream;
        let [kind] = read(stream)?;
        match kind {
            UPDATE => {
                let [_, high, low] = read(stream)?;
                for _ in 0..u16::from_be_bytes([high, low]) {
                    let [_, _, _, _, w1, w2, h1, h2, encoding @ ..] = read::<12>(stream)?;
                    if encoding != [0; 4] {
                        return Err(io::Error::other(format!("unexpected encoding {encoding:?}")));
                    }
                    let pixels =
                        usize::from(u16::from_be_bytes([w1, w2])) * usize::from(u16::from_be_bytes([h1, h2]));
                    read_vec(stream, pixels * self.bytes_per_pixel)?;
                }
            }
            COLOUR_MAP => {
                let [_, _, _, high, low] = read(stream)?;
                read_vec(stream, usize::from(u16::from_be_bytes([high, low])) * 6)?;
            }
            BELL => {}
            CUT_TEXT => {
                let [_, _, _, length @ ..] = read::<7>(stream)?;
                read_vec(stream, u32::from_be_bytes(length) as usize)?;
            }
            other => return Err(io::Error::other(format!("unexpected message {other}"))),
        }
        Ok(kind)
    }
}

fn read<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_vec(stream: &mut TcpStream, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
