//! The specification, checked: a dialog with nothing to click or nothing to read is not shown.

use std::collections::HashSet;

use anyhow::{Context as _, ensure};
use consentry_wire::dialog::DialogSpec;

/// More buttons than this are a mistake.
const MOST_BUTTONS: usize = 4;
/// A longer text would not be read, nor set in time.
const LONGEST_DETAIL: usize = 1024 * 1024;

/// Reads one line.
pub(crate) fn parse(line: &str) -> anyhow::Result<DialogSpec> {
    let spec: DialogSpec = serde_json::from_str(line).context("cannot read the specification")?;
    ensure!(!spec.title.trim().is_empty(), "the specification has no title");
    ensure!((1..=MOST_BUTTONS).contains(&spec.buttons.len()), "a dialog has 1 to {MOST_BUTTONS} buttons");
    let ids: HashSet<&str> = spec.buttons.iter().map(|button| button.id.as_str()).collect();
    ensure!(ids.len() == spec.buttons.len(), "two buttons have the same id");
    for button in &spec.buttons {
        ensure!(!button.id.is_empty(), "a button has no id");
        ensure!(!button.label.trim().is_empty(), "the button {:?} has no label", button.id);
    }
    ensure!(spec.seconds > 0, "the dialog would be gone at once");
    let detail = spec.detail.as_ref().map_or(0, String::len);
    ensure!(detail <= LONGEST_DETAIL, "the detail has {detail} bytes, more than {LONGEST_DETAIL}");
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"{"title":"Let it?","rows":[],"buttons":[{"id":"reject","label":"Reject"},{"id":"allow","label":"Allow","style":"primary"}],"seconds":10,"countdown":"Denied in {} s."}"#;

    #[test]
    fn a_good_one_is_read() {
        assert_eq!(parse(GOOD).unwrap().buttons.len(), 2);
    }

    #[test]
    fn a_dialog_that_could_not_be_answered_or_read_is_refused() {
        for (from, to) in [
            ("Let it?", " "),
            ("allow", "reject"),
            (r#""Allow""#, r#""""#),
            (r#""id":"allow""#, r#""id":"""#),
            (r#""seconds":10"#, r#""seconds":0"#),
            (r#"{"id":"reject","label":"Reject"},{"id":"allow","label":"Allow","style":"primary"}"#, ""),
        ] {
            let changed = GOOD.replace(from, to);
            assert_ne!(changed, GOOD);
            assert!(parse(&changed).is_err(), "{changed}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in ".*") {
            drop(parse(&line));
        }
    }
}
