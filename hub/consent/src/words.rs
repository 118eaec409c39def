//! What each dialog says.

use consentry_gate::{Answer, Asked, ControlAsk, KeyName, Question, QuestionKind, Shown};
use consentry_wire::PathName;
use consentry_wire::dialog::{ButtonStyle, DialogButton, DialogRow, DialogSpec};

/// A dialog and what its buttons mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worded {
    pub(crate) spec: DialogSpec,
    pub(crate) meaning: Vec<(&'static str, Answer)>,
}

/// Words a dialog.
pub(crate) fn word(shown: &Shown, machine: &str) -> Worded {
    let seconds = u16::try_from(shown.until.since(shown.since) / 1000).unwrap_or(u16::MAX);
    match &shown.asked {
        Asked::Control { key, path, ask, minutes, silence_allows, .. } => {
            control(machine, key, path, ask, *minutes, *silence_allows, seconds)
        }
        Asked::Question(question) => ask_question(machine, question, seconds),
    }
}

fn control(
    machine: &str,
    key: &KeyName,
    path: &PathName,
    ask: &ControlAsk,
    minutes: u16,
    silence_allows: bool,
    seconds: u16,
) -> Worded {
    let mut rows = vec![row("Machine", machine), row("Asked by", key.as_str())];
    if let Some(caller) = &ask.caller {
        rows.push(DialogRow { unverified: true, ..row("Calls itself", caller.as_str()) });
    }
    rows.push(row("Path", path.as_str()));
    rows.push(row("For", &format!("{minutes} minutes")));
    if *path == PathName::browser() {
        let sites: Vec<String> = ask.sites.iter().map(ToString::to_string).collect();
        let sites = if sites.is_empty() {
            "each asked about when it is first touched".into()
        } else {
            sites.join(", ")
        };
        rows.push(row("Sites", &sites));
    }
    let (title, warning) = about(path);
    Worded {
        spec: DialogSpec {
            title: title.into(),
            quote: Some(ask.purpose.as_str().into()),
            rows,
            detail: None,
            warning: Some(warning.into()),
            buttons: vec![
                button("cool_down", "Disallow and cool down", ButtonStyle::Quiet),
                button("reject", "Reject", ButtonStyle::Plain),
                permit("allow", "Allow", ButtonStyle::Primary),
            ],
            seconds,
            countdown: if silence_allows {
                "Allowed in {} s unless you reject it."
            } else {
                "Denied in {} s."
            }
            .into(),
        },
        meaning: vec![("cool_down", Answer::CoolDown), ("reject", Answer::Reject), ("allow", Answer::Allow)],
    }
}

/// The title and what the owner should know, for each path.
fn about(path: &PathName) -> (&'static str, &'static str) {
    match path.as_str() {
        "browser" => (
            "Let an agent use your browser?",
            "It acts in your own Chrome, signed in as you, in tabs that you can watch.",
        ),
        "shell" => (
            "Let an agent run commands?",
            "It can do whatever your account can: read, change and delete files, and reach the network.",
        ),
        "computer-headless" => (
            "Let an agent operate your apps?",
            "It reads and presses what your apps show, without taking the screen.",
        ),
        "computer" => ("Let an agent use your screen?", "It sees your screen, moves the mouse and types."),
        "messages" => {
            ("Let an agent read your messages?", "It reads your conversations. It cannot send anything.")
        }
        _ => ("Let an agent use this tool?", "It can do whatever the tool can."),
    }
}

fn ask_question(machine: &str, question: &Question, seconds: u16) -> Worded {
    let mut rows = vec![row("Machine", machine)];
    if let Some(asker) = &question.asker {
        rows.push(row("Asked by", &format!("{} (grant {})", asker.key, asker.grant)));
    }
    let quote = question.asker.as_ref().map(|asker| asker.purpose.clone());
    let deny = || button("reject", "Don't allow", ButtonStyle::Plain);
    let countdown = "Denied in {} s.".to_owned();
    match &question.kind {
        QuestionKind::Site { site, profile } => {
            rows.push(row("Site", &site.to_string()));
            rows.push(row("Browser profile", profile.as_str()));
            let spec = DialogSpec {
                title: "Let the agent use this site?".into(),
                quote,
                rows,
                detail: None,
                warning: Some(site_warning(&site.to_string())),
                buttons: vec![
                    deny(),
                    permit("grant", "This grant only", ButtonStyle::Plain),
                    permit("allow", "Allow and remember", ButtonStyle::Primary),
                ],
                seconds,
                countdown,
            };
            let meaning =
                vec![("reject", Answer::Reject), ("grant", Answer::AllowForGrant), ("allow", Answer::Allow)];
            Worded { spec, meaning }
        }
        QuestionKind::Tool { tool, target, text, for_grant } => {
            rows.push(row("Tool", tool));
            let (lines, chars) = (text.lines().count(), text.chars().count());
            if lines > 1 || chars > 200 {
                rows.push(row("Length", &format!("{lines} lines, {chars} characters: scroll to the end")));
            }
            if !target.is_empty() {
                rows.push(row("On", target));
            }
            let mut buttons = vec![deny()];
            let mut meaning = vec![("reject", Answer::Reject)];
            if *for_grant {
                buttons.push(permit("grant", "Allow for this grant", ButtonStyle::Plain));
                meaning.push(("grant", Answer::AllowForGrant));
            }
            buttons.push(permit("allow", "Allow once", ButtonStyle::Primary));
            meaning.push(("allow", Answer::Allow));
            let spec = DialogSpec {
                title: "Let the agent do this?".into(),
                quote,
                rows,
                detail: Some(without_gaps(text)),
                warning: for_grant
                    .then(|| "“Allow for this grant” holds on every site of the grant until it ends.".into()),
                buttons,
                seconds,
                countdown,
            };
            Worded { spec, meaning }
        }
        QuestionKind::Weaken { changes } => {
            let only_keys = changes.iter().all(|change| change.starts_with("the key "));
            let spec = DialogSpec {
                title: if only_keys {
                    "Let a new key ask for control?"
                } else {
                    "Make Consentry less strict?"
                }
                .into(),
                quote: None,
                rows,
                detail: Some(changes.join("\n")),
                warning: Some(
                    "Settings or keys were changed. If you did not do this, keep the stricter ones.".into(),
                ),
                buttons: vec![
                    button("reject", "Don't allow", ButtonStyle::Plain),
                    permit("allow", "Allow", ButtonStyle::Primary),
                ],
                seconds,
                countdown: "Denied in {} s.".into(),
            };
            Worded { spec, meaning: vec![("reject", Answer::Reject), ("allow", Answer::Allow)] }
        }
    }
}

