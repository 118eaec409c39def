//! Native messaging: a length of four bytes in the machine's own order, then JSON.
//! <https://developer.chrome.com/docs/extensions/develop/concepts/native-messaging>

use std::io::{self, IoSlice, Read, Write};

use crate::frame::{self, Found};

/// Reads one frame of at most `limit` bytes into `frame`.
///
/// The length is never trusted with memory: the buffer grows with what really comes, and a frame over the
/// limit is read past without being kept.
pub(crate) fn read(input: &mut impl Read, limit: usize, frame: &mut Vec<u8>) -> io::Result<Found> {
    frame::reset(frame);
    let mut header = [0; 4];
    match input.read_exact(&mut header) {
        Ok(()) => {}
        // Also in the middle of a length: there is nobody left to tell.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Found::End),
        Err(error) => return Err(error),
    }
    let length = u64::from(u32::from_ne_bytes(header));
    let mut body = input.take(length);
    let (read, found) = if length > limit as u64 {
        (io::copy(&mut body, &mut io::sink())?, Found::TooLong)
    } else {
        (body.read_to_end(frame)? as u64, Found::Frame)
    };
    Ok(if read == length { found } else { Found::End })
}

/// Writes one frame, in one piece where the pipe takes it: the browser wakes up once.
pub(crate) fn write(output: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let header = length.to_ne_bytes();
    let written = loop {
        match output.write_vectored(&[IoSlice::new(&header), IoSlice::new(frame)]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            other => break other?,
        }
    };
    output.write_all(header.get(written..).unwrap_or_default())?;
    output.write_all(frame.get(written.saturating_sub(header.len())..).unwrap_or_default())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A pipe that hands over a few bytes at a time.
    struct Trickle<T> {
        inner: T,
        step: usize,
    }

    impl<T: Read> Read for Trickle<T> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let step = self.step.min(buffer.len());
            self.inner.read(&mut buffer[..step])
        }
    }

    impl Write for Trickle<Vec<u8>> {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            let step = self.step.min(buffer.len());
            self.inner.write(&buffer[..step])
        }
        fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
            let all: Vec<u8> = buffers.iter().flat_map(|b| b.iter().copied()).collect();
            self.write(&all)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const LIMIT: usize = 64;

    fn read_all(mut input: impl Read) -> Vec<Option<Vec<u8>>> {
        let mut frame = Vec::new();
        let mut all = Vec::new();
        loop {
            match read(&mut input, LIMIT, &mut frame).unwrap() {
                Found::Frame => all.push(Some(frame.clone())),
                Found::TooLong => all.push(None),
                Found::End => return all,
            }
        }
    }

    #[test]
    fn a_huge_length_takes_no_memory_and_ends_with_the_input() {
        let mut input: &[u8] = &[0xff, 0xff, 0xff, 0xff, b'{', b'}'];
        let mut frame = Vec::new();
        assert_eq!(read(&mut input, LIMIT, &mut frame).unwrap(), Found::End);
        assert_eq!(frame.capacity(), 0);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_again_whatever_the_pipe_cuts(
            frames in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..LIMIT * 2), 0..8),
            step in 1usize..100,
            lost in 0usize..4,
        ) {
            let mut pipe = Trickle { inner: Vec::new(), step };
            for frame in &frames {
                write(&mut pipe, frame).unwrap();
            }
            let expected: Vec<_> =
                frames.iter().map(|f| (f.len() <= LIMIT).then(|| f.clone())).collect();
            prop_assert_eq!(&read_all(Trickle { inner: &pipe.inner[..], step }), &expected);

            // Cut short: every whole frame is there, and nothing of the last.
            let cut = pipe.inner.len().saturating_sub(lost);
            let whole = if lost == 0 { expected.len() } else { expected.len().saturating_sub(1) };
            if lost == 0 || frames.last().is_some_and(|last| last.len() + 4 >= lost) {
                let found = read_all(Trickle { inner: &pipe.inner[..cut], step });
                prop_assert_eq!(&found[..], &expected[..whole]);
            }
        }

        #[test]
        fn no_bytes_make_reading_fail_or_exceed_the_limit(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            for frame in read_all(&bytes[..]).into_iter().flatten() {
                prop_assert!(frame.len() <= LIMIT);
            }
        }
    }
}
