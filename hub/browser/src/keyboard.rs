//! Keys by name, as the browser wants them: the layout of a US keyboard.

use consentry_wire::Failure;
use serde_json::{Value, json};

/// One stroke: a key with its modifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stroke {
    key: String,
    code: String,
    virtual_key: u32,
    /// What it types, if it types something.
    text: Option<String>,
    location: u32,
    modifiers: u32,
    /// Editing commands that the browser runs itself, such as `selectAll`.
    commands: Vec<&'static str>,
}

const ALT: u32 = 1;
const CONTROL: u32 = 2;
const META: u32 = 4;
const SHIFT: u32 = 8;

/// Keys that are named: key, code, virtual key, text.
const NAMED: &[(&str, &str, u32, Option<&str>)] = &[
    ("ArrowDown", "ArrowDown", 40, None),
    ("ArrowLeft", "ArrowLeft", 37, None),
    ("ArrowRight", "ArrowRight", 39, None),
    ("ArrowUp", "ArrowUp", 38, None),
    ("Backspace", "Backspace", 8, None),
    ("Delete", "Delete", 46, None),
    ("End", "End", 35, None),
    ("Enter", "Enter", 13, Some("\r")),
    ("Escape", "Escape", 27, None),
    ("Home", "Home", 36, None),
    ("Insert", "Insert", 45, None),
    ("PageDown", "PageDown", 34, None),
    ("PageUp", "PageUp", 33, None),
    ("Space", "Space", 32, Some(" ")),
    ("Tab", "Tab", 9, None),
];

/// What people write for some of them.
const ALIASES: &[(&str, &str)] = &[
    ("Return", "Enter"),
    ("Esc", "Escape"),
    ("Del", "Delete"),
    ("Down", "ArrowDown"),
    ("Left", "ArrowLeft"),
    ("Right", "ArrowRight"),
    ("Up", "ArrowUp"),
    ("PgDn", "PageDown"),
    ("PgUp", "PageUp"),
    ("Plus", "+"),
];

/// The characters of the layout: unshifted, shifted, code, virtual key.
const SIGNS: &[(char, char, &str, u32)] = &[
    ('`', '~', "Backquote", 192),
    ('1', '!', "Digit1", 49),
    ('2', '@', "Digit2", 50),
    ('3', '#', "Digit3", 51),
    ('4', '$', "Digit4", 52),
    ('5', '%', "Digit5", 53),
    ('6', '^', "Digit6", 54),
    ('7', '&', "Digit7", 55),
    ('8', '*', "Digit8", 56),
    ('9', '(', "Digit9", 57),
    ('0', ')', "Digit0", 48),
    ('-', '_', "Minus", 189),
    ('=', '+', "Equal", 187),
    ('[', '{', "BracketLeft", 219),
    (']', '}', "BracketRight", 221),
    ('\\', '|', "Backslash", 220),
    (';', ':', "Semicolon", 186),
    ('\'', '"', "Quote", 222),
    (',', '<', "Comma", 188),
    ('.', '>', "Period", 190),
    ('/', '?', "Slash", 191),
];

const ALLOWED: &str = "a key such as Enter, Tab, Escape, ArrowDown, F5, a or 7, with Control, Shift, Alt or Meta before it: Control+A";

