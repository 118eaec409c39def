//! Splitting of large frames.
//!
//! A browser takes at most 1 MiB from a native-messaging host, and one byte more ends the port. So a frame
//! that is longer than [`MAX_PIECE`] travels as numbered pieces; both directions and both transports use the
//! same rule. Pieces of one frame are sent in order and never interleaved with another frame's. What the relay says
//! itself ([`crate::frame::FromRelay`]) can come between two pieces: an extension looks for that first, and begins
//! with a fresh [`Joiner`] after it.

use serde::{Deserialize, Serialize};

/// The longest piece in bytes of UTF-8. JSON escaping can double it, and 1 MiB is the browser's limit.
pub const MAX_PIECE: usize = 400 * 1024;

/// The longest whole frame: a full-page picture or a whole document's outline fits several times.
pub const MAX_FRAME: usize = 64 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
struct Piece {
    chunk: PieceHead,
    data: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct PieceHead {
    /// Position of this piece, from 0.
    n: u32,
    /// How many there are.
    of: u32,
}

/// Why pieces do not make a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// A piece came out of its order.
    #[error("a piece of a frame came out of order")]
    OutOfOrder,
    /// The whole would be longer than [`MAX_FRAME`].
    #[error("a frame is longer than {MAX_FRAME} bytes")]
    TooLong,
    /// Another frame began before the pieces were complete.
    #[error("a frame began before the one before it was whole")]
    Interrupted,
}

/// Cuts a frame into the messages that carry it; most frames are one message, unchanged.
pub fn split(frame: String) -> Vec<String> {
    if frame.len() <= MAX_PIECE {
        return vec![frame];
    }
    let mut parts = Vec::new();
    let mut rest = frame.as_str();
    while !rest.is_empty() {
        let mut end = rest.len().min(MAX_PIECE);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (head, tail) = rest.split_at(end);
        parts.push(head);
        rest = tail;
    }
    let of = parts.len() as u32;
    let wrap = |(n, data): (usize, &str)| {
        serde_json::json!({ "chunk": { "n": n, "of": of }, "data": data }).to_string()
    };
    parts.into_iter().enumerate().map(wrap).collect()
}

/// Puts pieces together again.
#[derive(Debug, Default)]
pub struct Joiner {
    buffer: String,
    next: u32,
    of: u32,
}

impl Joiner {
    /// Takes one message; gives a whole frame when there is one.
    ///
    /// # Errors
    /// When the pieces make no frame. What was collected is dropped, and the link should be.
    pub fn push(&mut self, message: String) -> Result<Option<String>, ChunkError> {
        // Every piece begins so, and no frame does: a frame's first key is `type`.
        let piece = if message.starts_with("{\"chunk\":") {
            serde_json::from_str::<Piece>(&message).ok()
        } else {
            None
        };
        let Some(piece) = piece else {
            return if self.of == 0 { Ok(Some(message)) } else { Err(self.reset(ChunkError::Interrupted)) };
        };
        let PieceHead { n, of } = piece.chunk;
        let expected = if self.of == 0 { n == 0 && of > 1 } else { n == self.next && of == self.of };
        if !expected {
            return Err(self.reset(ChunkError::OutOfOrder));
        }
        if self.buffer.len() + piece.data.len() > MAX_FRAME {
            return Err(self.reset(ChunkError::TooLong));
        }
        self.buffer.push_str(&piece.data);
        self.next = n + 1;
        self.of = of;
        if self.next < of {
            return Ok(None);
        }
        let frame = std::mem::take(&mut self.buffer);
        *self = Self::default();
        Ok(Some(frame))
    }

    fn reset(&mut self, error: ChunkError) -> ChunkError {
        *self = Self::default();
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_piece_stays_under_the_browsers_limit_even_when_all_of_it_is_escaped() {
        for message in split("\"".repeat(MAX_PIECE * 2 + 1)) {
            assert!(message.len() <= 1024 * 1024, "{}", message.len());
        }
    }

    #[test]
    fn pieces_out_of_order_or_interrupted_are_refused() {
        let pieces = split("x".repeat(MAX_PIECE * 2 + 1));
        assert_eq!(pieces.len(), 3);
        let mut joiner = Joiner::default();
        assert_eq!(joiner.push(pieces[1].clone()), Err(ChunkError::OutOfOrder));
        assert_eq!(joiner.push(pieces[0].clone()), Ok(None));
        assert_eq!(joiner.push("{\"type\":\"ping\"}".into()), Err(ChunkError::Interrupted));
        assert_eq!(joiner.push(pieces[0].clone()), Ok(None));
        assert_eq!(joiner.push(pieces[2].clone()), Err(ChunkError::OutOfOrder));
        assert_eq!(joiner.push("{\"type\":\"ping\"}".into()), Ok(Some("{\"type\":\"ping\"}".into())));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_was_split_joins_again(seed in "[a-zé你\"\\\\]{1,40}", times in 1usize..60_000) {
            let frame = seed.repeat(times);
            let mut joiner = Joiner::default();
            let mut whole = None;
            for message in split(frame.clone()) {
                prop_assert!(whole.is_none());
                whole = joiner.push(message).unwrap();
            }
            prop_assert_eq!(whole.unwrap(), frame);
        }
    }
}
