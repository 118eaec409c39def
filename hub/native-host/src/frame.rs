//! What both directions share: the outcome of reading, and whether bytes may pass.

use consentry_wire::socket::MAX_LINE;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What a reader found. The frame's bytes are in the buffer that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// One frame, of at most the reader's limit.
    Frame,
    /// A frame over the limit; it was skipped, and the next one can be read.
    TooLong,
    /// Nothing more comes.
    End,
}

/// The longest frame that passes, either way. It is what a browser takes from a host at most: one byte more
/// ends the port.
pub(crate) const MAX: usize = MAX_LINE;

/// Empties a buffer for the next frame. Few frames are large and hours may lie between them, so the room of a
/// large one is given back.
pub(crate) fn reset(frame: &mut Vec<u8>) {
    frame.clear();
    frame.shrink_to(64 * 1024);
}

/// Why a frame does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame that is not JSON")]
pub(crate) struct NotJson;

/// Checks that a frame is one JSON text, and makes it one line. In valid JSON a line break stands only
/// between tokens, where a space means the same.
pub(crate) fn make_line(frame: &mut [u8]) -> Result<(), NotJson> {
    let text = std::str::from_utf8(frame).map_err(|_| NotJson)?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|_| NotJson)?;
    for byte in frame {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    Ok(())
}

/// Whether it is the extension's first frame on a link, the only one whose kind the relay looks at.
pub(crate) fn is_hello(frame: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum First {
        Hello {},
    }
    matches!(serde_json::from_slice(frame), Ok(First::Hello {}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made_line(frame: &str) -> Result<String, NotJson> {
        let mut bytes = frame.as_bytes().to_vec();
        make_line(&mut bytes)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn json_passes_on_one_line_and_nothing_else_passes() {
        assert_eq!(made_line("{\"a\": \"x\\ny\"}").unwrap(), "{\"a\": \"x\\ny\"}");
        assert_eq!(made_line("{\r\n \"a\":\n1}").unwrap(), "{   \"a\": 1}");
        for bad in ["", " ", "{", "{} {}", "{}\n{}", "{\"a\":\"x\ny\"}", "{\"a\":1,}", "nul"] {
            assert_eq!(made_line(bad), Err(NotJson), "{bad:?}");
        }
        assert_eq!(make_line(&mut [b'"', 0xff, b'"']), Err(NotJson));
    }

    #[test]
    fn a_nest_of_brackets_does_not_exhaust_the_stack() {
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(made_line(&deep), Ok(deep.clone()));
        assert_eq!(made_line(&deep[1..]), Err(NotJson));
        assert!(!is_hello(deep.as_bytes()));
    }

    #[test]
    fn only_a_hello_is_a_hello() {
        assert!(is_hello(br#"{"type":"hello","version":{"major":1,"minor":0}}"#));
        assert!(is_hello(br#"{ "version": {"type": "x"}, "type": "hello" }"#));
        for other in [r#"{"type":"pong"}"#, r#"{"hello":1}"#, r#""hello""#, "[]", "", r#"{"type":"#] {
            assert!(!is_hello(other.as_bytes()), "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_passes_is_one_line_with_the_same_meaning(frame in "[ \\r\\n\"\\\\a1,:\\[\\]{}]{0,40}") {
            let whole: Result<serde_json::Value, _> = serde_json::from_str(&frame);
            match made_line(&frame) {
                Ok(line) => {
                    prop_assert!(!line.contains(['\n', '\r']));
                    let meaning: serde_json::Value = serde_json::from_str(&line).unwrap();
                    prop_assert_eq!(meaning, whole.unwrap());
                }
                Err(NotJson) => prop_assert!(whole.is_err()),
            }
        }

        #[test]
        fn no_bytes_make_a_check_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = is_hello(&bytes);
            let _ = make_line(&mut bytes);
        }
    }
}