impl Stroke {
    /// Reads `Enter`, `a`, `Control+Shift+K`. `mac` decides what `ControlOrMeta` is.
    pub(crate) fn parse(text: &str, mac: bool) -> Result<Self, Failure> {
        let refuse = || {
            Failure::argument(
                "key",
                format!("there is no key {:?}", text.chars().take(40).collect::<String>()),
                ALLOWED,
            )
        };
        let (prefix, name) = match text.strip_suffix('+') {
            // The plus key itself, alone or after modifiers.
            Some("") => ("", "+"),
            Some(rest) if rest.ends_with('+') => (rest.trim_end_matches('+'), "+"),
            Some(_) => return Err(refuse()),
            None => text.rsplit_once('+').unwrap_or(("", text)),
        };
        let mut modifiers = 0;
        for word in prefix.split('+').filter(|word| !word.is_empty()) {
            modifiers |= match word.to_ascii_lowercase().as_str() {
                "control" | "ctrl" => CONTROL,
                "shift" => SHIFT,
                "alt" | "option" => ALT,
                "meta" | "cmd" | "command" | "super" => META,
                "controlormeta" | "mod" => {
                    if mac {
                        META
                    } else {
                        CONTROL
                    }
                }
                _ => return Err(refuse()),
            };
        }
        // In a chord a letter is a key: Control+A is no Control+Shift+A.
        let lower = name.to_ascii_lowercase();
        let letter = modifiers != 0 && name.len() == 1;
        let mut stroke = Self::plain(if letter { &lower } else { name }).ok_or_else(refuse)?;
        stroke.modifiers |= modifiers;
        if modifiers & SHIFT != 0 {
            stroke.shift();
        }
        let main = if mac { META } else { CONTROL };
        if stroke.modifiers & (CONTROL | META | ALT) != 0 {
            // A chord is a command, not a text.
            stroke.text = None;
            if stroke.modifiers & !SHIFT == main {
                stroke.commands = command(&stroke.key.to_ascii_lowercase(), stroke.modifiers & SHIFT != 0)
                    .into_iter()
                    .collect();
            }
        }
        Ok(stroke)
    }

    /// The Enter key.
    pub(crate) fn enter() -> Self {
        let text = Some("\r".to_owned());
        Self {
            key: "Enter".into(),
            code: "Enter".into(),
            virtual_key: 13,
            text,
            location: 0,
            modifiers: 0,
            commands: Vec::new(),
        }
    }

    fn plain(name: &str) -> Option<Self> {
        let stroke = |key: &str, code: &str, virtual_key, text: Option<&str>| Self {
            key: key.into(),
            code: code.into(),
            virtual_key,
            text: text.map(str::to_owned),
            location: 0,
            modifiers: 0,
            commands: Vec::new(),
        };
        let alias =
            ALIASES.iter().find(|(from, _)| from.eq_ignore_ascii_case(name)).map_or(name, |(_, to)| to);
        if let Some((key, code, virtual_key, text)) =
            NAMED.iter().find(|(key, ..)| key.eq_ignore_ascii_case(alias))
        {
            return Some(stroke(if *key == "Space" { " " } else { key }, code, *virtual_key, *text));
        }
        if let Some(n) = alias
            .strip_prefix(['F', 'f'])
            .and_then(|n| n.parse::<u32>().ok())
            .filter(|n| (1..=12).contains(n))
        {
            return Some(stroke(&format!("F{n}"), &format!("F{n}"), 111 + n, None));
        }
        let mut chars = alias.chars();
        let (Some(c), None) = (chars.next(), chars.next()) else { return None };
        if c.is_ascii_alphabetic() {
            let upper = c.to_ascii_uppercase();
            let mut found =
                stroke(&c.to_string(), &format!("Key{upper}"), u32::from(upper), Some(&c.to_string()));
            if c.is_ascii_uppercase() {
                found.modifiers = SHIFT;
            }
            return Some(found);
        }
        if let Some((plain, _, code, virtual_key)) =
            SIGNS.iter().find(|(plain, shifted, ..)| *plain == c || *shifted == c)
        {
            let mut found = stroke(&c.to_string(), code, *virtual_key, Some(&c.to_string()));
            if c != *plain {
                found.modifiers = SHIFT;
            }
            return Some(found);
        }
        // Any other character is a key of some layout: typed as itself.
        (!c.is_control() && !c.is_whitespace()).then(|| stroke(&c.to_string(), "", 0, Some(&c.to_string())))
    }

