//! The purpose: untrusted text that is headed for a screen on which somebody decides by it.

/// The longest purpose in characters.
const MAX_CHARS: usize = 280;
/// The most sentences.
const MAX_SENTENCES: usize = 2;
/// The longest caller label in characters.
const MAX_CALLER: usize = 60;

/// What a caller says it wants, cleaned. Refused rather than trimmed where it is too long: the first half of a
/// text can be harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purpose(String);

/// Why a purpose is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PurposeError {
    /// Nothing readable.
    #[error("the purpose is empty")]
    Empty,
    /// Too long.
    #[error("the purpose has {0} characters; at most {MAX_CHARS} are shown")]
    TooLong(usize),
    /// Too many sentences.
    #[error("the purpose has more than {MAX_SENTENCES} sentences")]
    TooManySentences,
}

impl Purpose {
    /// Cleans and checks.
    ///
    /// # Errors
    /// When nothing is left, or too much.
    pub fn parse(text: &str) -> Result<Self, PurposeError> {
        let text = clean(text);
        if text.is_empty() {
            return Err(PurposeError::Empty);
        }
        let chars = text.chars().count();
        if chars > MAX_CHARS {
            return Err(PurposeError::TooLong(chars));
        }
        if sentences(&text) > MAX_SENTENCES {
            return Err(PurposeError::TooManySentences);
        }
        Ok(Self(text))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a caller calls itself. Nobody has checked it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller(String);

impl Caller {
    /// Cleans; `None` when nothing is left or too much.
    pub fn parse(text: &str) -> Option<Self> {
        let text = clean(text);
        (!text.is_empty() && text.chars().count() <= MAX_CALLER).then_some(Self(text))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Makes untrusted text fit for one line on a screen: control and direction characters go, as does whatever
/// has no width of its own, and white space becomes single spaces.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut space = false;
    for c in text.chars() {
        if c.is_whitespace() {
            space = !out.is_empty();
        } else if !is_invisible(c) {
            if std::mem::take(&mut space) {
                out.push(' ');
            }
            out.push(c);
        }
    }
    out
}

/// Characters that change how others are shown, or that are not shown at all (Unicode's categories Cc and Cf,
/// private use, tags, and the fillers that look like nothing).
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0x00AD | 0x034F | 0x0600..=0x0605 | 0x061C | 0x06DD | 0x070F | 0x115F | 0x1160 | 0x17B4 | 0x17B5
            | 0x180B..=0x180F | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0x3164 | 0xE000..=0xF8FF
            | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
            | 0xE0000..=0xE0FFF | 0xF0000..=0x10_FFFF)
}

/// Counts sentences: a run of terminators ends one where white space or the end follows, so that "e.g. 3.5 MB
/// at example.com" stays one apart from the abbreviation.
fn sentences(text: &str) -> usize {
    let mut count = 0;
    let mut open = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if is_terminator(c) {
            let wide = matches!(c, '。' | '！' | '？' | '．' | '।');
            let ends = wide
                || chars.peek().is_none_or(|next| {
                    next.is_whitespace() || matches!(next, '"' | '\'' | ')' | '”' | '’' | '»')
                });
            if ends && open {
                count += 1;
                open = false;
            }
        } else if c.is_alphanumeric() {
            open = true;
        }
    }
    count + usize::from(open)
}

fn is_terminator(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '．' | '।' | '؟' | '‼' | '⁇' | '⁈' | '⁉' | '‽')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn direction_overrides_and_controls_never_reach_the_screen() {
        let purpose = Purpose::parse("Read \u{202e}txt.exe\u{202c}\u{0007}\n\n the   page\u{200b}.").unwrap();
        assert_eq!(purpose.as_str(), "Read txt.exe the page.");
        assert_eq!(Purpose::parse(" \u{200f}\u{feff}\t "), Err(PurposeError::Empty));
    }

    #[test]
    fn too_much_is_refused_and_never_trimmed() {
        assert!(Purpose::parse(&"a".repeat(280)).is_ok());
        assert_eq!(Purpose::parse(&"a".repeat(281)), Err(PurposeError::TooLong(281)));
        assert!(Purpose::parse("One. Two!").is_ok());
        assert_eq!(Purpose::parse("One. Two! Three"), Err(PurposeError::TooManySentences));
        assert_eq!(Purpose::parse("一。二。三。"), Err(PurposeError::TooManySentences));
        assert!(Purpose::parse("Find version 3.5.1 at docs.example.com... then tell me?!").is_ok());
        assert_eq!(Purpose::parse("He said \"no.\" Then. Three."), Err(PurposeError::TooManySentences));
    }

    #[test]
    fn a_caller_label_is_short_or_absent() {
        assert_eq!(Caller::parse(" Tadas\u{202e} "), Some(Caller("Tadas".into())));
        assert_eq!(Caller::parse(""), None);
        assert_eq!(Caller::parse(&"x".repeat(61)), None);
    }

    proptest! {
        #[test]
        fn cleaning_leaves_one_visible_line(text in "\\PC{0,300}|[\\s\\S]{0,300}") {
            let once = clean(&text);
            prop_assert!(!once.chars().any(|c| c.is_control() || is_invisible(c)));
            prop_assert!(!once.contains("  ") && once.trim() == once);
            prop_assert_eq!(clean(&once), once);
        }
    }
}
