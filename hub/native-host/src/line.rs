//! The hub's side: one frame a line.

use std::io::{self, BufRead};

use crate::frame::{self, Found};

/// Reads one line of at most `limit` bytes into `line`, without its end. A line that the input's end cut off
/// is not one.
pub(crate) fn read(input: &mut impl BufRead, limit: usize, line: &mut Vec<u8>) -> io::Result<Found> {
    frame::reset(line);
    let mut too_long = false;
    loop {
        let bytes = match input.fill_buf() {
            Ok([]) => return Ok(Found::End),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        too_long |= line.len() + part.len() > limit;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(if too_long { Found::TooLong } else { Found::Frame });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    const LIMIT: usize = 64;

    fn read_all(bytes: &[u8], buffer: usize) -> Vec<Option<Vec<u8>>> {
        let mut input = BufReader::with_capacity(buffer, bytes);
        let mut line = Vec::new();
        let mut all = Vec::new();
        loop {
            match read(&mut input, LIMIT, &mut line).unwrap() {
                Found::Frame => all.push(Some(line.clone())),
                Found::TooLong => all.push(None),
                Found::End => return all,
            }
            assert!(line.len() <= LIMIT);
        }
    }

    #[test]
    fn a_line_of_the_limit_passes_and_one_byte_more_does_not() {
        let text = format!("{}\n{}\nlast\ncut off", "a".repeat(LIMIT), "b".repeat(LIMIT + 1));
        let expected = vec![Some(vec![b'a'; LIMIT]), None, Some(b"last".to_vec())];
        for buffer in [1, 7, LIMIT, 4096] {
            assert_eq!(read_all(text.as_bytes(), buffer), expected);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\n'), any::<u8>()], 0..400), buffer in 1usize..50) {
            let mut expected: Vec<_> = bytes
                .split(|&b| b == b'\n')
                .map(|line| (line.len() <= LIMIT).then(|| line.to_vec()))
                .collect();
            expected.pop();
            prop_assert_eq!(read_all(&bytes, buffer), expected);
        }
    }
}