    /// What the key gives with Shift.
    fn shift(&mut self) {
        let Some(c) = self.text.as_deref().and_then(|text| text.chars().next()) else { return };
        let shifted = SIGNS.iter().find(|(plain, ..)| *plain == c).map(|(_, shifted, ..)| *shifted);
        let shifted = shifted.or_else(|| c.is_ascii_lowercase().then(|| c.to_ascii_uppercase()));
        if let Some(shifted) = shifted {
            self.key = shifted.to_string();
            self.text = Some(shifted.to_string());
        }
    }

    /// Whether it puts text into a field, or takes some away.
    pub(crate) fn edits(&self) -> bool {
        self.text.as_deref().is_some_and(|text| text != "\r")
            || matches!(self.key.as_str(), "Backspace" | "Delete")
            || self
                .commands
                .iter()
                .any(|command| matches!(*command, "paste" | "pasteAndMatchStyle" | "cut" | "undo" | "redo"))
    }

    /// The events: down, and up.
    pub(crate) fn events(&self) -> [Value; 2] {
        let common = json!({
            "key": self.key, "code": self.code, "modifiers": self.modifiers, "location": self.location,
            "windowsVirtualKeyCode": self.virtual_key, "nativeVirtualKeyCode": self.virtual_key,
        });
        let mut down = common.clone();
        down["type"] = json!(if self.text.is_some() { "keyDown" } else { "rawKeyDown" });
        if let Some(text) = &self.text {
            down["text"] = json!(text);
            down["unmodifiedText"] = json!(text);
        }
        if !self.commands.is_empty() {
            down["commands"] = json!(self.commands);
        }
        let mut up = common;
        up["type"] = json!("keyUp");
        [down, up]
    }
}

/// Chords that the browser's own shell turns into editing: they reach a page only as named commands. Copy, cut and
/// paste touch the owner's clipboard and are left out.
fn command(key: &str, shift: bool) -> Option<&'static str> {
    match (key, shift) {
        ("a", false) => Some("selectAll"),
        ("z", false) => Some("undo"),
        ("z", true) | ("y", false) => Some("redo"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(text: &str) -> Value {
        Stroke::parse(text, false).unwrap().events()[0].clone()
    }

    #[test]
    fn keys_and_chords_are_read() {
        assert_eq!(down("Enter")["text"], "\r");
        assert_eq!(down("esc")["key"], "Escape");
        assert_eq!((down("a")["text"].clone(), down("A")["modifiers"].clone()), (json!("a"), json!(8)));
        assert_eq!(
            (down("Shift+a")["text"].clone(), down("Shift+1")["text"].clone()),
            (json!("A"), json!("!"))
        );
        let all = down("Control+A");
        assert_eq!(
            (all["type"].clone(), all["commands"].clone()),
            (json!("rawKeyDown"), json!(["selectAll"]))
        );
        assert_eq!(down("Control+Shift+K")["modifiers"], 10);
        assert_eq!(
            (down("+")["key"].clone(), down("Control++")["modifiers"].clone()),
            (json!("+"), json!(10))
        );
        assert_eq!(down("F5")["windowsVirtualKeyCode"], 116);
        assert_eq!(down("é")["text"], "é");
        assert_eq!(down("Space")["key"], " ");
    }

    #[test]
    fn what_is_no_key_is_refused_with_what_is_allowed() {
        for bad in ["", "Enterr", "Hyper+A", "ab", "Control+", "\n", "F13"] {
            let failure = Stroke::parse(bad, false).unwrap_err();
            assert!(failure.field.as_deref() == Some("key") && failure.allowed.is_some(), "{bad}");
        }
    }

    #[test]
    fn what_edits_is_known_so_that_guarded_fields_refuse_it() {
        for yes in ["a", "Shift+a", "Space", "Backspace", "Delete", "Control+Z"] {
            assert!(Stroke::parse(yes, false).unwrap().edits(), "{yes}");
        }
        for no in ["Enter", "Tab", "Escape", "ArrowDown", "Control+A", "F5"] {
            assert!(!Stroke::parse(no, false).unwrap().edits(), "{no}");
        }
    }
}
