//! The dialog's process, with programs in its place that crash, hang and lie.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use consentry_consent::{DialogProcess, probe};
use consentry_core::{Dialog as _, DialogReport};
use consentry_gate::{Answer, Asked, ControlAsk, DialogId, Moment, Purpose, RequestId, Shown};

fn shown(seconds: u64) -> Shown {
    let asked = Asked::Control {
        request: RequestId(1),
        key: "agent".parse().unwrap(),
        path: "browser".parse().unwrap(),
        ask: ControlAsk {
            purpose: Purpose::parse("Test.").unwrap(),
            caller: None,
            minutes: None,
            sites: Vec::new(),
        },
        minutes: 30,
        silence_allows: true,
    };
    Shown { dialog: DialogId(1), asked, since: Moment(0), until: Moment(seconds * 1000) }
}

async fn with(script: &str) -> DialogReport {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("dialog");
    std::fs::write(&program, format!("#!/bin/sh\nread spec\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    DialogProcess::new(program, "desk".into()).ask(shown(1)).await
}

const SHOWN: &str = r#"echo '{"event":"shown"}'"#;

#[tokio::test]
async fn a_click_on_each_button_is_an_answer() {
    for (id, answer) in
        [("allow", Answer::Allow), ("reject", Answer::Reject), ("cool_down", Answer::CoolDown)]
    {
        let closed = format!(r#"echo '{{"event":"closed","answer":{{"kind":"button","id":"{id}"}}}}'"#);
        assert_eq!(with(&format!("{SHOWN}\n{closed}")).await.answer, answer);
    }
}

#[tokio::test]
async fn whatever_else_happens_is_a_denial() {
    let button = r#"echo '{"event":"closed","answer":{"kind":"button","id":"allow"}}'"#;
    let silence = r#"echo '{"event":"closed","answer":{"kind":"timed_out"}}'"#;
    for (script, answer) in [
        ("exit 1".to_owned(), Answer::Withdrawn),
        (format!("{SHOWN}\nkill -9 $$"), Answer::Withdrawn),
        (format!("{SHOWN}\nsleep 30"), Answer::NoDisplay),
        (format!("{SHOWN}\necho nonsense"), Answer::NoDisplay),
        (button.to_owned(), Answer::NoDisplay),
        (silence.to_owned(), Answer::NoDisplay),
        (format!("{SHOWN}\n{}", button.replace("allow", "please")), Answer::NoDisplay),
        (r#"echo '{"event":"closed","answer":{"kind":"screen_locked"}}'"#.to_owned(), Answer::ScreenLocked),
        (format!("{SHOWN}\nyes '{{\"event\":\"shown\"}}' | head -c 3000000"), Answer::NoDisplay),
    ] {
        let started = Instant::now();
        let report = with(&script).await;
        assert_eq!(report.answer, answer, "{script}: {:?}", report.notes);
        assert!(started.elapsed() < Duration::from_secs(10), "{script}");
    }
}

#[tokio::test]
async fn silence_counts_only_after_the_dialog_was_shown() {
    let silence = r#"echo '{"event":"closed","answer":{"kind":"timed_out"}}'"#;
    assert_eq!(with(&format!("{SHOWN}\n{silence}")).await.answer, Answer::TimedOut);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_no_display_and_the_probe_says_so() {
    let nowhere = std::path::PathBuf::from("/nowhere/consentry-dialog");
    let report = DialogProcess::new(nowhere.clone(), "desk".into()).ask(shown(1)).await;
    assert_eq!(report.answer, Answer::NoDisplay);
    let probe = probe(&nowhere).await;
    assert!(!probe.ready && probe.detail.contains("/nowhere/consentry-dialog"));
}