/// The text with its gaps closed: what matters must not hide below empty lines or behind a run of spaces.
fn without_gaps(text: &str) -> String {
    let mut out = Vec::new();
    let mut empty = 0;
    for line in text.lines().chain(std::iter::once("\u{0}")) {
        if line.trim().is_empty() {
            empty += 1;
            continue;
        }
        match std::mem::take(&mut empty) {
            0 => {}
            1 => out.push(String::new()),
            many => out.push(format!("… {many} empty lines …")),
        }
        if line != "\u{0}" {
            out.push(close_spaces(line));
        }
    }
    out.join("\n")
}

fn close_spaces(line: &str) -> String {
    let mut out = String::new();
    let mut spaces = 0;
    // The end of the line closes the last run.
    for c in line.trim_end().chars() {
        if c.is_whitespace() {
            spaces += 1;
            continue;
        }
        match std::mem::take(&mut spaces) {
            few @ 0..=24 => out.extend(std::iter::repeat_n(' ', few)),
            many => out.push_str(&format!(" … {many} spaces … ")),
        }
        out.push(c);
    }
    out
}

fn site_warning(site: &str) -> String {
    let base = if site.contains("://") {
        "It can read and do there what you can."
    } else {
        "It can read and do there, and on its subdomains, what you can."
    };
    if site.split('.').any(|label| label.starts_with("xn--")) {
        // Letters that look alike are how one site passes for another.
        return format!(
            "{base} The name is written with letters outside a to z: it is shown in its ASCII form."
        );
    }
    base.to_owned()
}

fn row(label: &str, value: &str) -> DialogRow {
    DialogRow { label: label.into(), value: value.into(), unverified: false }
}

fn button(id: &str, label: &str, style: ButtonStyle) -> DialogButton {
    DialogButton { id: id.into(), label: label.into(), style, permits: false }
}

fn permit(id: &str, label: &str, style: ButtonStyle) -> DialogButton {
    DialogButton { permits: true, ..button(id, label, style) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consentry_gate::{Asker, Caller, DialogId, Moment, Purpose, RequestId, parse_site};

    fn shown(asked: Asked) -> Shown {
        Shown { dialog: DialogId(1), asked, since: Moment(0), until: Moment(10_000) }
    }

    #[test]
    fn the_words_of_each_dialog() {
        let ask = |sites: &[&str]| ControlAsk {
            purpose: Purpose::parse("Find the invoices of the third quarter.").unwrap(),
            caller: Caller::parse("Ada's assistant"),
            minutes: None,
            sites: sites.iter().map(|site| parse_site(site).unwrap()).collect(),
        };
        let control = |path: &str, silence_allows, sites: &[&str]| {
            shown(Asked::Control {
                request: RequestId(1),
                key: "claude-code".parse().unwrap(),
                path: path.parse().unwrap(),
                ask: ask(sites),
                minutes: 30,
                silence_allows,
            })
        };
        let question = |kind| {
            shown(Asked::Question(Question {
                asker: Some(Asker {
                    grant: "KQXZ".parse().unwrap(),
                    path: "browser".parse().unwrap(),
                    key: "claude-code".parse().unwrap(),
                    purpose: "Find the invoices of the third quarter.".into(),
                }),
                kind,
            }))
        };
        let all = [
            control("browser", false, &["example.com", "http://localhost:8080"]),
            control("shell", true, &[]),
            question(QuestionKind::Site {
                site: parse_site("bücher.example").unwrap(),
                profile: "k3x9".parse().unwrap(),
            }),
            question(QuestionKind::Tool {
                tool: "evaluate_script".into(),
                target: "https://example.com".into(),
                text: "document.title".into(),
                for_grant: true,
            }),
            question(QuestionKind::Weaken {
                changes: vec!["browser: every site may be touched without asking".into()],
            }),
        ];
        let words: Vec<DialogSpec> = all.iter().map(|shown| word(shown, "desk").spec).collect();
        insta::assert_json_snapshot!("words", words);
    }

    #[test]
    fn nothing_hides_below_empty_lines_or_behind_spaces() {
        let script = format!("document.title{};{}fetch('//evil')", "\n".repeat(300), " ".repeat(5000));
        assert_eq!(
            without_gaps(&script),
            "document.title\n… 299 empty lines …\n; … 5000 spaces … fetch('//evil')"
        );
        assert_eq!(without_gaps("if (a) {\n    b\n\n}"), "if (a) {\n    b\n\n}");
    }

    #[test]
    fn each_button_means_something_and_none_twice() {
        let weaken = shown(Asked::Question(Question {
            asker: None,
            kind: QuestionKind::Weaken { changes: Vec::new() },
        }));
        let worded = word(&weaken, "desk");
        let ids: Vec<&str> = worded.spec.buttons.iter().map(|button| button.id.as_str()).collect();
        assert_eq!(ids, worded.meaning.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    }
}
